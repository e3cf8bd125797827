"""Alerts on what an engine measures of itself, whose limits are the plan's: latency, queue, tokens, drafts, errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from gpufleet.domain.engine_metrics import EngineMetric
from gpufleet.domain.slo import METRICS
from gpufleet.languages import shell_command
from gpufleet.monitor.copies_commands import fewer_copies, more_copies
from gpufleet.monitor.promql import mean, number, of_copies, own_labels, quantile, rate, summed
from gpufleet.monitor.rules import CRITICAL, INFO, WARNING, Alert, Proof, Recorded, RuleGroup, Series, Watching
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.units import HOUR, MINUTE, PERCENT

INTERVAL_S = MINUTE
MEASURED_AS = {"ttft": "ttft", "tpot": "tpot", "latency": "e2e"}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
BROKEN_S, WORSE_S, FULL_S, QUEUED_S, IDLE_S = 5 * MINUTE, 15 * MINUTE, 10 * MINUTE, 5 * MINUTE, HOUR
"""How long a promise is broken before somebody is called, and how long what is worse or wasted lasts; judgements."""
FULL_RATIO, PREEMPTED_RATIO, FAILED_RATIO, IDLE_RATIO = 0.9, 0.01, 0.01, 0.25
"""Of the KV room while requests wait; of requests that are preempted, or fail; of the tokens that the plan was asked
for, below which machines are paid but idle: judgements. KV use alone says nothing, as an engine is meant to fill it."""
NO_DRAFT_KEPT = 1.05
"""Tokens a step below which drafts yield nothing: a wrong method gives 1.0 without a word (sglang issues/22986)."""
MANY, FEW = 100, 1
MORE = "Add a copy if the rate is above the plan's"
MORE_BY_LAW = "See whether the law asks for more copies, and whether these start; let it have more if it may not"


def watched_by(plan: WatchedPlan) -> Watching:
    """A group of rules for each group of copies."""
    groups = [
        RuleGroup(f"{copies.name}-serving", INTERVAL_S, list(recorded_of(copies)), list(alerts_of(copies)))
        for copies in plan.copies
    ]
    return Watching(groups, [line for copies in plan.copies for line in unwatched_of(copies)])


def recorded_of(copies: WatchedCopies) -> Iterator[Recorded]:
    """Latencies that the plan tells, and rates."""
    for name in latencies_of(copies):
        expression = latency(name, copies)
        if expression is not None:
            yield Recorded(recorded_name(name), expression)
    for what, expression in measured_of(copies).items():
        yield Recorded(f"deployment:{what}", expression)


def measured_of(copies: WatchedCopies) -> dict[str, str]:
    """By the end of its name: what is recorded of an engine beside latencies, as far as its version measures it."""
    made: dict[str, tuple[str, Callable[[str], str]]] = {
        "output_tokens:rate5m": ("generated_tokens", rate),
        "requests:rate5m": ("finished_requests", rate),
        "requests_waiting:sum": ("waiting_requests", summed),
        "requests_running:sum": ("running_requests", summed),
        "kv_use:avg": ("kv_use", lambda series: summed(series).replace("sum", "avg", 1)),
        "preemptions:rate5m": ("preemptions", rate),
    }
    known = {name: (copies.metrics.of(what), how) for name, (what, how) in made.items()}
    return {name: how(of_copies(metric.name, copies)) for name, (metric, how) in known.items() if metric is not None}


def latencies_of(copies: WatchedCopies) -> list[str]:
    """Figures of latency that the plan limits or predicts, of all requests."""
    return [name for name in dict.fromkeys([*copies.objectives, *copies.latency]) if name.split(".")[0] in METRICS]


def recorded_name(name: str) -> str:
    """The series of a figure of latency.

    >>> recorded_name("ttft.p95")
    'deployment:ttft_seconds:p95'
    """
    metric, statistic = name.split(".")
    return f"deployment:{metric}_seconds:{statistic}"


def histogram_of(name: str, copies: WatchedCopies) -> EngineMetric | None:
    """The histogram that measures a figure of latency in this version."""
    return copies.metrics.of(MEASURED_AS[name.split(".")[0]])


def latency(name: str, copies: WatchedCopies) -> str | None:
    """The query of a figure of latency."""
    histogram, statistic = histogram_of(name, copies), name.split(".")[1]
    if histogram is None:
        return None
    if statistic == "mean":
        return mean(histogram.name, copies)
    return quantile(QUANTILES[statistic], histogram.name, copies)


def unmeasurable(name: str, limit_s: float, copies: WatchedCopies) -> str | None:
    """Why no alert can hold a figure of latency to a limit."""
    histogram = histogram_of(name, copies)
    version = f"{copies.engine} {copies.metrics.version}"
    if histogram is None:
        return f"{version} measures no {name.split('.')[0]}"
    bounds = histogram.buckets
    if not bounds or name.endswith(".mean"):
        return None
    if limit_s >= bounds[-1]:
        return f"{limit_s:g} s is not below the last bound of {histogram.name}, {bounds[-1]:g} s"
    if limit_s < bounds[0]:
        return f"{limit_s:g} s is below the first bound of {histogram.name}, {bounds[0]:g} s"
    return None


def unwatched_of(copies: WatchedCopies) -> Iterator[str]:
    """What of the plan no alert holds, and why."""
    for name, limit_s in copies.objectives.items():
        if name.split(".")[0] not in METRICS:
            yield f"{name} of {copies.name}: engines tell no classes of requests apart"
        elif (why := unmeasurable(name, limit_s, copies)) is not None:
            yield f"{name} of {copies.name}: {why}"
    needed = {"waiting_requests": "its queue", "kv_use": "its KV use", "generated_tokens": "its tokens"}
    missing = [told for what, told in needed.items() if copies.metrics.of(what) is None]
    if missing:
        yield f"{', '.join(missing)} of {copies.name}: {copies.engine} {copies.metrics.version} shows none"
    if failures_of(copies) is None:
        yield f"errors of {copies.name}: {copies.engine} {copies.metrics.version} does not count them"
    if copies.drafts is not None and accepted_length(copies)[0] is None:
        yield f"drafts of {copies.name}: {copies.engine} {copies.metrics.version} does not count what they yield"
    if not copies.metrics.is_exact:
        yield f"{copies.name}: names of metrics are those of the nearest version to {copies.metrics.version} looked at"


def alerts_of(copies: WatchedCopies) -> Iterator[Alert]:
    """All alerts on one group of copies."""
    for name, limit_s in copies.objectives.items():
        if name.split(".")[0] in METRICS and unmeasurable(name, limit_s, copies) is None:
            yield broken_objective(name, limit_s, copies)
    for name in copies.latency:
        bound = worse_than(name, copies)
        if bound is not None:
            yield worse_than_predicted(name, bound, copies)
    fixed = (long_queue, full_kv, slow_tokens, idle) if copies.law is None else ()
    for made in (*fixed, many_preemptions, no_drafts, failures):
        alert = made(copies)
        if alert is not None:
            yield alert


def camel(name: str) -> str:
    """A figure of latency in the name of an alert.

    >>> camel("ttft.p95")
    'TtftP95'
    """
    return "".join(part.title() for part in name.split("."))


def own(name: str, copies: WatchedCopies) -> str:
    """A recorded series of these copies."""
    return of_copies(name, copies)


def about(what: str, copies: WatchedCopies) -> dict[str, str]:
    """Labels of an alert: whose it is, and what it is about."""
    return {**own_labels(copies), "about": what}


def logs_command(copies: WatchedCopies) -> str:
    """What the engine said last."""
    of_job = ["-l", f"app.kubernetes.io/name={copies.name}"]
    which = [f"deployment/{copies.name}"] if copies.job is None else of_job
    return shell_command(["kubectl", "-n", copies.namespace, "logs", *which, "--tail=200", "--prefix"])


def bucket_words(name: str, limit_s: float, copies: WatchedCopies) -> str:
    """Between which bounds a limit falls, within which a percentile is a guess."""
    histogram = histogram_of(name, copies)
    bucket = None if histogram is None else histogram.bucket_of(limit_s)
    if name.endswith(".mean"):
        return "a mean, which is exact"
    if bucket is None:
        return "bounds of its buckets are not known"
    if bucket[1] == limit_s:
        return "a bound of its buckets, so it is exact"
    return f"within a bucket of {bucket[0]:g} to {bucket[1]:g} s, so between these it is interpolated"


def needed(copies: WatchedCopies, *whats: str) -> list[str]:
    """Selectors of the metrics that measure these, as their twins ask for them."""
    found = [metric for what in whats if (metric := copies.metrics.of(what)) is not None]
    return [of_copies(f"{m.name}_count" if m.kind == "histogram" else m.name, copies) for m in found]


def broken_objective(name: str, limit_s: float, copies: WatchedCopies) -> Alert:
    """A promise of the plan is broken: its own limit, no other."""
    return Alert(
        name=f"{camel(name)}AboveLimit",
        expression=f"{own(recorded_name(name), copies)} > {number(limit_s)}",
        for_s=BROKEN_S,
        severity=CRITICAL,
        summary=f"{name} is above {limit_s:g} s, the plan's limit ({bucket_words(name, limit_s, copies)})",
        action=f"{MORE if copies.law is None else MORE_BY_LAW}; else look for what slows the engine",
        command=more_copies(copies),
        metrics=needed(copies, MEASURED_AS[name.split(".")[0]]),
        labels=about("latency", copies),
        proof=proof_of_latency(name, limit_s, copies),
    )


def worse_than(name: str, copies: WatchedCopies) -> float | None:
    """The bound of a bucket that a latency is worse than predicted above: none where the plan's limit comes first."""
    parts, predicted = name.split("."), copies.latency[name].high
    if len(parts) != 2 or parts[0] not in METRICS or predicted is None or not math.isfinite(predicted):
        return None
    histogram = histogram_of(name, copies)
    bucket = None if histogram is None else histogram.bucket_of(predicted)
    if histogram is None or bucket is None or bucket[1] >= histogram.buckets[-1]:
        return None
    limit_s = copies.objectives.get(name)
    return bucket[1] if limit_s is None or bucket[1] < limit_s else None


def worse_than_predicted(name: str, bound_s: float, copies: WatchedCopies) -> Alert:
    """Slower than the high end of what the plan predicts, at the next bound of its buckets, where it is exact."""
    predicted = copies.latency[name]
    assert predicted.high is not None, "worse_than found its bound"
    expected = f"the plan predicts {predicted.value:.3g} s, {predicted.high:.3g} s at most"
    return Alert(
        name=f"{camel(name)}WorseThanPredicted",
        expression=f"{own(recorded_name(name), copies)} > {number(bound_s)}",
        for_s=WORSE_S,
        severity=WARNING,
        summary=f"{name} is above {bound_s:g} s; {expected}",
        action="Compare the rate and the lengths of requests with the plan's; plan again if they changed",
        command=logs_command(copies),
        metrics=needed(copies, MEASURED_AS[name.split(".")[0]]),
        labels=about("latency", copies),
        proof=proof_of_latency(name, bound_s, copies),
    )


def proof_of_latency(name: str, limit_s: float, copies: WatchedCopies) -> Proof:
    """Observations all above a limit, and all in the first bucket below it."""
    histogram = histogram_of(name, copies)
    assert histogram is not None, "an alert on latency has a histogram"
    if name.endswith(".mean"):
        return Proof(mean_series(histogram, 2 * limit_s, copies), mean_series(histogram, limit_s / 2, copies))
    bounds = histogram.buckets or (limit_s / 2, limit_s, 2 * limit_s)
    above = next(bound for bound in bounds if bound > limit_s)
    first = max(bound for bound in bounds if bound <= limit_s)
    next_bounds = [bound for bound in bounds if bound > above][:1]
    breaks = {above: 0, **dict.fromkeys(next_bounds, FEW), math.inf: FEW}
    return Proof(
        bucket_series(histogram, breaks, copies), bucket_series(histogram, {first: FEW, math.inf: FEW}, copies)
    )


def mean_series(histogram: EngineMetric, mean_s: float, copies: WatchedCopies) -> list[Series]:
    """Observations of a mean."""
    return [
        Series(of_copies(f"{histogram.name}_sum", copies), f"0+{number(MANY * mean_s)}x600"),
        Series(of_copies(f"{histogram.name}_count", copies), f"0+{MANY}x600"),
    ]


def bucket_series(histogram: EngineMetric, per_minute: dict[float, int], copies: WatchedCopies) -> list[Series]:
    """Cumulative buckets that grow so much a minute, in hundreds, and the count beside them."""
    buckets = [
        Series(of_copies(f"{histogram.name}_bucket", copies, le=le_of(bound)), f"0+{MANY * more}x600")
        for bound, more in per_minute.items()
    ]
    return [*buckets, Series(of_copies(f"{histogram.name}_count", copies), f"0+{MANY}x600")]


def le_of(bound: float) -> str:
    """The label of a bucket, as clients in Python write it.

    >>> le_of(0.75), le_of(20.0), le_of(math.inf)
    ('0.75', '20.0', '+Inf')
    """
    return "+Inf" if math.isinf(bound) else str(float(bound))


def queue_limit(copies: WatchedCopies) -> float | None:
    """How many requests may wait: so many as the copies take on within the limit of the first token, or what is
    predicted of it   [requests]."""
    capacity = copies.requests_per_s_capacity.value
    limits = [limit_s for name, limit_s in copies.objectives.items() if name.startswith("ttft.")]
    predicted = [at.high for name, at in copies.latency.items() if name.startswith("ttft.") and at.high is not None]
    waited_s = min(limits or [s for s in predicted if math.isfinite(s)], default=None)
    return None if waited_s is None else max(math.ceil(capacity * waited_s), copies.replicas)


def gauge(what: str, copies: WatchedCopies, value: float) -> list[Series]:
    """A gauge that stays what it is."""
    return [Series(series, f"{number(value)}x600") for series in needed(copies, what)]


def counter(what: str, copies: WatchedCopies, per_s: float, **more: str) -> list[Series]:
    """A counter that grows so much a second."""
    metric = copies.metrics.of(what)
    values = f"0+{number(per_s * MINUTE)}x600"
    return [] if metric is None else [Series(of_copies(metric.name, copies, **more), values)]


def long_queue(copies: WatchedCopies) -> Alert | None:
    """More requests wait than are taken on in time."""
    limit = queue_limit(copies)
    if limit is None or copies.metrics.of("waiting_requests") is None:
        return None
    return Alert(
        name="RequestsWait",
        expression=f"{own('deployment:requests_waiting:sum', copies)} > {limit:.0f}",
        for_s=QUEUED_S,
        severity=WARNING,
        summary=f"More than {limit:.0f} requests wait: the copies take longer than promised to begin them",
        action="Add a copy, or let fewer requests in",
        command=more_copies(copies),
        metrics=needed(copies, "waiting_requests"),
        labels=about("queue", copies),
        proof=Proof(gauge("waiting_requests", copies, limit + 1), gauge("waiting_requests", copies, limit)),
    )


def full_kv(copies: WatchedCopies) -> Alert | None:
    """No room for more requests, while some wait."""
    if copies.metrics.of("kv_use") is None or copies.metrics.of("waiting_requests") is None:
        return None
    use, waiting = own("deployment:kv_use:avg", copies), own("deployment:requests_waiting:sum", copies)
    full = gauge("kv_use", copies, (1 + FULL_RATIO) / 2)
    return Alert(
        name="KvFull",
        expression=f"{use} > {number(FULL_RATIO)} and {waiting} > 0",
        for_s=FULL_S,
        severity=WARNING,
        summary=f"Over {PERCENT * FULL_RATIO:g} % of the KV room is taken while requests wait",
        action="Add a copy; requests may be longer than the plan's",
        command=more_copies(copies),
        metrics=needed(copies, "kv_use", "waiting_requests"),
        labels=about("queue", copies),
        proof=Proof([*full, *gauge("waiting_requests", copies, FEW)], [*full, *gauge("waiting_requests", copies, 0.0)]),
    )


def many_preemptions(copies: WatchedCopies) -> Alert | None:
    """Requests are thrown out and computed again."""
    if copies.metrics.of("preemptions") is None or copies.metrics.of("finished_requests") is None:
        return None
    thrown, finished = own("deployment:preemptions:rate5m", copies), own("deployment:requests:rate5m", copies)
    done = counter("finished_requests", copies, FEW)
    return Alert(
        name="RequestsPreempted",
        expression=f"{thrown} > {number(PREEMPTED_RATIO)} * {finished}",
        for_s=FULL_S,
        severity=WARNING,
        summary=f"More than {PERCENT * PREEMPTED_RATIO:g} % of the requests are preempted and computed again",
        action="Allow fewer requests at once, or add a copy",
        command=logs_command(copies),
        metrics=needed(copies, "preemptions", "finished_requests"),
        labels=about("queue", copies),
        proof=Proof(
            [*done, *counter("preemptions", copies, 5 * PREEMPTED_RATIO)], [*done, *counter("preemptions", copies, 0.0)]
        ),
    )


def slow_tokens(copies: WatchedCopies) -> Alert | None:
    """Fewer tokens than the low end of what the plan predicts, though there was always something to do."""
    low = copies.requests_per_s_capacity.low
    if not low or copies.metrics.of("generated_tokens") is None or copies.metrics.of("waiting_requests") is None:
        return None
    least, waiting = low * copies.output_tokens, own("deployment:requests_waiting:sum", copies)
    queue = gauge("waiting_requests", copies, FEW)
    return Alert(
        name="TokensBelowPredicted",
        expression=(
            f"{own('deployment:output_tokens:rate5m', copies)} < {number(least)} and min_over_time({waiting}[10m]) > 0"
        ),
        for_s=FULL_S,
        severity=WARNING,
        summary=f"Less than {least:.0f} output tokens/s while requests wait: slower than the plan's range",
        action="Look for a throttled GPU, another version or longer prompts; plan again if they changed",
        command=logs_command(copies),
        metrics=needed(copies, "generated_tokens", "waiting_requests"),
        labels=about("throughput", copies),
        proof=Proof(
            [*queue, *counter("generated_tokens", copies, least / 2)],
            [*gauge("waiting_requests", copies, 0.0), *counter("generated_tokens", copies, least / 2)],
        ),
    )


def idle(copies: WatchedCopies) -> Alert | None:
    """Machines that are paid for a load that does not come."""
    if copies.metrics.of("generated_tokens") is None:
        return None
    asked = copies.requests_per_s * copies.output_tokens
    return Alert(
        name="PaidButIdle",
        expression=f"{own('deployment:output_tokens:rate5m', copies)} < {number(IDLE_RATIO * asked)}",
        for_s=IDLE_S,
        severity=INFO,
        summary=(
            f"For an hour less than {PERCENT * IDLE_RATIO:g} % of the {asked:.0f} output tokens/s that the machines "
            f"are paid for (${copies.usd_per_hour * copies.machines:.2f}/h)"
        ),
        action="Take copies away, or let them scale with the load",
        command=fewer_copies(copies),
        metrics=needed(copies, "generated_tokens"),
        labels=about("money", copies),
        proof=Proof(
            counter("generated_tokens", copies, IDLE_RATIO * asked / 2), counter("generated_tokens", copies, asked)
        ),
    )


def no_drafts(copies: WatchedCopies) -> Alert | None:
    """Drafts cost time and none of their tokens is kept."""
    if copies.drafts is None:
        return None
    length, kept, lost = accepted_length(copies)
    if length is None:
        return None
    expected = copies.accepted_tokens.value if copies.accepted_tokens else None
    said = "" if expected is None else f"; the plan counts on {expected:.2g}"
    return Alert(
        name="DraftsYieldNothing",
        expression=f"{length} < {number(NO_DRAFT_KEPT)}",
        for_s=WORSE_S,
        severity=WARNING,
        summary=f"A step yields less than {NO_DRAFT_KEPT:g} tokens with drafts{said}",
        action="See that the method and the draft model are those of the plan",
        command=logs_command(copies),
        metrics=needed(copies, "accepted_length", "accepted_tokens", "drafts"),
        labels=about("throughput", copies),
        proof=Proof(lost, kept),
    )


def accepted_length(copies: WatchedCopies) -> tuple[str | None, Sequence[Series], Sequence[Series]]:
    """Tokens a step yields with drafts, as the engine tells them; series of drafts that are kept, and of none."""
    if copies.metrics.of("accepted_length") is not None:
        [series] = needed(copies, "accepted_length")
        how = summed(series).replace("sum", "avg", 1)
        return how, gauge("accepted_length", copies, 2.0), gauge("accepted_length", copies, 1.0)
    taken, drafts = copies.metrics.of("accepted_tokens"), copies.metrics.of("drafts")
    if taken is None or drafts is None:
        return None, [], []
    how = f"1 + {rate(of_copies(taken.name, copies))} / {rate(of_copies(drafts.name, copies))}"
    made = counter("drafts", copies, FEW)
    kept, lost = counter("accepted_tokens", copies, FEW), counter("accepted_tokens", copies, 0.0)
    return how, [*made, *kept], [*made, *lost]


def failures_of(copies: WatchedCopies) -> tuple[str, str, dict[str, str]] | None:
    """What counts requests that failed: its query, what it measures, and the labels that tell failures."""
    for what in ("failed_requests", "aborted_requests"):
        metric = copies.metrics.of(what)
        if metric is not None:
            return rate(of_copies(metric.name, copies)), what, {}
    finished = copies.metrics.of("finished_requests")
    if finished is not None and "error" in finished.values_of("finished_reason"):
        failed = {"finished_reason": "error"}
        return rate(of_copies(finished.name, copies, **failed)), "finished_requests", failed
    return None


def failures(copies: WatchedCopies) -> Alert | None:
    """Too many requests fail."""
    counted = failures_of(copies)
    if counted is None or copies.metrics.of("finished_requests") is None:
        return None
    failed, what, labels = counted
    every, fail = {"finished_reason": "stop"} if labels else {}, "are aborted" if "aborted" in what else "fail"
    done = counter("finished_requests", copies, FEW, **every)
    return Alert(
        name="RequestsFail",
        expression=f"{failed} > {number(FAILED_RATIO)} * {own('deployment:requests:rate5m', copies)}",
        for_s=BROKEN_S,
        severity=CRITICAL,
        summary=f"More than {PERCENT * FAILED_RATIO:g} % of the requests {fail}",
        action="Read what the engine says of them",
        command=logs_command(copies),
        metrics=needed(copies, *dict.fromkeys([what, "finished_requests"])),
        labels=about("errors", copies),
        proof=Proof(
            [*done, *counter(what, copies, 5 * FAILED_RATIO, **labels)], [*done, *counter(what, copies, 0.0, **labels)]
        ),
    )
