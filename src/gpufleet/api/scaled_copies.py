"""What `autoscale` recommends as copies that come and go: machines become pods, shares of the plan's rate figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit
from zoneinfo import available_timezones

from gpufleet.catalog.engine_metrics import metric_name, metrics_of
from gpufleet.deploy.serving_copies import ScaledWindow, Scaling
from gpufleet.domain.engine_metrics import EngineMetric
from gpufleet.errors import UsageError
from gpufleet.report.numbers import duration
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.units import DAY, HOUR, MINUTE

PROMETHEUS = "http://prometheus-operated.monitoring:9090"
"""The service of the Prometheus operator, in the namespace that its charts name."""
UTC = "UTC"
ADDRESS = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~%/\-]*)?")
"""Host, port and path alone: files hold no password, and a query is of whoever asks."""
NAME_OF_ZONE = re.compile(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+){0,2}")
RATE_WINDOWS_S = {"hpa-rate": 2 * MINUTE, "keda-rate": MINUTE, "keda-cron-rate": MINUTE}
NO_ZONES = ("localtime", "posixrules", "Factory")
"""Names of the database that mean another zone on each machine, or none."""
NO_SCALER = ("Deployment",)
POLL_S, COOLDOWN_S = 15.0, 300.0
MORNING_S, NIGHT_S = 6 * HOUR, 22 * HOUR
EVERY_DAY = tuple(range(1, 8))
LONGEST_LEAD_S = DAY / 4


def scaling_of(
    answer: AutoscaleResult, timezone: str | None, prometheus: str | None, engine: str, version: str | None
) -> Scaling:
    """The law to take as what a controller is told; laws that none runs whose files are written are refused."""
    best, machine = answer.recommendation, answer.machine
    refuse_unwritten(answer)
    copies, per_copy = machine.copies, (best.settings.get("target_ratio") or 1.0) / machine.copies
    settings = {name: value for name, value in best.settings.items() if value is not None}
    least, most = bounds_of(answer, settings)
    peak = math.ceil(answer.peak_requests_per_s / machine.requests_per_s_planned)
    return Scaling(
        law=best.policy,
        controller=best.controller,
        least=least * copies,
        most=most * copies,
        per_machine=copies,
        fallback=min(max(peak, least, 1), most) * copies,
        windows=tuple(windows_of(answer, settings)),
        lead_s=math.ceil(answer.cold_start_s / MINUTE) * MINUTE if best.windows else 0.0,
        timezone=zone(timezone),
        prometheus=address(prometheus),
        metrics=metrics_read(best.policy, settings, engine, version),
        in_flight=per_copy * machine.requests_planned if best.policy == "hpa" else None,
        rate_per_s=per_copy * machine.requests_per_s_planned if best.policy in RATE_WINDOWS_S else None,
        rate_window_s=RATE_WINDOWS_S.get(best.policy, 0.0),
        drain_s=settings.get("drain_s"),
        waiting=settings.get("waiting"),
        kv_ratio=settings.get("kv_ratio"),
        down_window_s=settings.get("down_window_s", 0.0),
        poll_s=settings.get("poll_s", POLL_S),
        cooldown_s=0.0 if best.policy == "schedule" else settings.get("cooldown_s", COOLDOWN_S),
    )


def metrics_read(
    policy: str, settings: Mapping[str, float], engine: str, version: str | None
) -> dict[str, EngineMetric]:
    """What the law reads, by the names of the engine's version; an engine that does not count it is refused."""
    in_flight, rate = ("running_requests", "waiting_requests"), "finished_requests"
    whats = dict.fromkeys((*in_flight, rate) if policy in RATE_WINDOWS_S else in_flight if policy == "hpa" else ())
    whats.update(dict.fromkeys(["waiting_requests"] if "waiting" in settings else []))
    whats.update(dict.fromkeys(["kv_use"] if "kv_ratio" in settings else []))
    known = metrics_of(engine, version).by_name if whats else {}
    return {what: known[metric_name(engine, version, what)] for what in whats}


def refuse_unwritten(answer: AutoscaleResult) -> None:
    """Refuse a law whose controller is none that files are written for, and a start too long for its windows."""
    best = answer.recommendation
    if best.controller not in ("KEDA", "HorizontalPodAutoscaler", *NO_SCALER):
        by = f"{best.controller} runs it" if best.controller else "no controller runs it"
        hint = "Without --policy, 'gpufleet autoscale' takes a law that KEDA or Kubernetes runs."
        raise UsageError(f"no files are written for '{best.policy}'", found=by, hint=hint)
    if best.policy == "keda-zero" and not answer.least_machines:
        found = "with no copy there is no engine that counts who waits"
        raise UsageError("nothing would start the first copy", found=found, hint="autoscale --min 1 keeps one.")
    if best.windows and answer.cold_start_s > LONGEST_LEAD_S:
        raise UsageError("windows cannot begin so early", found=f"a cold start of {duration(answer.cold_start_s)}")


def bounds_of(answer: AutoscaleResult, settings: Mapping[str, float]) -> tuple[int, int]:
    """Machines at the least and the most: a law goes below one only where it goes to none."""
    best = answer.recommendation
    if best.controller in NO_SCALER:
        number = min(max(round(settings["replicas"]), answer.least_machines), answer.most_machines)
        return number, number
    lowest = {"schedule": settings.get("night", 1), "keda-zero": settings.get("min_replicas", 1)}.get(best.policy, 1)
    least = max(best.least_in_windows, answer.least_machines, round(lowest))
    return min(least, answer.most_machines), answer.most_machines


def windows_of(answer: AutoscaleResult, settings: Mapping[str, float]) -> Iterator[ScaledWindow]:
    """Windows of a law that has some; of the seeds' schedule the day."""
    copies, most = answer.machine.copies, answer.most_machines
    if answer.recommendation.policy == "schedule":
        yield ScaledWindow(EVERY_DAY, MORNING_S, NIGHT_S, min(round(settings["day"]), most) * copies)
    for window in answer.recommendation.windows:
        yield ScaledWindow(tuple(window.days), window.start_s, window.end_s, window.machines * copies)


def zone(name: str | None) -> str:
    """A time zone by its name in the IANA database, where this machine has one; UTC unless said."""
    said = UTC if name is None else name
    known = available_timezones()
    if not NAME_OF_ZONE.fullmatch(said) or (known and said not in known) or said in NO_ZONES:
        raise UsageError("--timezone is no zone", found=said, expected="a name of the IANA database: Europe/Berlin")
    return said


def address(url: str | None) -> str:
    """Where Prometheus answers inside the cluster."""
    said = PROMETHEUS if url is None else url.rstrip("/")
    if not ADDRESS.fullmatch(said) or not has_port(said):
        expected = f"such as {PROMETHEUS}, without a user, a query or a fragment"
        found = "a user in it" if "@" in said else said
        raise UsageError("--prometheus is no address", found=found, expected=expected)
    return said


def has_port(url: str) -> bool:
    """Whether an address names a host and a port that there is.

    >>> has_port("http://a:9090"), has_port("http://a"), has_port("http://a:0"), has_port("http://[::1:1")
    (True, False, False, False)
    """
    try:
        parts = urlsplit(url)
        return bool(parts.hostname and parts.port)
    except ValueError:
        return False
