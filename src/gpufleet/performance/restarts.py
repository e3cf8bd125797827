"""How long work takes that is saved now and then, and starts again from there when something stops it."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.domain.interruption import Spread
from gpufleet.units import HOUR

NEVER_S = np.inf


def stops_per_s(num_gpus: Floats, per_gpu_hour: Floats, num_machines: Floats, per_machine_hour: Floats) -> FloatArray:
    """Stops per second of a run in which every GPU waits for every other: whatever stops one of them stops all.

    (GPUs x failures + machines x reclaims) / 3600   [1/s]   Independent Poisson processes, whose rates add up.
    `per_machine_hour` is 0 for machines that are not taken away.

    >>> round(float(stops_per_s(64, 2e-5, 8, 0.0045)) * 86400, 3)
    0.895
    """
    return np.asarray(num_gpus * np.asarray(per_gpu_hour) + num_machines * np.asarray(per_machine_hour)) / HOUR


def mean_between_s(per_s: Floats) -> FloatArray:
    """Mean time between stops; infinite where nothing stops the run.

    M = 1 / r   [s]

    >>> mean_between_s(0.0), mean_between_s(0.01)
    (array(inf), array(100.))
    """
    rate = np.asarray(per_s, dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.where(rate > 0, 1 / np.where(rate > 0, rate, 1.0), NEVER_S)


def machine_mtbf_hours(per_gpu_hour: Spread, gpus_per_machine: float) -> Spread:
    """Mean hours between failures of one machine, whichever of its GPUs brings it down.

    MTBF = 1 / (failures per GPU-hour x GPUs)   [h]   The least is of the most failures. Failures are counted for each
    GPU with its share of the machine, so that one of fewer GPUs fails less often.

    >>> found = machine_mtbf_hours(Spread(1e-5, 2e-5, 4e-5), 8)
    >>> round(found.low), round(found.expected), round(found.high)
    (3125, 6250, 12500)
    """
    ends = (per_gpu_hour.high, per_gpu_hour.expected, per_gpu_hour.low)
    return Spread(*(float(mean_between_s(rate * gpus_per_machine)) for rate in ends))


def first_order_interval_s(write_s: Floats, mean_between_s: Floats) -> FloatArray:
    """Work between two checkpoints that loses the least time, where a write is short beside the time between stops.

    tau = sqrt(2 delta M)   [s]   delta: to write a checkpoint; M: mean time between stops.
    Source: Young 1974, doi:10.1145/361147.361115. Valid: delta << M.

    >>> first_order_interval_s(300.0, 86400.0)
    array(7200.)
    """
    return np.asarray(np.sqrt(2.0 * np.asarray(write_s, dtype=np.float64)) * np.sqrt(mean_between_s))


def checkpoint_interval_s(write_s: Floats, mean_between_s: Floats) -> FloatArray:
    """Work between two checkpoints that loses the least time.

    tau = sqrt(2 delta M) (1 + x / 3 + x^2 / 9) - delta, x = sqrt(delta / 2 M); M where delta >= 2 M   [s]
    Source: Daly 2006, doi:10.1016/j.future.2004.11.016. At most 0.2 % longer than with the best one.
    Never more than M; 0 where a write takes no time, infinite where nothing stops the run.

    >>> round(float(checkpoint_interval_s(300.0, 86400.0)) / 60, 1)
    116.7
    """
    write, between = np.broadcast_arrays(*(np.asarray(each, dtype=np.float64) for each in (write_s, mean_between_s)))
    finite = np.where(np.isfinite(between), between, 1.0)
    half = write / 2.0
    x = np.minimum(np.sqrt(half / finite), 1.0)
    higher_order = first_order_interval_s(write, finite) * (1.0 + x / 3.0 + x**2 / 9.0) - write
    found = np.where(half < finite, np.minimum(higher_order, finite), finite)
    return np.where(np.isfinite(between), found, NEVER_S)


def elapsed_run_s(
    work_s: Floats, failures_per_s: Floats, write_s: Floats, restart_s: Floats, interval_s: Floats
) -> FloatArray:
    """Mean time until work is done that is saved after every `interval_s` of it; what was not saved is done again.

    T = M exp(R / M) (exp((tau + delta) / M) - 1) W / tau, M = 1 / failures; W (1 + delta / tau) where none   [s]
    Source: Daly 2006, doi:10.1016/j.future.2004.11.016. Stops at random, at a steady rate, also while
    writing and starting again; R: from the stop until the work goes on. An interval is no longer than the work, whose
    end is saved too. Infinite where stops come so often that the work never ends.

    >>> run_s = elapsed_run_s(500 * 3600.0, 1 / 86400, write_s=300.0, restart_s=600.0, interval_s=7020.0)
    >>> round(float(run_s) / 3600, 1)
    547.9
    """
    work = np.asarray(work_s, dtype=np.float64)
    interval = np.minimum(interval_s, work)
    is_saved = interval > 0
    segment = interval + np.asarray(write_s, dtype=np.float64)
    stretched = np.where(is_saved, segment / np.where(is_saved, interval, 1.0), np.where(segment > 0, NEVER_S, 1.0))
    with np.errstate(over="ignore"):
        repeated = _growth(segment * failures_per_s) * np.exp(np.asarray(restart_s) * failures_per_s)
        return np.where(work > 0, np.where(work > 0, work, 1.0) * stretched * repeated, 0.0)


def _growth(expected_stops: Floats) -> FloatArray:
    """How much longer a segment takes that begins anew at each stop: (exp(y) - 1) / y; 1 where nothing stops it."""
    stops = np.asarray(expected_stops, dtype=np.float64)
    return np.where(stops > 0, np.expm1(stops) / np.where(stops > 0, stops, 1.0), 1.0)


def lost_ratio(work_s: Floats, elapsed_s: Floats) -> FloatArray:
    """Share of the time in which the work does not advance: writes, restarts and what is done again.

    1 - W / T   [0..1]   What operators call effective training time is the rest.

    >>> lost_ratio(90.0, 100.0)
    array(0.1)
    """
    elapsed = np.asarray(elapsed_s, dtype=np.float64)
    return np.where(elapsed > 0, 1.0 - work_s / np.where(elapsed > 0, elapsed, 1.0), 0.0)


def stops_in(elapsed_s: Floats, failures_per_s: Floats) -> FloatArray:
    """Stops to be expected while the run lasts.

    n = T / M   [count]

    >>> round(float(stops_in(54 * 86400.0, 1 / 11135)))
    419
    """
    return np.asarray(elapsed_s * np.asarray(failures_per_s))
