"""The day on which prices must hold, and from which their age counts: the one place that asks the clock for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date

from gpufleet.errors import UsageError

DATE_VARIABLE = "GPUFLEET_DATE"


def current_date(environment: Mapping[str, str] | None = None) -> date:
    """The day it is here, or the one that GPUFLEET_DATE names, so that an answer can be printed again as it was.

    >>> current_date({"GPUFLEET_DATE": "2026-11-22"})
    datetime.date(2026, 11, 22)
    """
    named = (os.environ if environment is None else environment).get(DATE_VARIABLE, "").strip()
    if not named:
        return date.today()
    try:
        return date.fromisoformat(named)
    except ValueError:
        raise UsageError(f"{DATE_VARIABLE} names no day", found=named, expected="a day such as 2026-11-22") from None
