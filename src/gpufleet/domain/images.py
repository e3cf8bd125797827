"""Images in a request, and what a model makes of them."""

from __future__ import annotations

from gpufleet.records import dataclass

MOST_IMAGES, LONGEST_SIDE_PIXELS = 1_000, 20_000


@dataclass(frozen=True)
class Images:
    """`count` images of one size in each request.

    >>> str(Images(2, 1024, 768))
    '2x1024x768'
    """

    count: int
    width_pixels: int
    height_pixels: int

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_IMAGES:
            raise ValueError(f"a request has 1 to {MOST_IMAGES:,} images, found {self.count!r}")
        for side in (self.width_pixels, self.height_pixels):
            if not 1 <= side <= LONGEST_SIDE_PIXELS:
                raise ValueError(f"a side of an image has 1 to {LONGEST_SIDE_PIXELS:,} pixels, found {side!r}")

    def __str__(self) -> str:
        return f"{self.count}x{self.width_pixels}x{self.height_pixels}"


@dataclass(frozen=True)
class PromptImages:
    """What images add to a prompt: its tokens, and FLOP of the vision tower."""

    images: Images
    tokens: float
    tower_flop: float
