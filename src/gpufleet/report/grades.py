"""What a grade means, in a sentence."""

from __future__ import annotations

GRADES = {
    "measured": "kernels of this GPU were measured",
    "transferred": "kernels of the nearest relative of this GPU were measured",
    "roofline": "not all kernels of this GPU were measured, the rest are peak figures of its datasheet",
    "seed rule": "rules of thumb alone",
}


def grade_line(grade: str) -> str:
    """The grade and what it rests on.

    >>> grade_line("measured")
    'Grade measured: kernels of this GPU were measured.'
    """
    return f"Grade {grade}: {GRADES[grade]}."
