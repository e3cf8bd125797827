"""Characters that no reader sees and that change what is seen: one home for them, and how each form shows them."""

from __future__ import annotations

import re

CONTROLS = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: they move the cursor, colour the screen, end the line
    "\u061c\u200e\u200f\u2066-\u206f"  # marks and isolates that turn the direction of writing
    "\u2028-\u202e"  # two ends of lines, embeddings and overrides of the direction
    "\ud800-\udfff"  # halves of characters, which no encoding writes
    "]"
)


def visible(text: str) -> str:
    r"""The text with every control as its number, as JSON reads it back.

    >>> print(visible("a\x1b[31m\u202eb"), visible("東京 é"))
    a\u001b[31m\u202eb 東京 é
    """
    return CONTROLS.sub(lambda control: f"\\u{ord(control[0]):04x}", text)


def visible_lines(text: str) -> str:
    """The same of every line."""
    return "\n".join(map(visible, text.split("\n")))


def printable(text: str) -> str:
    """The text without control characters: a model's name cannot move the cursor or colour the screen."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\n\r" else "?" for c in text)
