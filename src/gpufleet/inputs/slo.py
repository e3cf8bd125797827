"""Service-level objectives as people type them: 'ttft.p95<500ms,tpot.p95<40ms,latency.p95<12s'."""

from __future__ import annotations

import re

from gpufleet.domain.slo import METRICS, STATISTICS, Limit, Slo
from gpufleet.errors import UnknownName, UsageError, named
from gpufleet.units import parse_duration

DEFAULT_STATISTIC = "p95"
EXAMPLE = "'ttft.p95<500ms,tpot.p95<40ms,latency.p95<12s'"
LONGEST_SLO = 500
SPOKEN_METRICS = {"e2e": "latency", "itl": "tpot"}
_LIMIT = re.compile(r"(?P<metric>[a-z0-9_]+)(?:\.(?P<statistic>[a-z0-9_]+))?\s*<=?\s*(?P<limit>[^<>=]+)")


def parse_slo(text: str) -> Slo:
    """Limits separated by commas, each METRIC.STATISTIC<TIME; all of them must hold.

    Metrics are ttft (arrival to first token), tpot (per further token) and latency (arrival to last token; also
    e2e). Statistics are mean, p50, p90, p95 and p99 over requests; a bare `ttft<500ms` means p95. `<=` is `<`.

    >>> [limit.label for limit in parse_slo("ttft<500ms, tpot.p99<=40ms").limits]
    ['ttft.p95', 'tpot.p99']
    """
    if len(text) > LONGEST_SLO:
        raise UsageError("the SLO is too long", found=text, expected=f"at most {LONGEST_SLO} characters")
    limits = tuple(parse_limit(part) for part in text.split(","))
    refuse_repeats(limits)
    return Slo(limits)


def parse_limit(text: str) -> Limit:
    """One limit such as 'ttft.p95<500ms'."""
    match = _LIMIT.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError("cannot read the SLO", found=text.strip(), expected=f"limits such as {EXAMPLE}")
    metric = SPOKEN_METRICS.get(match["metric"], match["metric"])
    statistic = match["statistic"] or DEFAULT_STATISTIC
    if metric not in METRICS:
        raise UnknownName("SLO metric", match["metric"], METRICS, hint=f"Metrics: {', '.join(METRICS)}.")
    if statistic not in STATISTICS:
        raise UnknownName("SLO statistic", statistic, STATISTICS, hint=f"Statistics: {', '.join(STATISTICS)}.")
    with named(f"the SLO '{text.strip()}'"):
        return Limit(metric, statistic, parse_duration(match["limit"]))


def refuse_repeats(limits: tuple[Limit, ...]) -> None:
    """Two limits on one figure are a slip, not a wish."""
    labels = [limit.label for limit in limits]
    repeated = next((label for label in labels if labels.count(label) > 1), None)
    if repeated:
        raise UsageError(f"the SLO limits {repeated} twice", expected="one limit for each figure")
