"""What a grade means, in a sentence, and how a verdict looks."""

from __future__ import annotations

from typing import Literal

from gpufleet.domain.verdict import FITS

GRADES = {
    "measured": "kernels of this GPU were measured",
    "transferred": "kernels of the nearest relative of this GPU were measured",
    "roofline": "not all kernels of this GPU were measured, or no run of this engine; the rest are peaks and counts",
    "seed rule": "rules of thumb alone",
}


def grade_line(grade: str) -> str:
    """The grade and what it rests on.

    >>> grade_line("measured")
    'Grade measured: kernels of this GPU were measured.'
    """
    return f"Grade {grade}: {GRADES[grade]}."


def memory_look(verdict: str) -> Literal["good", "tight"]:
    """The colour of something that fits, with room or without.

    >>> memory_look("fits"), memory_look("tight")
    ('good', 'tight')
    """
    return "good" if verdict == FITS else "tight"
