"""What it costs that a machine can be taken away."""

from __future__ import annotations

import math

from gpufleet.domain.arrays import Floats
from gpufleet.units import HOURS_PER_MONTH


def interruptions_per_hour(reclaimed_ratio: float, ran_hours: float = HOURS_PER_MONTH) -> float:
    """Interruptions per machine-hour, of machines of which a share is reclaimed while they run so long.

    r = -ln(1 - share) / t   [1/h]   As if they came at random, at a steady rate; t is a month of 730 h unless said.

    >>> round(interruptions_per_hour(0.2) * 730, 3)
    0.223
    """
    return -math.log1p(-reclaimed_ratio) / ran_hours


def paid_work_s(work_s: Floats, per_s: Floats, startup_s: float, lost_s: Floats) -> Floats:
    """Time that a machine is paid for when interrupted work is repeated.

    t = startup + work (1 + r (startup + lost))   [s]   Each interruption loses the work in flight and starts anew.

    >>> paid_work_s(7200.0, 1 / 7200, startup_s=600.0, lost_s=30.0)
    8430.0
    """
    return startup_s + work_s * (1 + per_s * (startup_s + lost_s))


def elapsed_work_s(work_s: Floats, per_s: Floats, startup_s: float, lost_s: Floats, wait_s: Floats) -> Floats:
    """Time until the work is done: what is paid, and the waits for another machine.

    t = startup + work (1 + r (startup + lost + wait))   [s]

    >>> elapsed_work_s(7200.0, 1 / 7200, startup_s=600.0, lost_s=30.0, wait_s=3600.0)
    12030.0
    """
    return paid_work_s(work_s, per_s, startup_s, lost_s) + work_s * per_s * wait_s
