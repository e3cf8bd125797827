"""What is measured of a replay: latencies with their intervals, limits, goodput, the queue, and what the engine did.

Columns of ten million requests are float64 and are taken one metric at a time, so that they never all stand beside the
replay itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict

import numpy as np

from gpufleet.domain.arrays import AnyArray, BoolArray, FloatArray
from gpufleet.domain.replay import ANSWERED, FATES, FROM_CACHE, UNFINISHED, Replay, Timeline
from gpufleet.domain.slo import METRICS, Limit, Slo
from gpufleet.records import dataclass
from gpufleet.simulate.intervals import Estimated, mean_of, share_of, summary
from gpufleet.simulate.stability import LEVEL, QueueTrend, queue_trend
from gpufleet.simulate.step_function import highest_between, means_between, values_at
from gpufleet.simulate.warm_up import warm_up

MOST_POINTS, MOST_SHARES = 240, 100
Latencies = Mapping[str, Mapping[str, Estimated]]


@dataclass(frozen=True)
class Counted:
    """The requests that are measured, from index `first` on, and the time over which work is counted.

    `is_settled`: TTFT is level over them, as far as can be seen.
    """

    first: int
    start_s: float
    end_s: float
    is_settled: bool = True

    @property
    def window_s(self) -> float:
        """Seconds over which work is counted."""
        return self.end_s - self.start_s


@dataclass(frozen=True)
class ClassMeasured:
    """One class of requests: how many are measured, and metric -> statistic -> figure of those that were answered."""

    name: str
    num_requests: int
    latency: Latencies


@dataclass(frozen=True)
class LimitMeasured:
    """A limit, the share of requests within its seconds, and its statistic.

    A request that was refused, timed out or was too long is outside of every limit; so is one without an end that
    has waited too long already. `is_kept`: of a percentile, that as many as it names are within; `is_sure`: so are both
    ends of the share's interval, or neither is.
    """

    limit: Limit
    within_ratio: Estimated
    value: Estimated | None
    is_kept: bool
    is_sure: bool


@dataclass(frozen=True)
class Level:
    """A quantity over the counted time: its mean over time and its highest value."""

    mean: float
    highest: float


@dataclass(frozen=True, eq=False)
class Measured:
    """All figures of a replay. Ratios are None where there is nothing to take a share of.

    `num_arrived` requests came before the end; `fates` count them all, `latency` and `classes` those from
    `counted.first` on that were answered. `goodput_requests_per_s` counts requests that keep every limit on them.
    `distributions` are (shares, seconds) of each metric.
    """

    counted: Counted
    num_arrived: int
    num_counted: int
    latency: Latencies
    classes: tuple[ClassMeasured, ...]
    limits: tuple[LimitMeasured, ...]
    distributions: Mapping[str, tuple[FloatArray, FloatArray]]
    requests_per_s: float
    goodput_requests_per_s: float
    output_tokens_per_s: float
    input_tokens_per_s: float
    utilisation_ratio: float | None
    kv_used: Level
    running: Level
    waiting: Level
    replicas: Level
    prefix_hit_ratio: float | None
    preemptions: int
    num_preempted: int
    retries: int
    fates: Mapping[str, int]
    queue: QueueTrend


def measured(
    replay: Replay, slo: Slo | None = None, *, whole: bool = False, warm_up_s: float | None = None
) -> Measured:
    """The figures of a replay.

    `whole`: it starts and ends empty by design (a burst, a day), so that every request and every second counts.
    `warm_up_s`: requests of the first so many seconds are left out; None finds where TTFT has settled. Where the queue
    grows nothing settles, and every request counts.
    """
    queue = growth(replay)
    counted = counted_of(replay, whole, 0.0 if queue.is_growing else warm_up_s)
    limits = slo.limits if slo is not None else ()
    is_done = answered(replay) & (replay.finish_s >= counted.start_s) & (replay.finish_s <= counted.end_s)
    within = [limit_measured(replay, limit, counted) for limit in limits]
    everyone = class_measured(replay, "", counted)
    return Measured(
        counted=counted,
        num_arrived=num_arrived(replay),
        num_counted=everyone.num_requests,
        latency=everyone.latency,
        classes=tuple(classes_measured(replay, counted)),
        limits=tuple(within),
        distributions=distributions(replay, counted),
        goodput_requests_per_s=rate(is_done & keeps_all(replay, limits), counted),
        **work_done(replay, is_done, counted),
        **engine_levels(replay, counted),
        **engine_shares(replay),
        preemptions=int(replay.preemptions.sum()),
        num_preempted=int(np.count_nonzero(replay.preemptions)),
        retries=int(replay.retries.sum()),
        fates=fates_counted(replay),
        queue=queue,
    )


def answered(replay: Replay) -> BoolArray:
    """Requests that got a whole answer, of a replica or of the response cache."""
    return np.asarray((replay.fate == ANSWERED) | (replay.fate == FROM_CACHE))


def num_arrived(replay: Replay) -> int:
    """Requests that came before the end; a replay that was stopped has not seen the others."""
    return int(np.searchsorted(replay.requests.arrival_s, replay.end_s, side="right"))


def counted_of(replay: Replay, whole: bool, warm_up_s: float | None) -> Counted:
    """From which request on, and over what time, a replay is measured: to the last arrival, after which it drains."""
    arrivals = replay.requests.arrival_s[: num_arrived(replay)]
    if not len(arrivals):
        return Counted(0, 0.0, replay.end_s)
    begin_s, last_s = float(arrivals[0]), float(arrivals[-1])
    if whole or not last_s > begin_s:
        return Counted(0, begin_s, replay.end_s)
    if warm_up_s is not None:
        first = int(np.searchsorted(arrivals, begin_s + warm_up_s))
        return (
            Counted(first, begin_s + warm_up_s, last_s) if begin_s + warm_up_s < last_s else Counted(0, begin_s, last_s)
        )
    ttft_s = replay.ttft_s[: len(arrivals)]
    known = np.flatnonzero(np.isfinite(ttft_s))
    cut = warm_up(ttft_s[known])
    first = int(known[cut.num_values]) if cut.num_values else 0
    return Counted(first, float(arrivals[first]), last_s, cut.is_settled)


def column(replay: Replay, metric: str) -> FloatArray:
    """Seconds of every request; NaN where it has none."""
    return {"ttft": lambda: replay.ttft_s, "tpot": lambda: replay.tpot_s, "latency": lambda: replay.latency_s}[metric]()


def class_measured(replay: Replay, name: str, counted: Counted) -> ClassMeasured:
    """Every statistic of the answered requests of a class, of all of them for ''."""
    members = members_of(replay, name)[counted.first :]
    chosen = members & answered(replay)[counted.first :]
    latency = {}
    for metric in METRICS:
        seconds = column(replay, metric)[counted.first :][chosen]
        latency[metric] = summary(seconds[np.isfinite(seconds)])
    return ClassMeasured(name, int(np.count_nonzero(members)), latency)


def classes_measured(replay: Replay, counted: Counted) -> Iterator[ClassMeasured]:
    """Each class, where there are several."""
    names = replay.requests.class_names
    for name in names if len(names) > 1 else ():
        yield class_measured(replay, name, counted)


def members_of(replay: Replay, request_class: str) -> BoolArray:
    """Requests of a class that arrived before the end; of all classes for ''."""
    names = replay.requests.class_names
    of_class = np.arange(len(replay.requests)) < num_arrived(replay)
    if request_class not in names or (request_class == "" and len(names) > 1):
        return of_class if request_class == "" else np.zeros_like(of_class)
    return np.asarray(of_class & (replay.requests.request_class == names.index(request_class)))


def within_limit(replay: Replay, limit: Limit) -> tuple[BoolArray, BoolArray]:
    """Which requests are within a limit's seconds, and of which that can be told.

    Answers of one token have no TPOT, and keep any limit on it.
    """
    seconds, is_answered = column(replay, limit.metric), answered(replay)
    is_within = is_answered & ~(seconds >= limit.limit_s)
    is_open = replay.fate == UNFINISHED
    has_begun = is_open & np.isfinite(replay.first_token_s)
    waited_s = np.where(has_begun & (limit.metric == "ttft"), seconds, replay.end_s - replay.requests.arrival_s)
    is_late = is_open & (waited_s >= limit.limit_s) & (limit.metric != "tpot")
    if limit.metric == "ttft":
        is_within |= has_begun & ~is_late
        return is_within, ~is_open | is_late | has_begun
    return is_within, ~is_open | is_late


def limit_measured(replay: Replay, limit: Limit, counted: Counted) -> LimitMeasured:
    """A limit over the measured requests of its class."""
    is_within, is_told = within_limit(replay, limit)
    chosen = (members_of(replay, limit.request_class) & is_told)[counted.first :]
    share = mean_of(is_within[counted.first :][chosen]) or Estimated(0.0)
    share = Estimated(share.value, share.low, None if share.high is None else min(share.high, 1.0))
    seconds = column(replay, limit.metric)[counted.first :][chosen & answered(replay)[counted.first :]]
    value = summary(seconds[np.isfinite(seconds)]).get(limit.statistic)
    wanted = share_of(limit.statistic)
    if wanted is None:
        return mean_limit(limit, share, value)
    ends = [share.value >= wanted, *(end >= wanted for end in share[1:] if end is not None)]
    return LimitMeasured(limit, share, value, ends[0], len(ends) == 3 and len(set(ends)) == 1)


def mean_limit(limit: Limit, share: Estimated, value: Estimated | None) -> LimitMeasured:
    """A limit on the mean, which is that of answered requests."""
    if value is None:
        return LimitMeasured(limit, share, None, False, False)
    ends = [end < limit.limit_s for end in value if end is not None]
    return LimitMeasured(limit, share, value, ends[0], len(ends) == 3 and len(set(ends)) == 1)


def keeps_all(replay: Replay, limits: tuple[Limit, ...]) -> BoolArray:
    """Requests within the seconds of every limit on them."""
    kept = np.ones(len(replay.requests), dtype=np.bool_)
    for limit in limits:
        kept &= within_limit(replay, limit)[0] | ~members_of(replay, limit.request_class)
    return kept


def rate(chosen: BoolArray, counted: Counted) -> float:
    """Requests a second of the counted time."""
    return per_second(float(np.count_nonzero(chosen)), counted)


class Work(TypedDict):
    """What was finished, a second of the counted time."""

    requests_per_s: float
    output_tokens_per_s: float
    input_tokens_per_s: float


class Levels(TypedDict):
    """What stood in the cluster over the counted time."""

    kv_used: Level
    running: Level
    waiting: Level
    replicas: Level


class Shares(TypedDict):
    """Shares of the whole replay; None where there is nothing to take one of."""

    utilisation_ratio: float | None
    prefix_hit_ratio: float | None


def work_done(replay: Replay, is_done: BoolArray, counted: Counted) -> Work:
    """Requests and tokens that were finished, a second of the counted time."""
    requests = replay.requests
    return Work(
        requests_per_s=rate(is_done, counted),
        output_tokens_per_s=per_second(requests.output_tokens[is_done].sum(), counted),
        input_tokens_per_s=per_second(requests.input_tokens[is_done].sum(), counted),
    )


def per_second(amount: float, counted: Counted) -> float:
    """So much over the counted time."""
    return float(amount / counted.window_s) if counted.window_s > 0 else 0.0


def engine_levels(replay: Replay, counted: Counted) -> Levels:
    """What stood in the cluster over the counted time."""
    t = replay.timeline
    return Levels(
        kv_used=level(t.time_s, t.kv_used_ratio, counted),
        running=level(t.time_s, t.running, counted),
        waiting=level(t.time_s, t.waiting, counted),
        replicas=level(t.time_s, t.replicas, counted),
    )


def level(time_s: FloatArray, values: AnyArray, counted: Counted) -> Level:
    """Mean over time and highest value."""
    if not len(time_s) or not counted.window_s > 0:
        return Level(0.0, 0.0)
    edges = np.array([counted.start_s, counted.end_s])
    mean, highest = means_between(time_s, values, edges)[0], highest_between(time_s, values, edges)[0]
    return Level(float(mean), float(highest))


def engine_shares(replay: Replay) -> Shares:
    """How busy the replicas were, and how much of the prompts stood in a prefix cache."""
    paid_s, read = float(replay.paid_s.sum()), answered(replay)
    prompts = float(replay.requests.input_tokens[read].sum())
    return Shares(
        utilisation_ratio=float(replay.busy_s.sum()) / paid_s if paid_s > 0 else None,
        prefix_hit_ratio=float(replay.cached_tokens[read].sum()) / prompts if prompts > 0 else None,
    )


def fates_counted(replay: Replay) -> dict[str, int]:
    """How many requests came to each end, of those that arrived."""
    counts = np.bincount(replay.fate[: num_arrived(replay)], minlength=len(FATES))
    return {fate: int(number) for fate, number in zip(FATES, counts, strict=True)}


def growth(replay: Replay) -> QueueTrend:
    """Whether the queue grew while requests came."""
    arrivals = replay.requests.arrival_s[: num_arrived(replay)]
    if len(arrivals) < 2:
        return LEVEL
    start_s, end_s = float(arrivals[0]), min(float(arrivals[-1]), replay.end_s)
    later = len(arrivals) - int(np.searchsorted(arrivals, (start_s + end_s) / 2))
    rate = 2 * later / (end_s - start_s) if end_s > start_s else 0.0
    return queue_trend(replay.timeline, start_s, end_s, rate)


def distributions(replay: Replay, counted: Counted) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Below how many seconds which share of the answered requests stayed, for each metric that has any."""
    shares = np.linspace(1 / MOST_SHARES, 1.0, MOST_SHARES)
    chosen, found = answered(replay)[counted.first :], {}
    for metric in METRICS:
        seconds = column(replay, metric)[counted.first :][chosen]
        seconds = seconds[np.isfinite(seconds)]
        if len(seconds):
            found[metric] = (shares, np.quantile(seconds, shares))
    return found


def sampled(timeline: Timeline, most: int = MOST_POINTS) -> Timeline:
    """At most so many moments, evenly spaced: how much ran, waited and was held at most since, replicas as they are."""
    time_s = timeline.time_s
    if len(time_s) <= most or not time_s[-1] > time_s[0]:
        return timeline if len(time_s) <= most else last_moment(timeline)
    edges = np.linspace(time_s[0], time_s[-1], most + 1)
    running, waiting, kv = (
        highest_between(time_s, values, edges)
        for values in (timeline.running, timeline.waiting, timeline.kv_used_ratio)
    )
    replicas, ready = (values_at(time_s, values, edges[1:]) for values in (timeline.replicas, timeline.ready))
    return Timeline(edges[1:], running, waiting, kv, replicas, ready)


def last_moment(timeline: Timeline) -> Timeline:
    """Where all stands at one moment, what is left of it."""
    t = timeline
    return Timeline(t.time_s[-1:], t.running[-1:], t.waiting[-1:], t.kv_used_ratio[-1:], t.replicas[-1:], t.ready[-1:])
