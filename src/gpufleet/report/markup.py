"""A text in HTML or SVG: nothing in it is markup, and every character is one that XML has."""

from __future__ import annotations

from html import escape

from gpufleet.report.controls import printable


def marked_up(text: str) -> str:
    """The text between tags, or in the quotes of an attribute.

    >>> marked_up("<b>\\x00'\\"&")
    '&lt;b&gt;?&#x27;&quot;&amp;'
    """
    return escape(printable(text))
