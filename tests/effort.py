"""How many random cases are checked: what every run can wait for, as many as `make brute-force` has time for, or the
few that `make mutants` asks about each change."""

from __future__ import annotations

import os

IS_THOROUGH, IS_BRIEF = (bool(os.environ.get(name)) for name in ("THOROUGH", "BRIEF"))
BRIEF_CASES = 120


def cases(usual: int, thorough: int) -> int:
    """So many in every run, and so many where nobody waits.

    >>> cases(16, 40) == (40 if IS_THOROUGH else 16)
    True
    """
    if IS_THOROUGH:
        return thorough
    return min(usual, BRIEF_CASES) if IS_BRIEF else usual
