"""Alerts on jobs: the work that they do, GPUs that are seen, time and money against what their plan says.

Limits hold only while a job runs: `up` of its engines, or GPUs that its pods use, say so. The end of a job is no alarm.
No engine and no trainer tells how much of a job is done; what a trainer gives, its user's own metric alone tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.languages import shell_command
from gpufleet.monitor.copies_commands import held_job
from gpufleet.monitor.copies_rules import constant, pods_command
from gpufleet.monitor.gpu_rules import on_gpus
from gpufleet.monitor.machines_seen import per_machine
from gpufleet.monitor.promql import OWN, duration, number, of_copies, rate, summed
from gpufleet.monitor.rules import (
    ABSENT_S,
    CRITICAL,
    INFO,
    WARNING,
    Alert,
    Proof,
    Recorded,
    RuleGroup,
    Series,
    Watching,
    series_of,
)
from gpufleet.monitor.serving_rules import (
    FEW,
    about,
    counter,
    failures,
    gauge,
    logs_command,
    many_preemptions,
    measured_of,
    needed,
    own,
)
from gpufleet.monitor.watched import WatchedCopies, WatchedJob, WatchedPlan
from gpufleet.units import DAY, HOUR, MEGA, MINUTE

INTERVAL_S = MINUTE
SLOW_S, FED_S, IDLE_S, GPUS_S, AT_ONCE_S = 15 * MINUTE, 15 * MINUTE, 15 * MINUTE, 10 * MINUTE, 2 * MINUTE
"""How long a job is slower than planned, lacks requests or GPUs, or leaves them idle before somebody is told."""
FED_RATIO, IDLE_PERCENT = 0.5, 25.0
"""Of the requests that are planned at a time, and of a GPU's time: less is paid for nothing. Judgements, as above."""
LONGEST_S = 14 * DAY
"""Prometheus forgets after 15 days unless it is told otherwise: what a longer job costs cannot be added up."""
LOOK_BACK = 2.0
"""Times the longest that the job takes as planned: what is older is of another run."""
MACHINES, HOURLY, SPENT, RAN = (
    "deployment:machines:seen",
    "deployment:usd_per_hour",
    "deployment:spent:usd",
    "deployment:ran:s",
)
THROUGHPUT, STEP = "deployment:tokens:per_s", "deployment:step:s"
PER_MILLION, PER_REQUEST, PER_EPOCH = (
    "deployment:usd:per_million_tokens",
    "deployment:usd:per_request",
    "deployment:usd:per_epoch",
)
SOURCES = (MACHINES, HOURLY, "up", "DCGM_FI_DEV_GPU_TEMP")
TRAINING, PHASE = "training", "kube_pod_status_phase"
UNTOLD = "no engine and no trainer tells how much is done; time and money are held against the plan instead"


def watched_by(plan: WatchedPlan) -> Watching:
    """A group of rules for each job."""
    found = [(each, each.job) for each in plan.copies if each.job is not None]
    groups = [
        RuleGroup(
            f"{copies.name}-job",
            INTERVAL_S,
            list(recorded_of(copies, job, plan.gpu_metrics)),
            list(alerts_of(copies, job, plan.gpu_metrics)),
        )
        for copies, job in found
    ]
    return Watching(groups, [line for copies, job in found for line in unwatched_of(copies, job)])


def is_seen(copies: WatchedCopies, job: WatchedJob) -> bool:
    """Whether anything tells that a job runs: its engines, or an exporter of its GPUs."""
    return job.kind != TRAINING or copies.vendor == "nvidia"


def unwatched_of(copies: WatchedCopies, job: WatchedJob) -> Iterator[str]:
    """What of the plan no rule holds, and why."""
    yield f"progress of {copies.name}: {UNTOLD}"
    if not is_seen(copies, job):
        yield f"time and money of {copies.name}: nothing tells when its GPUs work"
    elif look_back_s(job) is None:
        yield f"time and money of {copies.name}: it takes longer than Prometheus keeps series (15 days by default)"
    elif not job.is_paid_by_the_hour:
        yield f"cost of {copies.name}: its machines are paid for whether or not it runs"
    if job.kind == TRAINING and job.throughput_metric is None:
        yield (
            f"tokens/s, time of a step and cost of an epoch of {copies.name}: no metric of trainers is common; "
            "--throughput-metric names yours"
        )
    if job.kind == TRAINING and job.throughput_metric is not None and job.epoch_tokens is None:
        yield f"cost of an epoch of {copies.name}: the plan counts all epochs together; --epoch-tokens says one"
    if job.kind != TRAINING and copies.metrics.of("generated_tokens") is None:
        yield f"tokens/s of {copies.name}: {copies.engine} {copies.metrics.version} shows none"
    if job.kind != TRAINING and failures(copies) is None:
        yield f"errors of {copies.name}: {copies.engine} {copies.metrics.version} does not count them"


def look_back_s(job: WatchedJob) -> float | None:
    """How far back what it ran and cost is added up; None where Prometheus does not keep so much."""
    longest = job.finish_s.high or job.finish_s.value
    back = math.ceil(max(LOOK_BACK * longest, HOUR) / HOUR) * HOUR
    back = min(back, job.period_s or math.inf)
    return back if longest <= LONGEST_S else None


def recorded_of(copies: WatchedCopies, job: WatchedJob, known: EngineMetrics | None) -> Iterator[Recorded]:
    """Machines that are seen, what they cost and have cost, and what they give for it."""
    if is_seen(copies, job) and known is not None:
        yield Recorded(MACHINES, machines(copies, job, known))
        yield Recorded(HOURLY, f"{own(MACHINES, copies)} * {number(copies.usd_per_hour)}")
        back_s = look_back_s(job)
        if back_s is not None:
            back = duration(min(back_s, LONGEST_S))
            hourly, now = own(HOURLY, copies), f"and on ({OWN}) {own(HOURLY, copies)}"
            yield Recorded(SPENT, f"sum_over_time({hourly}[{back}]) * {number(INTERVAL_S / HOUR)} {now}")
            yield Recorded(RAN, f"count_over_time({hourly}[{back}]) * {number(INTERVAL_S)} {now}")
    if job.kind != TRAINING:
        yield from (Recorded(f"deployment:{what}", query) for what, query in measured_of(copies).items())
    yield from work_of(copies, job)


def work_of(copies: WatchedCopies, job: WatchedJob) -> Iterator[Recorded]:
    """Tokens a second, and what they, a request, a step and an epoch cost or take."""
    hourly, tokens = own(HOURLY, copies), throughput(copies, job)
    if tokens is None:
        return
    yield Recorded(THROUGHPUT, tokens)
    per_s = f"({own(THROUGHPUT, copies)} > 0)"
    if is_seen(copies, job):
        yield Recorded(PER_MILLION, f"{hourly} / on ({OWN}) {per_s} * {number(MEGA / HOUR)}")
    if job.kind == TRAINING:
        yield Recorded(STEP, f"{number(job.step_tokens)} / {per_s}")
        if job.epoch_tokens is not None and is_seen(copies, job):
            yield Recorded(PER_EPOCH, f"{hourly} / on ({OWN}) {per_s} * {number(job.epoch_tokens / HOUR)}")
    elif copies.metrics.of("finished_requests") is not None:
        requests = f"({own('deployment:requests:rate5m', copies)} > 0)"
        yield Recorded(PER_REQUEST, f"{hourly} / on ({OWN}) {requests} * {number(1 / HOUR)}")


def machines(copies: WatchedCopies, job: WatchedJob, known: EngineMetrics) -> str:
    """Machines of a job: of engines their targets over copies a machine, of trainers their GPUs over GPUs a machine."""
    if job.kind != TRAINING:
        return f"ceil(count by ({OWN}) ({of_copies('up', copies)}) / {per_machine(copies)})"
    counted = f"ceil({gpus_seen(copies, known)} / {number(copies.gpus_per_machine)})"
    return labelled_as_own(counted, copies)


def gpus_seen(copies: WatchedCopies, known: EngineMetrics) -> str:
    """GPUs that pods of the job use."""
    return f"count by (namespace) (count by (namespace, UUID) ({on_gpus('temperature', copies, known)}))"


def labelled_as_own(expression: str, copies: WatchedCopies) -> str:
    """A series of the namespace with the job's name, which needs no quoting."""
    return f'label_replace({expression}, "deployment", "{copies.name}", "", "")'


def throughput(copies: WatchedCopies, job: WatchedJob) -> str | None:
    """Tokens a second of all copies: generated ones of an engine; of a trainer what its user's metric says."""
    if job.kind != TRAINING:
        metric = copies.metrics.of("generated_tokens")
        return None if metric is None else rate(of_copies(metric.name, copies))
    if job.throughput_metric is None:
        return None
    series = of_copies(job.throughput_metric, copies)
    how = rate(series) if job.is_counter else summed(series)
    return how if job.tokens_of_one == 1 else f"{how} * {number(job.tokens_of_one)}"


def alerts_of(copies: WatchedCopies, job: WatchedJob, known: EngineMetrics | None) -> Iterator[Alert]:
    """All alerts on one job; kube-state-metrics tells the twins whether it runs, so its own absence is told always."""
    yield cluster_unseen(copies)
    if job.kind == TRAINING:
        yield from alerts_of_training(copies, job, known)
    else:
        yield from alerts_of_batch(copies, job)
    if is_seen(copies, job) and known is not None and look_back_s(job) is not None:
        yield longer(copies, job)
        if math.isfinite(job.deadline_s):
            yield past_deadline(copies, job)
        if job.is_paid_by_the_hour:
            yield dearer(copies, job)


def cluster_unseen(copies: WatchedCopies) -> Alert:
    """No phase of any pod is seen."""
    return Alert(
        name="ClusterUnseen",
        expression=f"absent({PHASE})",
        for_s=ABSENT_S,
        severity=WARNING,
        summary=f"{PHASE} is not seen: nothing tells whether the job runs, and no metric of it is missed",
        action="See whether kube-state-metrics runs and is scraped",
        command=shell_command(["kubectl", "get", "pods", "-A", "-l", "app.kubernetes.io/name=kube-state-metrics"]),
        labels=about("absence", copies),
        proof=Proof([], [constant(of_copies(PHASE, copies), 1.0)], without=[PHASE]),
    )


def alerts_of_batch(copies: WatchedCopies, job: WatchedJob) -> Iterator[Alert]:
    """Engines that are slow, lack requests, fail, or are gone while others run."""
    for alert in (slow_batch(copies, job), unfed(copies), many_preemptions(copies), failures(copies)):
        if alert is not None:
            yield alert
    if copies.replicas > 1:
        yield copy_down(copies)


def slow_batch(copies: WatchedCopies, job: WatchedJob) -> Alert | None:
    """Fewer tokens than the low end for the copies that are up, though requests always wait."""
    low = job.tokens_per_s.low
    if not low or copies.metrics.of("generated_tokens") is None or copies.metrics.of("waiting_requests") is None:
        return None
    least, up = low / copies.replicas, of_copies("up", copies)
    waiting = own("deployment:requests_waiting:sum", copies)
    slow = [constant(up, FEW), *counter("generated_tokens", copies, least / 2)]
    return Alert(
        name="JobSlowerThanPlanned",
        expression=(
            f"{own(THROUGHPUT, copies)} < on ({OWN}) {number(least)} * {summed(up)} "
            f"and min_over_time({waiting}[10m]) > 0"
        ),
        for_s=SLOW_S,
        severity=WARNING,
        summary=f"Less than {least:.0f} output tokens/s a copy while requests wait: the job ends later than planned",
        action="Look for a throttled GPU, another version or longer prompts; plan again if it is late",
        command=logs_command(copies),
        metrics=[*needed(copies, "generated_tokens", "waiting_requests"), up],
        labels=about("throughput", copies),
        proof=Proof([*slow, *gauge("waiting_requests", copies, FEW)], [*slow, *gauge("waiting_requests", copies, 0.0)]),
    )


def unfed(copies: WatchedCopies) -> Alert | None:
    """Whoever sends the requests holds too few open for what the plan counts on, or has sent them all."""
    if copies.metrics.of("running_requests") is None:
        return None
    least, up = max(FED_RATIO * copies.most_running, 1.0), of_copies("up", copies)
    running = own("deployment:requests_running:sum", copies)
    return Alert(
        name="JobNotFed",
        expression=f"{running} < on ({OWN}) {number(least)} * {summed(up)}",
        for_s=FED_S,
        severity=INFO,
        summary=f"Fewer than {least:.0f} requests run on a copy, half of what the plan counts on: machines wait",
        action="Send more requests at a time; if all are done, give the machines back",
        command=pods_command(copies),
        metrics=[*needed(copies, "running_requests"), up],
        labels=about("money", copies),
        proof=Proof(
            [constant(up, FEW), *gauge("running_requests", copies, least / 2)],
            [constant(up, FEW), *gauge("running_requests", copies, least)],
        ),
    )


def copy_down(copies: WatchedCopies) -> Alert:
    """A copy does not answer while others do."""
    up = of_copies("up", copies)
    return Alert(
        name="JobCopyMissing",
        expression=f"{summed(up)} < {copies.replicas} and {summed(up)} > 0",
        for_s=copies.start_s,
        severity=WARNING,
        summary=f"Fewer than {copies.replicas} copies work for longer than a start may take: the job ends later",
        action="See why the pod does not run: a machine that was taken away, an engine that fails to start",
        command=pods_command(copies),
        metrics=[up],
        labels=about("copies", copies),
        proof=Proof([constant(up, copies.replicas - 1)], [constant(up, copies.replicas)]),
    )


def alerts_of_training(copies: WatchedCopies, job: WatchedJob, known: EngineMetrics | None) -> Iterator[Alert]:
    """GPUs that are gone or idle, and the user's own throughput."""
    if copies.vendor == "nvidia" and known is not None:
        if job.num_gpus > 1:
            yield gpus_missing(copies, job, known)
        yield gpus_idle(copies, job, known)
    slow = slow_training(copies, job)
    if slow is not None:
        yield slow


def gpus_missing(copies: WatchedCopies, job: WatchedJob, known: EngineMetrics) -> Alert:
    """Some of the GPUs are not seen while others are: a run waits for all of them."""
    series, seen = on_gpus("temperature", copies, known), gpus_seen(copies, known)
    pod = series_of(series)
    gpus = [Series(pod.replace("{", f'{{UUID="GPU-{at}",'), "60x600") for at in range(job.num_gpus)]
    return Alert(
        name="GpusMissing",
        expression=f"{seen} < {job.num_gpus}",
        for_s=max(GPUS_S, copies.start_s),
        severity=CRITICAL,
        summary=f"Fewer than {job.num_gpus} GPUs are seen: a run stands while one is away",
        action="See which machine is gone; start again from the last checkpoint",
        command=pods_command(copies),
        metrics=[series],
        labels=about("copies", copies),
        proof=Proof(gpus[1:], gpus),
    )


def gpus_idle(copies: WatchedCopies, job: WatchedJob, known: EngineMetrics) -> Alert:
    """GPUs that are paid for and do nothing; a checkpoint's time is no idleness."""
    series, usd_per_hour = on_gpus("gpu_use", copies, known), copies.usd_per_hour * copies.machines
    pod = series_of(series)
    return Alert(
        name="JobIdle",
        expression=f"avg by (namespace) ({series}) < {IDLE_PERCENT:g}",
        for_s=max(IDLE_S, 2 * job.checkpoint_write_s),
        severity=WARNING,
        summary=f"GPUs are in use for less than {IDLE_PERCENT:g} % of the time, at ${usd_per_hour:.2f}/h",
        action="See whether the job waits for data or for a process that ended; give the machines back if it is over",
        command=logs_command(copies),
        metrics=[series],
        labels=about("money", copies),
        proof=Proof([Series(pod, f"{IDLE_PERCENT / 2:g}x600")], [Series(pod, f"{IDLE_PERCENT:g}x600")]),
    )


def slow_training(copies: WatchedCopies, job: WatchedJob) -> Alert | None:
    """Fewer tokens a second than the low end of the plan, by the user's own metric."""
    low, metric = job.tokens_per_s.low, job.throughput_metric
    if not low or metric is None:
        return None
    series = of_copies(metric, copies)

    def shown(tokens_per_s: float) -> Series:
        value = tokens_per_s / job.tokens_of_one
        return Series(series, f"0+{number(value * MINUTE)}x600" if job.is_counter else f"{number(value)}x600")

    step_s = job.step_tokens / low
    return Alert(
        name="JobSlowerThanPlanned",
        expression=f"{own(THROUGHPUT, copies)} < {number(low)}",
        for_s=max(SLOW_S, 2 * job.checkpoint_write_s),
        severity=WARNING,
        summary=f"Less than {low:.0f} tokens/s, the low end of the plan: a step takes over {step_s:.3g} s",
        action="Look for a throttled GPU, slow data or another layout; plan again with --measured to see what it costs",
        command=logs_command(copies),
        metrics=[series],
        labels=about("throughput", copies),
        proof=Proof([shown(low / 2)], [shown(1.5 * low)]),
    )


def of_time(
    name: str,
    series: str,
    limit: float,
    copies: WatchedCopies,
    *,
    severity: str,
    summary: str,
    action: str = "",
    command: str = "",
) -> Alert:
    """An alert on what is added up over the run, which is there while machines of it are seen."""
    recorded = own(series, copies)
    return Alert(
        name=name,
        expression=f"{recorded} > {number(limit)}",
        for_s=AT_ONCE_S,
        labels=about("money" if series == SPENT else "time", copies),
        severity=severity,
        summary=summary,
        action=action,
        command=command or pods_command(copies),
        proof=Proof([constant(recorded, 1.1 * limit)], [constant(recorded, 0.9 * limit)], without=[*SOURCES]),
    )


def longer(copies: WatchedCopies, job: WatchedJob) -> Alert:
    """It runs on beyond the high end of what it takes."""
    limit_s = job.finish_s.high or job.finish_s.value
    return of_time(
        "JobLongerThanPlanned",
        RAN,
        limit_s,
        copies,
        severity=WARNING,
        summary=f"The job has run for over {limit_s / HOUR:.3g} h, the most that the plan expects",
        action="See how much is done; add machines, or let it end later",
    )


def past_deadline(copies: WatchedCopies, job: WatchedJob) -> Alert:
    """It runs on after its deadline."""
    return of_time(
        "JobPastItsDeadline",
        RAN,
        job.deadline_s,
        copies,
        severity=CRITICAL,
        summary=f"The job has run for over {job.deadline_s / HOUR:.3g} h, its deadline",
        action="Tell who waits for it; add machines if much is left",
    )


def dearer(copies: WatchedCopies, job: WatchedJob) -> Alert:
    """Its machines have cost more than the high end of the plan."""
    limit_usd = job.usd.high or job.usd.value
    return of_time(
        "JobDearerThanPlanned",
        SPENT,
        limit_usd,
        copies,
        severity=WARNING,
        summary=f"Machines of the job have cost over ${limit_usd:,.2f}, the high end of the plan",
        action="See how much is done; hold it, or pay on",
        command=held_job(copies),
    )
