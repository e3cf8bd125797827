"""Whether what is measured of copies is what their plan says."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.ask.watch.shape import AS_PLANNED, BROKEN, UNKNOWN, WatchedFigure
from gpufleet.monitor.measured import COPIES, GPUS, KV, Values
from gpufleet.monitor.watched import Range, WatchedCopies

ABOVE, BELOW = "above plan", "below plan"


def figures_of(copies: WatchedCopies, measured: Values) -> Iterator[WatchedFigure]:
    """All figures of a group of copies, latencies first."""
    for label, expected in copies.latency.items():
        yield latency(copies, label, expected, measured.get(label))
    yield requests(copies, measured.get("requests_per_s"))
    yield tokens(copies, measured)
    most = copies.most_running * copies.replicas
    yield plain(copies, "running", "requests", measured.get("running"), high=most)
    yield plain(copies, "waiting", "requests", measured.get("waiting"))
    yield plain(copies, KV, "1", measured.get(KV))
    yield counted(copies, COPIES, copies.replicas, measured.get(COPIES))
    if GPUS in measured:
        yield counted(copies, GPUS, copies.replicas * copies.gpus_per_replica, measured[GPUS])


def latency(copies: WatchedCopies, label: str, expected: Range, measured: float | None) -> WatchedFigure:
    """A latency against its limit, else against its range."""
    limit = copies.objectives.get(label)
    is_broken = measured is not None and limit is not None and measured > limit
    state = BROKEN if is_broken else within(measured, expected.low, expected.high)
    return WatchedFigure(
        copies=copies.name,
        name=label,
        unit="s",
        measured=measured,
        planned=expected.value,
        low=expected.low,
        high=expected.high,
        limit=limit,
        state=state,
    )


def within(measured: float | None, low: float | None, high: float | None) -> str:
    """Where a value stands to a range.

    >>> within(3.0, 1.0, 2.0), within(None, 1.0, 2.0)
    ('above plan', 'unknown')
    """
    if measured is None:
        return UNKNOWN
    if high is not None and measured > high:
        return ABOVE
    return BELOW if low is not None and measured < low else AS_PLANNED


def requests(copies: WatchedCopies, measured: float | None) -> WatchedFigure:
    """The rate against what was asked for, and against what the copies carry."""
    most = copies.requests_per_s_capacity.value
    state = BROKEN if measured is not None and measured > most else within(measured, None, copies.requests_per_s)
    return plain(copies, "requests_per_s", "1/s", measured, planned=copies.requests_per_s, limit=most, state=state)


def tokens(copies: WatchedCopies, measured: Values) -> WatchedFigure:
    """Tokens a second beside those of the planned rate."""
    planned = copies.requests_per_s * copies.output_tokens
    value = measured.get("output_tokens_per_s")
    return plain(copies, "output_tokens_per_s", "tokens/s", value, planned=planned, state=within(value, None, planned))


def counted(copies: WatchedCopies, name: str, planned: int, measured: float | None) -> WatchedFigure:
    """A count: fewer than planned break the promise; more cost more."""
    is_broken = measured is not None and measured < planned
    state = BROKEN if is_broken else within(measured, planned, planned)
    return plain(copies, name, "of them", measured, planned=float(planned), state=state)


def plain(
    copies: WatchedCopies,
    name: str,
    unit: str,
    measured: float | None,
    *,
    planned: float | None = None,
    high: float | None = None,
    limit: float | None = None,
    state: str | None = None,
) -> WatchedFigure:
    """A figure, by what is known of it."""
    told = state if state is not None else UNKNOWN if measured is None else ""
    return WatchedFigure(
        copies=copies.name, name=name, unit=unit, measured=measured, planned=planned, high=high, limit=limit, state=told
    )
