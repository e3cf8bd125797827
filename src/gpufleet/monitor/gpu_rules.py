"""Alerts on the GPUs of copies, from what dcgm-exporter shows: heat, power, errors of the driver and of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gpufleet.domain.engine_metrics import EngineMetrics
from gpufleet.languages import shell_command
from gpufleet.monitor.copies_rules import pods_command
from gpufleet.monitor.promql import duration, number, of_pods, own_labels
from gpufleet.monitor.rules import CRITICAL, WARNING, Alert, Proof, RuleGroup, Series, Watching, series_of
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.units import HOUR, MINUTE, NANOSECOND, PERCENT

INTERVAL_S = MINUTE
HOT_C, HOT_S = 85.0, 5 * MINUTE
"""Degrees at which GPUs of data centres are near to slowing down: the limit of rules of Amazon SageMaker HyperPod."""
ABOVE_CARD_RATIO, POWER_S = 1.05, 10 * MINUTE
"""Above the card's own limit by so much, it is another card or another limit than the plan's; a judgement."""
THROTTLED_RATIO, THROTTLED_S, AT_ONCE_S = 0.05, 10 * MINUTE, MINUTE
"""Share of the time for which a clock is held down; a judgement."""
NEEDS_RESET = ("RESET_GPU", "WORKFLOW_XID_48", "WORKFLOW_NVLINK_ERR", "WORKFLOW_NVLINK5_ERR")
NEEDS_MACHINE = ("RESTART_BM", "RESTART_VM")
NEEDS_APP = ("RESTART_APP",)
NEEDS_SOMEBODY = ("CONTACT_SUPPORT", "CHECK_MECHANICALS", "UPDATE_SWFW", "CHECK_UVM")
"""Resolutions of the catalogue by what they come to; double-bit errors (48) and links (74, 144-150) end in a reset."""
XID_ALERTS: Mapping[str, tuple[Sequence[str], str, str]] = {
    "XidNeedsReset": (NEEDS_RESET, CRITICAL, "Take its pods off and reset the GPU (nvidia-smi -r), or give it back"),
    "XidNeedsMachine": (NEEDS_MACHINE, CRITICAL, "Take its pods off and start the machine again, or give it back"),
    "XidNeedsRestart": (NEEDS_APP, WARNING, "The engine that hit it has to start again; see whether it did"),
    "XidNeedsSupport": (NEEDS_SOMEBODY, WARNING, "Ask whoever rents or sold the machine"),
}


def watched_by(plan: WatchedPlan) -> Watching:
    """A group of rules for each group of copies on GPUs that the exporter knows."""
    groups, unwatched = [], []
    for copies in plan.copies:
        if copies.vendor != "nvidia" or plan.gpu_metrics is None:
            unwatched.append(f"GPUs of {copies.name}: dcgm-exporter shows those of NVIDIA alone")
            continue
        alerts = list(alerts_of(copies, plan.gpu_metrics, plan.xid_codes or {}))
        groups.append(RuleGroup(f"{copies.name}-gpus", INTERVAL_S, alerts=alerts))
        if copies.power_limit_watts is None:
            unwatched.append(f"power of {copies.name}: the limit of {copies.gpu} is not known")
    return Watching(groups, unwatched)


def alerts_of(copies: WatchedCopies, known: EngineMetrics, codes: Mapping[str, Sequence[int]]) -> Iterator[Alert]:
    """All alerts on the GPUs of one group of copies."""
    yield hot(copies, known)
    if copies.power_limit_watts is not None:
        yield above_card(copies, known, copies.power_limit_watts)
    for name, (resolutions, severity, action) in XID_ALERTS.items():
        found = sorted(code for resolution in resolutions for code in codes.get(resolution, ()))
        if found:
            yield xid(name, found, severity, action, copies, known)
    yield double_bit(copies, known)
    for what, cause in (("thermal_throttle", "heat"), ("power_throttle", "power")):
        yield throttled(what, cause, copies, known)


def on_gpus(what: str, copies: WatchedCopies, known: EngineMetrics) -> str:
    """The selector of a metric of the GPUs of these copies."""
    found = known.of(what)
    assert found is not None, what
    return of_pods(found.name, copies)


def alert(
    name: str, expression: str, copies: WatchedCopies, series: str, values: tuple[str, str], **more: object
) -> Alert:
    """An alert on one series of GPUs, with values that break it and that keep it."""
    one = series_of(series)
    said: dict[str, object] = {"command": pods_command(copies), **more}
    proof = Proof([Series(one, values[0])], [Series(one, values[1])])
    labels = {**own_labels(copies), "about": "gpu"}
    return Alert(name=name, expression=expression, metrics=[series], labels=labels, proof=proof, **said)  # type: ignore[arg-type]


def hot(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """A GPU is about to slow down."""
    series = on_gpus("temperature", copies, known)
    return alert(
        "GpuHot",
        f"{series} > {HOT_C:g}",
        copies,
        series,
        (f"{HOT_C + 1:g}x600", f"{HOT_C:g}x600"),
        for_s=HOT_S,
        severity=WARNING,
        summary=f"A GPU is above {HOT_C:g} °C and may slow down",
        action="See whether its clocks are held down; ask for another machine if it stays hot",
    )


def above_card(copies: WatchedCopies, known: EngineMetrics, limit_watts: float) -> Alert:
    """A GPU takes more than its card may: at the limit itself a busy one is by design."""
    series, most = on_gpus("power", copies, known), ABOVE_CARD_RATIO * limit_watts
    return alert(
        "GpuAboveItsCard",
        f"{series} > {number(most)}",
        copies,
        series,
        (f"{number(most + 1)}x600", f"{number(limit_watts)}x600"),
        for_s=POWER_S,
        severity=WARNING,
        summary=f"A GPU takes over {limit_watts:g} W, the limit of {copies.gpu}",
        action="See whether the machine has the card and the power limit that the plan counts on",
    )


def xid(
    name: str, codes: Sequence[int], severity: str, action: str, copies: WatchedCopies, known: EngineMetrics
) -> Alert:
    """The driver's last error is one that is resolved so; the exporter keeps it until it starts again."""
    series = on_gpus("xid_error", copies, known)
    return alert(
        name,
        " or ".join(f"({series} {how})" for how in conditions(codes)),
        copies,
        series,
        (f"{codes[0]}x600", "0x600"),
        for_s=AT_ONCE_S,
        severity=severity,
        summary=f"Last XID of a driver: {', '.join(spans(codes))}",
        action=action,
        command=cordon_command(copies) if severity == CRITICAL else pods_command(copies),
    )


def cordon_command(copies: WatchedCopies) -> str:
    """Nothing new starts on its node; NODE is the label Hostname of the alert."""
    return shell_command(["kubectl", "cordon", "NODE"])


def runs(codes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of codes that follow each other.

    >>> list(runs([8, 96, 97, 98]))
    [(8, 8), (96, 98)]
    """
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        found = [code for _, code in run]
        yield found[0], found[-1]


def conditions(codes: Sequence[int]) -> list[str]:
    """What a last code is compared with.

    >>> conditions([79, 96, 97])
    ['== 79', '>= 96 <= 97']
    """
    return [f"== {first}" if first == last else f">= {first} <= {last}" for first, last in runs(codes)]


def spans(codes: Sequence[int]) -> list[str]:
    """Codes as people read them.

    >>> spans([79, 96, 97])
    ['79', '96-97']
    """
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in runs(codes)]


def double_bit(copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """Memory had errors that it could not mend."""
    series = on_gpus("double_bit_errors", copies, known)
    return alert(
        "GpuMemoryErrors",
        f"increase({series}[{duration(HOUR)}]) > 0",
        copies,
        series,
        ("0+1x600", "1x600"),
        for_s=AT_ONCE_S,
        severity=CRITICAL,
        summary="Double-bit errors in a GPU's memory, which it could not mend",
        action="Take its pods off and reset the GPU; if it comes again, give the machine back",
        command=cordon_command(copies),
    )


def throttled(what: str, cause: str, copies: WatchedCopies, known: EngineMetrics) -> Alert:
    """Clocks of a GPU are held down: the exporter counts nanoseconds."""
    series, most = on_gpus(what, copies, known), THROTTLED_RATIO / NANOSECOND
    return alert(
        f"GpuSlowedBy{cause.title()}",
        f"rate({series}[{duration(5 * MINUTE)}]) > {number(most)}",
        copies,
        series,
        (f"0+{number(4 * most * MINUTE)}x600", f"0+{number(most * MINUTE / 2)}x600"),
        for_s=THROTTLED_S,
        severity=WARNING,
        summary=f"Clocks are held down by {cause} for over {PERCENT * THROTTLED_RATIO:g} % of the time",
        action="The engine is slower than planned while that lasts; ask for another machine if it stays",
    )
