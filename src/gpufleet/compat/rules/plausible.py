"""What a rule of thumb refuses: numbers with which it would divide by zero or answer below it."""

from __future__ import annotations

import math

from gpufleet.errors import UsageError


def refuse_unless(is_plausible: bool, name: str, found: float, expected: str) -> None:
    """An error of the house where a rule cannot be applied; nan and infinity never can."""
    if not is_plausible or not math.isfinite(found):
        raise UsageError(f"{name} cannot be used", found=found, expected=expected)


def refuse_share(name: str, ratio: float) -> None:
    """A share is from 0 to 1."""
    refuse_unless(0 <= ratio <= 1, name, ratio, "a share from 0 to 1")
