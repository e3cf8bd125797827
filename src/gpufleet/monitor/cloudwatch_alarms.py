"""Alarms of CloudWatch on copies that run on Amazon ECS: what its load balancer, its groups of machines and the agent
on them tell.

Metrics, dimensions and when they are reported: docs.aws.amazon.com, "CloudWatch metrics for your Application Load
Balancer" and "Amazon CloudWatch metrics for Amazon EC2 Auto Scaling". No metric of an engine is among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpufleet.domain.slo import METRICS
from gpufleet.errors import UsageError
from gpufleet.languages import shell_command
from gpufleet.monitor.copies_rules import TOO_FEW_S, least_copies
from gpufleet.monitor.gpu_rules import ABOVE_CARD_RATIO, HOT_C, HOT_S, POWER_S
from gpufleet.monitor.promql import duration, number
from gpufleet.monitor.rules import CRITICAL, INFO, WARNING, Alert, RuleGroup, Watching
from gpufleet.monitor.serving_rules import (
    BROKEN_S,
    FAILED_RATIO,
    IDLE_RATIO,
    IDLE_S,
    QUEUED_S,
    WORSE_S,
    about,
    camel,
)
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.records import dataclass
from gpufleet.units import MINUTE, PERCENT

BALANCER, MACHINES, AGENT = "AWS/ApplicationELB", "AWS/AutoScaling", "CWAgent"
MEAN = "Average"
ABOVE, BELOW = ">", "<"
FAILED_SHARE = f"IF(asked > 0, {PERCENT:g} * FILL(failed, 0) / asked, 0)"
REFUSED_SHARE = (
    f"IF(FILL(asked, 0) + FILL(failed, 0) > 0, {PERCENT:g} * FILL(failed, 0) / (FILL(asked, 0) + FILL(failed, 0)), 0)"
)
"""Percent of the requests: those that copies answered with an error, and those that no copy was asked, which
RequestCount leaves out."""


@dataclass(frozen=True)
class Alarm:
    """An alert as CloudWatch holds it.

    `metric` of `namespace` is taken over `period_s` by `statistic`, which `comparison` sets against `threshold`, in the
    metric's own unit, for `alert.for_s`. `breaks_when_absent`: a period without a value counts as broken, which is how
    an alarm is its own twin. `share` is an expression in place of the metric: of `metric` as `failed`, and of
    RequestCount as `asked`. `copies` is whose it is; None: of all behind the load balancer.
    """

    alert: Alert
    namespace: str
    metric: str
    statistic: str
    comparison: str
    threshold: float
    copies: str | None
    period_s: float = MINUTE
    breaks_when_absent: bool = False
    share: str | None = None

    @property
    def periods(self) -> int:
        """Periods that all have to be broken: the alert's time in whole ones."""
        return max(math.ceil(self.alert.for_s / self.period_s), 1)


def watched_by(plan: WatchedPlan) -> Watching:
    """A group of alarms for each group of copies, and one for what they share."""
    found = not_on_ecs(plan)
    if found is not None:
        raise UsageError("alarms are on what runs on Amazon ECS", found=found, expected="--to prometheus")
    groups = [RuleGroup(copies.name, MINUTE, alerts=list(map(alert_of, alarms_of(copies)))) for copies in plan.copies]
    shared = RuleGroup(plan.copies[0].namespace, MINUTE, alerts=[alert_of(refused(plan))])
    return Watching([*groups, shared], [line for copies in plan.copies for line in unwatched_of(copies)])


def not_on_ecs(plan: WatchedPlan) -> str | None:
    """What of a plan `deploy --to terraform-ecs` does not write, so that no alarm could name it."""
    elsewhere = {copies.cloud for copies in plan.copies} - {"aws"}
    if elsewhere:
        return ", ".join(sorted(cloud or "machines of your own" for cloud in elsewhere))
    if len({copies.pool for copies in plan.copies}) < len(plan.copies):
        return "models that share machines"
    if not all(copies.takes_every_length for copies in plan.copies):
        return "short prompts and long ones apart"
    return "copies that come and go" if any(copies.most_machines is not None for copies in plan.copies) else None


def alert_of(alarm: Alarm) -> Alert:
    """An alarm as it is listed."""
    return replace(alarm.alert, expression=condition(alarm), is_own_twin=alarm.breaks_when_absent)


def alarms_in(plan: WatchedPlan) -> list[Alarm]:
    """All alarms on a plan."""
    return [*(alarm for copies in plan.copies for alarm in alarms_of(copies)), refused(plan)]


def unwatched_of(copies: WatchedCopies) -> Iterator[str]:
    """What CloudWatch sees nothing of, and why."""
    yield (
        f"ttft and tpot of {copies.name}: a load balancer sees when an answer's headers come, which is before the "
        "first token where it is streamed (vLLM), with the first (SGLang), and after the last where it is not"
    )
    yield f"queue, KV use, tokens/s, preemptions, drafts of {copies.name}: engines tell Prometheus alone"
    for name in copies.objectives:
        if name.split(".")[0] not in METRICS:
            yield f"{name} of {copies.name}: a load balancer tells no classes of requests apart"
    if copies.vendor != "nvidia":
        yield f"GPUs of {copies.name}: CloudWatch's agent reads those of NVIDIA alone"
    elif copies.power_limit_watts is None:
        yield f"power of {copies.name}: the limit of {copies.gpu} is not known"
    else:
        yield f"XID, memory errors and throttling of {copies.name}: CloudWatch's agent reads none"


def alarms_of(copies: WatchedCopies) -> Iterator[Alarm]:
    """All alarms on one group of copies."""
    yield from slow_answers(copies)
    yield failures(copies)
    yield more_than_carried(copies)
    yield too_few(copies)
    if copies.replicas > 1:
        yield missing(copies)
    yield unhealthy(copies)
    yield lost_machine(copies)
    yield idle(copies)
    if reads_gpus(copies):
        yield hot(copies)
    if reads_gpus(copies) and copies.power_limit_watts is not None:
        yield above_card(copies, copies.power_limit_watts)


def reads_gpus(copies: WatchedCopies) -> bool:
    """Whether the agent knows their GPUs."""
    return copies.vendor == "nvidia"


def alert(
    name: str, copies: WatchedCopies, what: str, for_s: float, severity: str, said: Sequence[str], command: str
) -> Alert:
    """An alert of these copies: its summary, and what to do about it."""
    summary, action = said
    return Alert(name, "", for_s, severity, summary, action, command, labels=about(what, copies))


def slow_answers(copies: WatchedCopies) -> Iterator[Alarm]:
    """Answers that begin later than whole ones may end: the plan's limits, and what it predicts."""
    for name, limit_s in copies.objectives.items():
        if name.startswith("latency."):
            said = f"{name} is above {limit_s:g} s, the plan's limit"
            yield slow(f"{camel(name)}AboveLimit", name, limit_s, BROKEN_S, CRITICAL, said, copies)
    for name, predicted in copies.latency.items():
        high, limit_s = predicted.high, copies.objectives.get(name, math.inf)
        if name.startswith("latency.") and high is not None and high < limit_s:
            said = f"{name} is above {high:.3g} s; the plan predicts {predicted.value:.3g} s"
            yield slow(f"{camel(name)}WorseThanPredicted", name, high, WORSE_S, WARNING, said, copies)


def slow(
    name: str, figure: str, limit_s: float, for_s: float, severity: str, said: str, copies: WatchedCopies
) -> Alarm:
    """TargetResponseTime in seconds, until headers come: never longer than the whole answer, so no false alarm."""
    statistic = figure.split(".")[1]
    action = "See whether more or longer requests come than planned; plan again if they do"
    return Alarm(
        alert(name, copies, "latency", for_s, severity, (f"{said} (until an answer begins)", action), logs(copies)),
        BALANCER,
        "TargetResponseTime",
        MEAN if statistic == "mean" else statistic,
        ABOVE,
        limit_s,
        copies.name,
    )


def failures(copies: WatchedCopies) -> Alarm:
    """Too many answers are errors of the copies."""
    said = (
        f"More than {PERCENT * FAILED_RATIO:g} % of the answers are errors (5xx)",
        "Read what the engine says of them",
    )
    return Alarm(
        alert("RequestsFail", copies, "errors", BROKEN_S, CRITICAL, said, logs(copies)),
        BALANCER,
        "HTTPCode_Target_5XX_Count",
        "Sum",
        ABOVE,
        PERCENT * FAILED_RATIO,
        copies.name,
        share=FAILED_SHARE,
    )


def refused(plan: WatchedPlan) -> Alarm:
    """Too many requests find no copy that answers."""
    first = plan.copies[0]
    said = (
        f"More than {PERCENT * FAILED_RATIO:g} % of the requests get an error of the load balancer (5xx)",
        "See whether copies are there and answer: it found none, or none in time",
    )
    names = [named(copies) for copies in plan.copies]
    about_all = {"namespace": first.namespace, "about": "errors"}
    command = services(first, names)
    return Alarm(
        Alert("RequestsRefused", "", BROKEN_S, CRITICAL, *said, command, labels=about_all),
        BALANCER,
        "HTTPCode_ELB_5XX_Count",
        "Sum",
        ABOVE,
        PERCENT * FAILED_RATIO,
        None,
        share=REFUSED_SHARE,
    )


def more_than_carried(copies: WatchedCopies) -> Alarm:
    """More requests than the copies carry within every limit: a queue that CloudWatch cannot see."""
    capacity = copies.requests_per_s_capacity.value
    said = (
        f"More than {capacity:.3g} requests/s come, which is what {copies.replicas} copies carry",
        "Plan again with the rate that comes, and apply its files",
    )
    return Alarm(
        alert("MoreThanCarried", copies, "queue", QUEUED_S, WARNING, said, services(copies, [named(copies)])),
        BALANCER,
        "RequestCount",
        "Sum",
        ABOVE,
        capacity * MINUTE,
        copies.name,
    )


def too_few(copies: WatchedCopies) -> Alarm:
    """The copies that answer cannot carry what was asked for. Without any, nothing is reported, which is broken too."""
    least = least_copies(copies)
    said = (
        f"Fewer than {least} copies answer, which carry {copies.requests_per_s:g} requests/s",
        "See why tasks do not run: a lost machine, no free GPU, an engine that fails to start",
    )
    command = services(copies, [named(copies)])
    return fewer("TooFewCopies", copies, TOO_FEW_S, CRITICAL, said, command, "HealthyHostCount", least)


def missing(copies: WatchedCopies) -> Alarm:
    """A copy is away for longer than a start takes."""
    said = (
        f"A copy is away for longer than a start may take ({duration(copies.start_s)})",
        "See why the task does not run; the headroom of the plan is gone while it is away",
    )
    command = services(copies, [named(copies)])
    return fewer("CopyMissing", copies, copies.start_s, WARNING, said, command, "HealthyHostCount", copies.replicas)


def fewer(
    name: str,
    copies: WatchedCopies,
    for_s: float,
    severity: str,
    said: Sequence[str],
    command: str,
    metric: str,
    least: int,
) -> Alarm:
    """Fewer than there have to be, or nothing that says how many."""
    namespace = BALANCER if metric == "HealthyHostCount" else MACHINES
    told = alert(name, copies, "copies", for_s, severity, said, command)
    return Alarm(told, namespace, metric, "Minimum", BELOW, least, copies.name, breaks_when_absent=True)


def unhealthy(copies: WatchedCopies) -> Alarm:
    """A copy runs and does not answer: longer than one that starts."""
    said = (
        f"A copy runs and does not answer for longer than a start may take ({duration(copies.start_s)})",
        "Read what the engine says last; ECS puts another in its place once it has answered before",
    )
    told = alert("CopyDoesNotAnswer", copies, "copies", copies.start_s, WARNING, said, logs(copies))
    return Alarm(told, BALANCER, "UnHealthyHostCount", "Minimum", ABOVE, 0, copies.name)


def lost_machine(copies: WatchedCopies) -> Alarm:
    """Fewer machines than the plan rents."""
    said = (
        f"Fewer than {copies.machines} machines are in service for longer than a start may take",
        "Read why none is started: a quota, no capacity, a spot machine taken back",
    )
    words = ["aws", "autoscaling", "describe-scaling-activities", *region(copies)]
    command = shell_command([*words, "--auto-scaling-group-name", named(copies), "--max-items", "5"])
    return fewer(
        "MachineMissing", copies, copies.start_s, WARNING, said, command, "GroupInServiceInstances", copies.machines
    )


def idle(copies: WatchedCopies) -> Alarm:
    """Machines that are paid for requests that do not come: where none comes at all, nothing is reported."""
    said = (
        f"For an hour less than {PERCENT * IDLE_RATIO:g} % of the {copies.requests_per_s:g} requests/s that the "
        f"machines are paid for (${copies.usd_per_hour * copies.machines:.2f}/h)",
        "Plan again with the rate that comes, or take the service down while nobody asks",
    )
    return Alarm(
        alert("PaidButIdle", copies, "money", IDLE_S, INFO, said, services(copies, [named(copies)])),
        BALANCER,
        "RequestCount",
        "Sum",
        BELOW,
        IDLE_RATIO * copies.requests_per_s * IDLE_S,
        copies.name,
        period_s=IDLE_S,
        breaks_when_absent=True,
    )


def hot(copies: WatchedCopies) -> Alarm:
    """A GPU is about to slow down."""
    said = (
        f"A GPU is above {HOT_C:g} °C and may slow down",
        "See whether its clocks are held down; ask for another machine if it stays hot",
    )
    told = alert("GpuHot", copies, "gpu", HOT_S, WARNING, said, looks_at_gpus(copies))
    return Alarm(
        told, AGENT, "nvidia_smi_temperature_gpu", "Maximum", ABOVE, HOT_C, copies.name, breaks_when_absent=True
    )


def above_card(copies: WatchedCopies, limit_watts: float) -> Alarm:
    """A GPU takes more than its card may."""
    said = (
        f"A GPU takes over {limit_watts:g} W, the limit of {copies.gpu}",
        "See whether the machine has the card and the power limit that the plan counts on",
    )
    told = alert("GpuAboveItsCard", copies, "gpu", POWER_S, WARNING, said, looks_at_gpus(copies))
    return Alarm(told, AGENT, "nvidia_smi_power_draw", "Maximum", ABOVE, ABOVE_CARD_RATIO * limit_watts, copies.name)


def named(copies: WatchedCopies) -> str:
    """What they are called on AWS, unless the module is told another name."""
    return f"{copies.namespace}-{copies.name}"


def region(copies: WatchedCopies) -> list[str]:
    """Where they run."""
    return ["--region", copies.region] if copies.region else []


def services(copies: WatchedCopies, names: Sequence[str]) -> str:
    """How many copies there are, and what ECS says of them."""
    words = ["aws", "ecs", "describe-services", *region(copies), "--cluster", copies.namespace, "--services", *names]
    return shell_command([*words, "--query", "services[].[serviceName,runningCount,desiredCount,events[0].message]"])


def logs(copies: WatchedCopies) -> str:
    """What the engine said last."""
    where = f"/ecs/{copies.namespace}/{copies.name}"
    return shell_command(["aws", "logs", "tail", *region(copies), where, "--since", "15m"])


def looks_at_gpus(copies: WatchedCopies) -> str:
    """What the machines' drivers say; its output is read by `aws ssm list-command-invocations --details`."""
    which = f"Key=tag:Name,Values={named(copies)}"
    words = ["aws", "ssm", "send-command", *region(copies), "--document-name", "AWS-RunShellScript"]
    return shell_command([*words, "--targets", which, "--parameters", "commands=nvidia-smi"])


def condition(alarm: Alarm) -> str:
    """What an alarm holds, in a line.

    >>> from gpufleet.monitor.rules import Alert
    >>> condition(Alarm(Alert("A", "", 60.0, "info", "", "", ""), BALANCER, "RequestCount", "Sum", ABOVE, 90, "a"))
    'Sum of RequestCount > 90'
    """
    what = alarm.share or f"{alarm.statistic} of {alarm.metric}"
    return f"{what} {alarm.comparison} {number(alarm.threshold)}"
