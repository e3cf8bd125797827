"""From a request to a demand: rate, lengths, classes, slack, hours and purse, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpufleet.api.input_rows import InputRow
from gpufleet.api.lengths import checked_lengths
from gpufleet.api.requests import PlanRequest, RequestKind, ServeRequest, ServiceRequest, WriterRequest
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.errors import UsageError
from gpufleet.inputs.slo import parse_slo
from gpufleet.optimize.caution import EXPECTED
from gpufleet.optimize.demand import Demand, QuietHours
from gpufleet.optimize.serve import Purse
from gpufleet.units import DAY, HOUR, REQUESTS_PER_S, USD_PER_HOUR, in_full

DEFAULT_HEADROOM = 0.2
MOST_REPLICAS, MOST_SPARE, MOST_ZONES = 10_000, 1_000, 26
MOST_CONFIDENCE = 0.99
HOURS_PER_DAY = DAY / HOUR


def demand_of(request: ServeRequest) -> Demand:
    """Rate, lengths, objectives, headroom, failure domain and hours, checked."""
    return with_slack(request, workload_of(request.kinds))


def with_slack(request: ServiceRequest, workload: Workload) -> Demand:
    """A workload with the headroom, the failure domain and the hours of a request, checked."""
    replicas = 1 if request.min_replicas is None else request.min_replicas
    refuse_outside("the number of replicas", replicas, 1, MOST_REPLICAS)
    spare, zones = request.spare_machines or 0, 1 if request.zones is None else request.zones
    refuse_outside("the number of spare machines", spare, 0, MOST_SPARE)
    refuse_outside("the number of zones", zones, 1, MOST_ZONES)
    headroom, quiet = checked_headroom(request.headroom), quiet_hours(request, workload.rate_requests_per_s)
    return Demand(workload, headroom, replicas, spare, zones, quiet, checked_confidence(request.confidence))


def checked_headroom(asked: float | None) -> float:
    """The headroom that is wanted: 20 % unless said."""
    headroom = DEFAULT_HEADROOM if asked is None else asked
    if not 0 <= headroom <= 10:
        raise UsageError("the headroom is out of range", found=headroom, expected="from 0 to 10 (1 = 100 %)")
    return headroom


def checked_confidence(asked: float | None) -> float:
    """How surely limits hold: the expected value unless said."""
    confidence = EXPECTED if asked is None else asked
    if not EXPECTED <= confidence <= MOST_CONFIDENCE:
        expected = f"from {EXPECTED:.0%} (the expected value) to {MOST_CONFIDENCE:.0%}"
        raise UsageError("the confidence is out of range", found=confidence, expected=expected)
    return confidence


def refuse_outside(what: str, found: float, least: float, most: float) -> None:
    """Refuse a number out of its range."""
    if not least <= found <= most:
        raise UsageError(f"{what} is out of range", found=found, expected=f"from {least:,} to {most:,}")


def workload_of(kinds: Sequence[RequestKind]) -> Workload:
    """Requests that are alike, of one kind, or of several classes."""
    for kind in kinds:
        refuse_rate(kind.rate)
    classes = tuple(request_class(kind) for kind in kinds)
    workload = Workload.of(classes)
    return replace(workload, classes=()) if is_plain(classes) else workload


def refuse_rate(rate: float) -> None:
    """Refuse a rate that no plan is for."""
    REQUESTS_PER_S.refuse_outside(rate, "the rate", rate)


def request_class(kind: RequestKind) -> RequestClass:
    """One class with its objectives and what its prefix cache saves."""
    counts = [as_counts(kind.input_tokens), as_counts(kind.output_tokens)]
    checked_lengths(counts[0].mean, counts[1].mean)
    checked_lengths(counts[0].most, counts[1].most)
    cached = kind.prefix_cache or 0.0
    shared = cached if kind.prefix_kv is None else kind.prefix_kv
    if not 0 <= cached < 1:
        raise UsageError("the prefix-cache share is out of range", found=cached, expected="from 0 to below 100%")
    if not 0 <= shared <= cached:
        expected = "at most the prefix-cache share: what is not cached is not shared"
        raise UsageError("the share of prompts whose KV is held once is out of range", found=shared, expected=expected)
    limits = tuple(replace(limit, request_class=kind.name) for limit in slo_of(kind.slo).limits)
    return RequestClass(kind.name, kind.rate, counts[0], counts[1], Slo(limits), cached, shared)


def as_counts(tokens: float | TokenCounts) -> TokenCounts:
    """Token counts, of a number too; a number that cannot be one is refused later, with its range."""
    if isinstance(tokens, TokenCounts):
        return tokens
    checked_lengths(tokens, 1.0)
    return TokenCounts(tokens)


def slo_of(slo: str | Slo | None) -> Slo:
    """Limits, from text too."""
    return slo if isinstance(slo, Slo) else Slo() if slo is None else parse_slo(slo)


def is_plain(classes: Sequence[RequestClass]) -> bool:
    """One class without a name whose requests are all alike and share nothing."""
    first = classes[0]
    alike = first.input_tokens.is_alike and first.output_tokens.is_alike
    return len(classes) == 1 and not first.name and alike and not first.cached_ratio


def quiet_hours(request: ServiceRequest, busy_rate: float) -> QuietHours | None:
    """The hours off peak; their rate and the length of the peak belong together."""
    if request.off_peak_rate is None and request.peak_hours is None:
        return None
    if request.off_peak_rate is None or request.peak_hours is None:
        missing = "the rate off peak is" if request.off_peak_rate is None else "the hours of the peak are"
        expected = "off_peak and peak_hours, such as --off-peak 5/s --peak-hours 10h"
        raise UsageError(f"{missing} missing", expected=expected)
    refuse_rate(request.off_peak_rate)
    if not 0 < request.peak_hours < HOURS_PER_DAY:
        raise UsageError("the hours of the peak are out of range", found=request.peak_hours, expected="from 0 to 24")
    if request.off_peak_rate > busy_rate:
        most = f"at most {busy_rate:g}/s"
        raise UsageError("the rate off peak is above the rate", found=request.off_peak_rate, expected=most)
    return QuietHours(1 - request.peak_hours / HOURS_PER_DAY, request.off_peak_rate)


def purse_of(request: ServiceRequest) -> Purse:
    """What may be spent, and how much of it on spot machines."""
    budget = math.inf if request.budget_usd_per_hour is None else request.budget_usd_per_hour
    if budget != math.inf:
        USD_PER_HOUR.refuse_outside(budget, "the budget", budget)
    most_spot = 1.0 if request.max_spot is None else request.max_spot
    refuse_outside("the spot share", most_spot, 0, 1)
    return Purse(budget, most_spot)


def further_inputs(request: ServeRequest, demand: Demand) -> list[InputRow]:
    """What few questions state."""
    classes = [(f"class {c.name}", "classes", class_words(c), True) for c in demand.workload.classes if c.name]
    shared = request.prefix_kv
    held_once = [] if shared is None else [("KV held once", "prefix_kv", f"{shared:.0%} of prompt tokens", True)]
    return [*classes, *prefix_rows(request), *held_once, *slack_inputs(request, demand)]


def prefix_rows(request: WriterRequest) -> list[InputRow]:
    """The share of prompts that a cache holds, where it was stated."""
    if not request.prefix_cache:
        return []
    return [("prefix cache", "prefix_cache", f"{request.prefix_cache:.0%} of prompt tokens", True)]


def headroom_row(request: PlanRequest, headroom_ratio: float) -> InputRow:
    """The headroom that is kept."""
    return ("headroom", "headroom", f"{headroom_ratio:.0%}", request.headroom is not None)


def slack_inputs(request: ServiceRequest, demand: Demand) -> list[InputRow]:
    """The failure domain, the hours and the purse, where stated."""
    stated: list[InputRow] = [
        ("confidence", "confidence", f"{demand.confidence:.3g}", request.confidence is not None),
        ("spare machines", "spare_machines", str(demand.spare_machines), request.spare_machines is not None),
        ("zones", "zones", f"{demand.zones}, one may be lost", demand.zones > 1),
        ("rate off peak", "off_peak_rate", f"{in_full(request.off_peak_rate or 0)}/s", request.off_peak_rate),
        ("peak hours", "peak_hours", f"{request.peak_hours or 0:g} a day", request.peak_hours),
        ("budget", "budget", f"${request.budget_usd_per_hour or 0:,.2f}/h", request.budget_usd_per_hour),
        ("most on spot", "max_spot", f"{request.max_spot or 0:.0%} of the machines", request.max_spot is not None),
    ]
    return [row for row in stated if row[3]]


def class_words(c: RequestClass) -> str:
    """One class as it was read."""
    limits = "".join(f", {limit.metric}.{limit.statistic} < {limit.limit_s:g} s" for limit in c.slo.limits)
    cache = f", prefix cache {c.cached_ratio:.0%}" if c.cached_ratio else ""
    counts = f"in {count_words(c.input_tokens)}, out {count_words(c.output_tokens)}"
    return f"{in_full(c.rate_requests_per_s)}/s, {counts}{cache}{limits}"


def count_words(tokens: float | TokenCounts) -> str:
    """Token counts as they were read."""
    if isinstance(tokens, TokenCounts) and not tokens.is_alike:
        middle = f"mean {in_full(round(tokens.mean, 1))}, p50 {tokens.at('p50'):.0f}"
        return f"{middle}, p95 {tokens.at('p95'):.0f}{longest_words(tokens)}"
    return in_full(as_counts(tokens).mean)


def longest_words(tokens: TokenCounts) -> str:
    """The longest, where it is known."""
    return f", longest {in_full(tokens.most)}" if not tokens.beyond_ratio else ""


def demand_notes(demand: Demand, has_objectives: bool = True) -> list[str]:
    """How lengths that differ and prefixes that are cached were used."""
    classes = demand.workload.classes
    varied = any(not (c.input_tokens.is_alike and c.output_tokens.is_alike) for c in classes) or len(classes) > 1
    latency = ", TTFT and latency on prompt and answer at each objective's own percentile (upper bounds from p90 on)"
    means = f"Lengths differ: throughput and KV rest on their means{latency if has_objectives else ''}"
    notes = [f"{means}; {demand.mix.longest_tokens:,.0f} tokens must fit at all"] if varied else []
    if any(c.cached_ratio for c in classes):
        notes.append("Prefix cache as stated: cached prompt tokens are not prefilled; nothing here checks the hit rate")
    return [*notes, *failure_notes(demand)]


def failure_notes(demand: Demand) -> list[str]:
    """What may fail."""
    notes = []
    if demand.spare_machines:
        notes.append(f"The headroom holds also without {demand.spare_machines} of the machines")
    if demand.zones > 1:
        notes.append(f"The headroom holds also without one of {demand.zones} zones; prices are of one region")
    return notes
