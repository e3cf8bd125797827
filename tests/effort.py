"""How many random cases are checked: what every run can wait for, or as many as `make brute-force` has time for."""

from __future__ import annotations

import os

IS_THOROUGH = bool(os.environ.get("THOROUGH"))


def cases(usual: int, thorough: int) -> int:
    """So many in every run, and so many where nobody waits.

    >>> cases(16, 40) == (40 if IS_THOROUGH else 16)
    True
    """
    return thorough if IS_THOROUGH else usual
