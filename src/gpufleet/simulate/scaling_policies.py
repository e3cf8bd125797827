"""Auto-scaling laws as their projects document them: each sees a tick, and says how many replicas it wants.

What a law reads of several replicas is per replica, or in all, as its source has it; where a machine holds several
copies of a model (`Service.copies`), thresholds per copy count for each of them.
"""

from __future__ import annotations

import math
from collections import deque

from gpufleet.records import dataclass
from gpufleet.simulate.scaling import NONE_AT_ALL, Seen, Service
from gpufleet.units import DAY, HOUR, MINUTE

HPA_SYNC_S, HPA_TOLERANCE = 15.0, 0.1


class Static:
    """As many replicas all the time."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas

    def decide(self, seen: Seen) -> int:
        """The same as ever."""
        return self.replicas


@dataclass(frozen=True)
class RatePolicy:
    """How far replicas may change within a period: by so many pods, or by a percentage of them."""

    kind: str
    value: float
    period_s: float


@dataclass(frozen=True)
class Behaviour:
    """How a HorizontalPodAutoscaler moves towards what it computed, as `spec.behavior` has it.

    Defaults: up at once by the larger of 100 % and 4 pods in 15 s, down to the highest of 300 s by 100 % in 15 s.
    Source: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale, Default Behavior
    """

    up_window_s: float = 0.0
    down_window_s: float = 300.0
    up: tuple[RatePolicy, ...] = (RatePolicy("percent", 100, 15.0), RatePolicy("pods", 4, 15.0))
    down: tuple[RatePolicy, ...] = (RatePolicy("percent", 100, 15.0),)


class RollingExtreme:
    """The highest, or the lowest, of what was said within a window."""

    def __init__(self, window_s: float, sign: float) -> None:
        self.window_s, self.sign = window_s, sign
        self.held: deque[tuple[float, int]] = deque()

    def add(self, time_s: float, value: int) -> int:
        """One more, and what the window holds then; what is as old as the window is out of it."""
        held, sign = self.held, self.sign
        while held and sign * held[-1][1] <= sign * value:
            held.pop()
        held.append((time_s, value))
        while held[0][0] <= time_s - self.window_s and len(held) > 1:
            held.popleft()
        return held[0][1]


class Stabilised:
    """Recommendations turned into replicas: the windows first, then the policies of how fast.

    Down: not below the highest recommendation of the window; up: not above the lowest of its own; then at most what
    the policy that allows most allows, of the replicas that there were when its period began. The replicas found at
    first are its first recommendation.   Source: KEP-853
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.highest = RollingExtreme(behaviour.down_window_s, 1.0)
        self.lowest = RollingExtreme(behaviour.up_window_s, -1.0)
        self.changes: deque[tuple[float, int]] = deque()
        self.longest_s = max(p.period_s for p in (*behaviour.up, *behaviour.down))

    def next(self, time_s: float, current: int, recommended: int) -> int:
        """Replicas after one more recommendation."""
        if not self.highest.held:
            self.highest.add(time_s, current)
        high = self.highest.add(time_s, recommended)
        low = self.lowest.add(time_s, recommended) if self.behaviour.up_window_s else recommended
        steady = min(max(current, low), high) if low <= high else recommended
        if steady == current:
            return current
        wanted = (
            min(steady, self.most(time_s, current)) if steady > current else max(steady, self.least(time_s, current))
        )
        if wanted != current:
            self.changes.append((time_s, wanted - current))
        return wanted

    def at_start(self, time_s: float, current: int, period_s: float) -> int:
        """Replicas when a period began."""
        while self.changes and self.changes[0][0] <= time_s - self.longest_s:
            self.changes.popleft()
        return current - sum(change for at, change in self.changes if at > time_s - period_s)

    def most(self, time_s: float, current: int) -> int:
        """The most that any policy allows."""
        allowed = []
        for p in self.behaviour.up:
            began = self.at_start(time_s, current, p.period_s)
            grown = began + p.value if p.kind == "pods" else began * (1 + p.value / 100)
            allowed.append(math.ceil(grown - NONE_AT_ALL))
        return max(current, *allowed)

    def least(self, time_s: float, current: int) -> int:
        """The least that any policy allows."""
        allowed = []
        for p in self.behaviour.down:
            began = self.at_start(time_s, current, p.period_s)
            shrunk = began - p.value if p.kind == "pods" else began * (1 - p.value / 100)
            allowed.append(math.floor(shrunk + NONE_AT_ALL))
        return min(current, *allowed)


def hpa_desired(ready: int, starting: int, per_pod: float, target: float, tolerance: float = HPA_TOLERANCE) -> int:
    """What the algorithm wants for a metric that is averaged over pods.

    ceil(replicas x metric / target), nothing where the ratio is within the tolerance of 1. Pods without metrics, here
    those that start, count as nothing where it goes up and as the target where it goes down; a ratio that turns round
    by that changes nothing.   Source: kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale

    >>> hpa_desired(3, 0, 200.0, 100.0), hpa_desired(4, 0, 50.0, 100.0), hpa_desired(5, 0, 109.0, 100.0)
    (6, 2, 5)
    """
    replicas, ratio = ready + starting, per_pod / target
    if not ready or abs(ratio - 1) <= tolerance + NONE_AT_ALL:
        return replicas
    assumed = 0.0 if ratio > 1 else 1.0
    whole = (ratio * ready + assumed * starting) / replicas
    if abs(whole - 1) <= tolerance + NONE_AT_ALL or (whole > 1) != (ratio > 1):
        return replicas
    wanted = math.ceil(whole * replicas - NONE_AT_ALL)
    return max(wanted, replicas) if ratio > 1 else min(wanted, replicas)


def hpa_desired_of_total(replicas: int, total: float, target: float, tolerance: float = HPA_TOLERANCE) -> int:
    """What the algorithm wants for one metric of all replicas and a target per pod (External, AverageValue).

    ceil(total / target), nothing where total / (target x replicas) is within the tolerance of 1.

    >>> hpa_desired_of_total(2, 250.0, 100.0), hpa_desired_of_total(3, 310.0, 100.0)
    (3, 3)
    """
    if replicas and abs(total / (target * replicas) - 1) <= tolerance + NONE_AT_ALL:
        return replicas
    return math.ceil(total / target - NONE_AT_ALL)


class Hpa:
    """A HorizontalPodAutoscaler on the requests that a replica runs and holds waiting, as a Pods metric.

    The target is a share of what runs at the rate that the plan allows; at least one replica, as HPA has it.
    """

    def __init__(self, service: Service, target_ratio: float = 0.8, down_window_s: float = 300.0) -> None:
        self.target = target_ratio * service.planned_batch
        self.steady = Stabilised(Behaviour(down_window_s=down_window_s))

    def decide(self, seen: Seen) -> int:
        """The law, once in a sync period, which is a tick."""
        per_pod = seen.batch + seen.waiting + (seen.queue / seen.ready if seen.ready else 0.0)
        wanted = hpa_desired(seen.ready, seen.starting, per_pod, self.target)
        return max(self.steady.next(seen.time_s, seen.replicas, wanted), 1)


class HpaRate:
    """A HorizontalPodAutoscaler on requests per second in all, an External metric with an AverageValue.

    It is KEDA's own example of a Prometheus trigger, `sum(rate(requests[2m]))` over a threshold per replica. The target
    is a share of the rate that the plan gives a replica; replicas that start count, since the metric is of all.
    Source: keda.sh/docs/latest/scalers/prometheus; kubernetes, GetExternalPerPodMetricReplicas
    """

    WINDOW_S = 2 * MINUTE

    def __init__(self, service: Service, target_ratio: float = 0.8, down_window_s: float = 300.0) -> None:
        self.target_per_s = target_ratio * service.planned_per_s
        self.rates: deque[float] = deque(maxlen=max(round(self.WINDOW_S / service.tick_s), 1))
        self.steady = Stabilised(Behaviour(down_window_s=down_window_s))

    def decide(self, seen: Seen) -> int:
        """The law, once in a sync period, which is a tick."""
        self.rates.append(seen.rate_per_s)
        wanted = hpa_desired_of_total(seen.replicas, sum(self.rates) / len(self.rates), self.target_per_s)
        return max(self.steady.next(seen.time_s, seen.replicas, wanted), 1)


class Keda:
    """A KEDA ScaledObject on vLLM's waiting requests and, where set, on the use of its KV cache.

    KEDA hands each trigger to an HPA as an External metric with a target per replica (AverageValue, its default), the
    larger wins: what waits in all over the threshold is the number wanted, whatever there is, and one where none
    waits. From the last replica to none, and back, it goes by itself: none after `cooldown_s` in which no trigger was
    active, one as soon as one is. Between one and none the gateway counts who waits.
    Source: keda.sh/docs/latest/reference/scaledobject-spec, concepts/scaling-deployments
    """

    def __init__(
        self,
        service: Service,
        waiting: float = 5.0,
        kv_ratio: float | None = None,
        poll_s: float = 15.0,
        cooldown_s: float = 300.0,
        down_window_s: float = 300.0,
        min_replicas: int = 1,
    ) -> None:
        self.waiting, self.kv_ratio = waiting * service.copies, kv_ratio
        self.poll_s, self.cooldown_s, self.min_replicas = poll_s, cooldown_s, min_replicas
        self.steady = Stabilised(Behaviour(down_window_s=down_window_s))
        self.polled_s, self.active_s = -math.inf, -math.inf

    def decide(self, seen: Seen) -> int:
        """Activation where there is none, else the HPA; a replica at the least while a trigger is active."""
        total = seen.waiting_in_all
        if total > 0 or seen.rate_per_s > 0:
            self.active_s = seen.time_s
        if not seen.replicas:
            if seen.time_s - self.polled_s < self.poll_s - NONE_AT_ALL:
                return 0
            self.polled_s = seen.time_s
            return 1 if total > 0 else 0
        wanted = hpa_desired_of_total(seen.replicas, total, self.waiting)
        if self.kv_ratio is not None:
            wanted = max(wanted, hpa_desired_of_total(seen.replicas, seen.kv_ratio * seen.ready, self.kv_ratio))
        kept = max(self.steady.next(seen.time_s, seen.replicas, max(wanted, 1)), 1, self.min_replicas)
        idle = not self.min_replicas and seen.time_s - self.active_s >= self.cooldown_s
        return 0 if idle else kept


class Wva:
    """llm-d's workload-variant autoscaler by saturation, once a minute on the peaks of the last minute.

    A replica is saturated at `kv_threshold` of its KV cache or `queue_threshold` waiting requests. One more where the
    others have less than `kv_spare` or `queue_spare` left on average; one fewer where that much is left after what
    all hold is spread over one fewer; none while one starts.   Source: llm-d-workload-variant-autoscaler,
    docs/saturation-analyzer.md
    """

    def __init__(
        self,
        service: Service,
        kv_threshold: float = 0.80,
        queue_threshold: float = 5.0,
        kv_spare: float = 0.10,
        queue_spare: float = 3.0,
        loop_s: float = MINUTE,
    ) -> None:
        self.kv_threshold, self.kv_spare = kv_threshold, kv_spare
        self.queue_threshold, self.queue_spare = queue_threshold * service.copies, queue_spare * service.copies
        self.loop_s, self.next_s = loop_s, -math.inf
        self.kv, self.queue = 0.0, 0.0

    def decide(self, seen: Seen) -> int:
        """The law at the end of a loop; replicas are alike, so all are saturated or none is."""
        each = seen.waiting + (seen.queue / seen.ready if seen.ready else seen.queue)
        self.kv, self.queue = max(self.kv, seen.kv_ratio), max(self.queue, each)
        if seen.time_s < self.next_s - NONE_AT_ALL:
            return seen.replicas
        kv, queue, self.kv, self.queue = self.kv, self.queue, 0.0, 0.0
        self.next_s = seen.time_s + self.loop_s
        return max(seen.replicas + (0 if seen.starting else self.step(seen.ready, kv, queue)), 1)

    def step(self, ready: int, kv: float, queue: float) -> int:
        """One more, one fewer, or neither."""
        saturated = kv >= self.kv_threshold or queue >= self.queue_threshold
        if saturated or not self.has_room(kv, queue):
            return 1
        fewer = ready - 1
        return -1 if ready >= 2 and self.has_room(kv * ready / fewer, queue * ready / fewer) else 0

    def has_room(self, kv: float, queue: float) -> bool:
        """Whether replicas that hold so much each have enough left."""
        return self.kv_threshold - kv >= self.kv_spare and self.queue_threshold - queue >= self.queue_spare


class SkyServe:
    """SkyServe by requests per second: ceil(rate / target), once it was so for the delay.

    Rates are means of 60 s, decided on every 20 s; with no replica at all, as soon as requests come.
    Source: docs.skypilot.co/en/stable/serving/autoscaling.html
    """

    WINDOW_S, DECISION_S = 60.0, 20.0

    def __init__(
        self,
        service: Service,
        target_ratio: float = 0.8,
        up_delay_s: float = 300.0,
        down_delay_s: float = 1200.0,
        min_replicas: int = 1,
    ) -> None:
        self.target_qps = target_ratio * service.planned_per_s
        self.up_needed, self.down_needed = int(up_delay_s / self.DECISION_S), int(down_delay_s / self.DECISION_S)
        self.min_replicas = min_replicas
        self.rates: deque[float] = deque(maxlen=max(round(self.WINDOW_S / service.tick_s), 1))
        self.next_s, self.ups, self.downs, self.wanted = -math.inf, 0, 0, -1

    def decide(self, seen: Seen) -> int:
        """Count decisions in a row that want more, or fewer."""
        if self.wanted < 0:
            self.wanted, self.next_s = seen.replicas, seen.time_s
        self.rates.append(seen.rate_per_s)
        while self.next_s <= seen.time_s + NONE_AT_ALL:
            self.next_s += self.DECISION_S
            self.consider(sum(self.rates) / len(self.rates))
        return self.wanted

    def consider(self, rate_per_s: float) -> None:
        """One decision."""
        target = max(math.ceil(rate_per_s / self.target_qps - NONE_AT_ALL), self.min_replicas)
        self.ups = self.ups + 1 if target > self.wanted else 0
        self.downs = self.downs + 1 if target < self.wanted else 0
        if (
            (self.ups and not self.wanted)
            or self.ups >= max(self.up_needed, 1)
            or self.downs >= max(self.down_needed, 1)
        ):
            self.ups, self.downs, self.wanted = 0, 0, target


class Utilisation:
    """The seeds' alert: one more where GPUs are busier than 90 % for 10 minutes, between 1 and 5.

    They name no way down: one fewer where they are below `low` as long. A server that writes is busy at any load.
    """

    def __init__(
        self,
        service: Service,
        high: float = 0.90,
        low: float = 0.30,
        for_s: float = 600.0,
        min_replicas: int = 1,
        max_replicas: int = 5,
    ) -> None:
        self.high, self.low, self.for_s = high, low, for_s
        self.min_replicas, self.max_replicas = min_replicas, max_replicas
        self.above_s, self.below_s = math.inf, math.inf

    def decide(self, seen: Seen) -> int:
        """One step once it was so for as long; then the time starts again."""
        now, before = seen.time_s, seen.time_s - HPA_SYNC_S
        self.above_s = min(self.above_s, before) if seen.busy_ratio > self.high else math.inf
        self.below_s = min(self.below_s, before) if seen.busy_ratio < self.low else math.inf
        wanted = seen.replicas
        if now - self.above_s >= self.for_s:
            wanted, self.above_s = wanted + 1, math.inf
        elif now - self.below_s >= self.for_s:
            wanted, self.below_s = wanted - 1, math.inf
        return min(max(wanted, self.min_replicas), self.max_replicas)


class QueueDepth:
    """The seeds' "based on queue depth", between 1 and 5: as many replicas as the queue holds times its depth.

    They name no depth and no way down: one fewer where nothing waited for `quiet_s`.
    """

    def __init__(
        self,
        service: Service,
        depth: float = 10.0,
        quiet_s: float = 300.0,
        min_replicas: int = 1,
        max_replicas: int = 5,
    ) -> None:
        self.depth, self.quiet_s = depth * service.copies, quiet_s
        self.min_replicas, self.max_replicas = min_replicas, max_replicas
        self.waited_s = -math.inf

    def decide(self, seen: Seen) -> int:
        """Up by what waits beyond those on their way, down after quiet."""
        if self.waited_s == -math.inf:
            self.waited_s = seen.time_s
        wanted, deep = seen.replicas, seen.waiting_in_all / self.depth
        if deep >= 1:
            wanted, self.waited_s = seen.ready + max(int(deep), seen.starting), seen.time_s
        elif seen.time_s - self.waited_s >= self.quiet_s:
            wanted, self.waited_s = wanted - 1, seen.time_s
        return min(max(wanted, self.min_replicas), self.max_replicas)


class Schedule:
    """The seeds' schedule: none from 22:00 on, 2 from 06:00 on."""

    def __init__(
        self, day: int = 2, night: int = 0, day_from_s: float = 6 * HOUR, night_from_s: float = 22 * HOUR
    ) -> None:
        self.day, self.night, self.day_from_s, self.night_from_s = day, night, day_from_s, night_from_s

    def decide(self, seen: Seen) -> int:
        """By the time of the day."""
        at = seen.time_s % DAY
        return self.day if self.day_from_s <= at < self.night_from_s else self.night
