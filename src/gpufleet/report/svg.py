"""What pictures have in common: a document that also stands alone, text in it, and room for names beside marks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpufleet.report.markup import marked_up


class Box(NamedTuple):
    """A rectangle of a picture, in pixels."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def around(cls, x: float, y: float, half: float) -> Box:
        """A square by its middle."""
        return cls(x - half, y - half, x + half, y + half)

    def meets(self, other: Box) -> bool:
        """Whether two lie on each other; those that touch do not."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def touches(self, other: Box) -> bool:
        """Whether two share an edge or more."""
        is_beside = self.right < other.left or other.right < self.left
        return not (is_beside or self.bottom < other.top or other.bottom < self.top)

    def holds(self, x: float, y: float) -> bool:
        """Whether a place is inside."""
        return self.left <= x <= self.right and self.top <= y <= self.bottom

    def is_free(self, within: Box, taken: Iterable[Box]) -> bool:
        """Whether it lies within another and on nothing that is taken."""
        return (
            within.holds(self.left, self.top)
            and within.holds(self.right, self.bottom)
            and not any(map(self.meets, taken))
        )


def svg_document(look: str, width: float, height: float, title: str, style: str, parts: Iterable[str]) -> str:
    """One picture that also stands alone, on a page of its colour; elements of its class have the style."""
    return "\n".join(
        [
            f'<svg class="{look}" xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            f"<title>{marked_up(title)}</title><style>{style}</style>",
            f'<rect class="page" width="{width}" height="{height}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def written(x: float, y: float, text: str, look: str = "") -> str:
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{look}">{marked_up(text)}</text>'
