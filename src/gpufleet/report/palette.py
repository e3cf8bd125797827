"""Colours of pages and pictures, in the light, in the dark and on paper; names say what a colour is for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

LIGHT = {
    "page": "#ffffff", "panel": "#f6f8fa", "ink": "#1b1f24", "soft": "#59636e", "grid": "#d8dee4",
    "line": "#0072b2", "over": "#c24e00", "code": "#f6f8fa",
    "good": "#116329", "on-good": "#dafbe1", "tight": "#704700", "on-tight": "#fff3d1",
    "bad": "#a40e26", "on-bad": "#ffebe9",
}  # fmt: skip
DARK = {
    "page": "#0d1117", "panel": "#161b22", "ink": "#e6edf3", "soft": "#a3adb8", "grid": "#30363d",
    "line": "#3a9be0", "over": "#ff8a4c", "code": "#161b22",
    "good": "#6fdd8b", "on-good": "#10271a", "tight": "#eac55f", "on-tight": "#2b2208",
    "bad": "#ff9d94", "on-bad": "#331316",
}  # fmt: skip
PAPER = {**LIGHT, "ink": "#000000", "soft": "#444444"}
READ_ON = (
    ("ink", "page"), ("ink", "panel"), ("ink", "code"), ("soft", "page"), ("soft", "panel"),
    ("good", "on-good"), ("tight", "on-tight"), ("bad", "on-bad"), ("ink", "on-good"), ("ink", "on-tight"),
    ("ink", "on-bad"),
)  # fmt: skip
"""Text and what is behind it."""
SEEN_ON = (("line", "page"), ("over", "page"), ("soft", "page"))
"""Lines and bars that carry a meaning, and what is behind them."""


def themed(selector: str, names: Iterable[str] = tuple(LIGHT)) -> str:
    """Style in which an element knows these colours, by the reader's choice of light or dark, light on paper."""
    wanted = tuple(names)
    light, dark, paper = (variables(theme, wanted) for theme in (LIGHT, DARK, PAPER))
    return (
        f"{selector}{{{light}}}\n@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}\n"
        f"@media print{{{selector}{{{paper}}}}}\n"
    )


def variables(theme: Mapping[str, str], names: Iterable[str]) -> str:
    """Colours of a theme as variables.

    >>> variables(LIGHT, ["page", "line"])
    '--page:#ffffff;--line:#0072b2'
    """
    return ";".join(f"--{name}:{theme[name]}" for name in names)
