"""From a request to a demand: rate, lengths, classes, slack, hours and purse, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

from gpufleet.api.input_rows import InputRow, slack_rows, stated_rows
from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.provider_classes import most_easily_had
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.confidence import EXPECTED
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import MOST_TOKENS, AssumedCounts, TokenCounts
from gpufleet.domain.workload import RequestClass, Workload
from gpufleet.errors import UsageError
from gpufleet.inputs.slo import parse_slo
from gpufleet.optimize.demand import Demand, QuietHours
from gpufleet.optimize.market import Purse
from gpufleet.optimize.sensible import SensibleSize
from gpufleet.performance.serving import Lengths
from gpufleet.performance.token_lengths import assumed
from gpufleet.provenance import Sourced
from gpufleet.questions.fields import (
    DEFAULT_CONFIDENCE,
    DEFAULT_HEADROOM,
    DEFAULT_STEADY,
    MOST_ROWS,
    PlanRequest,
    RequestKind,
    ServeRequest,
    ServiceRequest,
    WriterRequest,
)
from gpufleet.questions.words import refuse_out_of_range, words_of
from gpufleet.units import DAY, HOUR, REQUESTS_PER_S, Bounds, in_full

MOST_CONFIDENCE = 0.99
HOURS_PER_DAY = DAY / HOUR
PLAYED = Bounds(1e-3, 1e3, "times its rate")  # not a conversion
T = TypeVar("T", Demand, Purse)


def demand_of(request: ServeRequest, arch: Architecture) -> Demand:
    """Rate, lengths, objectives, headroom, failure domain and hours, checked."""
    played = tuple(sorted((request.played or {}).items()))
    for name, ratio in played:
        PLAYED.refuse_outside(ratio, f"what {name} carries in a replay", ratio)
    return replace(with_slack(request, workload_of(request.kinds, arch)), played=played)


def with_slack(request: ServiceRequest, workload: Workload) -> Demand:
    """A workload with the headroom, the failure domain and the hours of a request, checked."""
    headroom, quiet = checked_headroom(request), quiet_hours(request, workload.rate_requests_per_s)
    demand = Demand(
        workload,
        headroom,
        quiet=quiet,
        confidence=checked_confidence(request.confidence),
        steady_ratio=DEFAULT_STEADY if request.confidence is None else 0.0,
    )
    refuse_calm_busiest(request.busiest_rate, workload.rate_requests_per_s)
    return within_limits(demand, request)


def refuse_calm_busiest(busiest_per_s: float | None, mean_per_s: float) -> None:
    """Refuse a busiest stretch that is calmer than the mean."""
    if busiest_per_s is not None and busiest_per_s < mean_per_s:
        raise UsageError(
            "the busiest rate is below the mean rate",
            found=f"{busiest_per_s:g}/s",
            expected=f"at least {mean_per_s:.3g}/s",
        )


def within_limits(held: T, request: PlanRequest) -> T:
    """A demand or a purse with the limits that words of a request fill."""
    said = {row.fills: getattr(request, row.field) for row in words_of(type(request)).values() if row.fills}
    names = {f.name for f in fields(held)}
    return replace(held, **{name: value for name, value in said.items() if name in names and value is not None})


def checked_headroom(request: PlanRequest) -> float:
    """The headroom that is wanted, 20 % unless said; whatever else is said is in its range."""
    refuse_out_of_range(request)
    return DEFAULT_HEADROOM if request.headroom is None else request.headroom


def checked_confidence(asked: float | None) -> float:
    """How surely limits hold."""
    confidence = DEFAULT_CONFIDENCE if asked is None else asked
    if not EXPECTED <= confidence <= MOST_CONFIDENCE:
        expected = f"from {EXPECTED:.0%} (the expected value) to {MOST_CONFIDENCE:.0%}"
        raise UsageError("the confidence is out of range", found=confidence, expected=expected)
    return confidence


def workload_of(kinds: Sequence[RequestKind], arch: Architecture) -> Workload:
    """Requests to a model: alike, of one kind, or of several classes; a bare mean gets the usual spread."""
    for kind in kinds:
        refuse_rate(kind.rate)
    classes = tuple(request_class(kind, arch) for kind in kinds)
    workload = Workload.of(classes)
    return replace(workload, classes=()) if is_plain(classes) else workload


def refuse_rate(rate: float) -> None:
    """Refuse a rate that no plan is for."""
    REQUESTS_PER_S.refuse_outside(rate, "the rate", rate)


def request_class(kind: RequestKind, arch: Architecture) -> RequestClass:
    """One class with its objectives and what its prefix cache saves."""
    counts = token_counts(kind.input_tokens, kind.output_tokens, arch)
    checked_lengths(counts[0].most, counts[1].most)
    refuse_beyond_start(arch, sum(c.mean if isinstance(c, AssumedCounts) else c.most for c in counts))
    cached = kind.prefix_cache or 0.0
    shared = cached if kind.prefix_kv is None else kind.prefix_kv
    if not 0 <= cached < 1:
        raise UsageError("the prefix-cache share is out of range", found=cached, expected="from 0 to below 100%")
    if not 0 <= shared <= cached:
        expected = "at most the prefix-cache share: what is not cached is not shared"
        raise UsageError("the share of prompts whose KV is held once is out of range", found=shared, expected=expected)
    limits = tuple(replace(limit, request_class=kind.name) for limit in slo_of(kind.slo).limits)
    return RequestClass(kind.name, kind.rate, *counts, Slo(limits), cached, shared, arch.max_model_len)


def token_counts(
    prompts: float | TokenCounts, answers: float | TokenCounts, arch: Architecture
) -> tuple[TokenCounts, TokenCounts]:
    """Tokens of prompts, with those of images, and of answers.

    A bare mean spreads as usual, within the context that the model was made for.
    """
    images = image_tokens(arch)
    means = mean_of(prompts) + images, mean_of(answers)
    checked_lengths(*means)
    refuse_beyond_context(arch, sum(means))
    habits, context = load_habits(), float(arch.max_context_tokens)
    return (
        as_counts(prompts, habits.prompt_log_spread, means[1], context, images),
        as_counts(answers, habits.answer_log_spread, means[0], context),
    )


def image_tokens(arch: Architecture) -> float:
    """Tokens of the images that every prompt holds."""
    return 0.0 if arch.images is None else float(arch.images.tokens)


def as_counts(
    tokens: float | TokenCounts, log_spread: Sourced, other_mean: float, context: float, beside: float = 0.0
) -> TokenCounts:
    """Token counts, of a number too, with what stands `beside` in every request."""
    if isinstance(tokens, TokenCounts):
        return tokens.plus(beside) if beside else tokens
    return assumed(tokens + beside, log_spread.value, other_mean, context, beside)


def mean_of(tokens: float | TokenCounts) -> float:
    """The mean of token counts, or the number that is one."""
    return tokens.mean if isinstance(tokens, TokenCounts) else tokens


def refuse_beyond_context(arch: Architecture, mean_tokens: float) -> None:
    """Refuse requests whose mean prompt and answer are longer than the model was made for: no engine serves them."""
    refuse_beyond_start(arch, mean_tokens)
    if mean_tokens > arch.max_context_tokens:
        raise UsageError(
            f"{arch.name} does not take contexts that long",
            found=f"{mean_tokens:,.0f} tokens of prompt and answer",
            expected=f"at most {arch.max_context_tokens:,}, which it was made for",
            hint="Rope scaling in its config.json extends them: name that file instead of the model.",
        )


def refuse_beyond_start(arch: Architecture, tokens: float) -> None:
    """Refuse requests that are longer than what the engine is started for."""
    if arch.max_model_len is not None and tokens > arch.max_model_len:
        raise UsageError(
            "the engine is started for shorter requests",
            found=f"{tokens:,.0f} tokens of prompt and answer",
            expected=f"at most {arch.max_model_len:,}: --max-model-len, or steps that take whole prompts",
        )


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
    return within_limits(Purse(), request)


def sensible_size(request: ServiceRequest) -> SensibleSize:
    """How large a plan may be that is told as a change of a question."""
    habits, had = load_habits(), request.easily_had
    easily_had = most_easily_had() if had is None else had
    return SensibleSize(habits.most_times_machines.value, easily_had, habits.most_rented_gpus.value)


def further_inputs(request: ServeRequest, demand: Demand) -> list[InputRow]:
    """What few questions state."""
    classes = [(f"class {c.name}", "classes", class_words(c), True) for c in demand.workload.classes if c.name]
    played = [("carried in replay", "played", f"{name} x {ratio!r}", True) for name, ratio in demand.played]
    return [*classes, *played, *stated_rows(request, WriterRequest, ServeRequest), *slack_rows(request)]


def length_rows(workload: Workload) -> list[InputRow]:
    """Tokens of prompts and of answers; the means of several classes."""
    [only] = workload.classes if len(workload.classes) == 1 else [workload]
    return [
        ("input tokens", "input_tokens", count_words(only.input_tokens), True),
        ("output tokens", "output_tokens", count_words(only.output_tokens), True),
        *assumed_lengths(workload.classes),
    ]


def headroom_row(request: PlanRequest, headroom_ratio: float) -> InputRow:
    """The headroom that is kept."""
    return ("headroom", "headroom", f"{headroom_ratio:.0%}", request.headroom is not None)


def class_words(c: RequestClass) -> str:
    """One class as it was read."""
    limits = "".join(f", {limit.metric}.{limit.statistic} < {limit.limit_s:g} s" for limit in c.slo.limits)
    cache = f", prefix cache {c.cached_ratio:.0%}" if c.cached_ratio else ""
    counts = f"in {count_words(c.input_tokens)}, out {count_words(c.output_tokens)}"
    return f"{in_full(c.rate_requests_per_s)}/s, {counts}{cache}{limits}"


def count_words(tokens: float | TokenCounts) -> str:
    """Token counts as they were read."""
    if isinstance(tokens, TokenCounts) and not tokens.is_alike and not isinstance(tokens, AssumedCounts):
        middle = f"mean {in_full(round(tokens.mean, 1))}, p50 {tokens.at('p50'):.0f}"
        longest = f", longest {in_full(tokens.most)}" if not tokens.beyond_ratio else ""
        return f"{middle}, p95 {tokens.at('p95'):.0f}{longest}"
    return in_full(mean_of(tokens))


def demand_notes(demand: Demand) -> list[str]:
    """How prefixes that are cached were used, and what may fail."""
    notes = []
    if any(c.cached_ratio for c in demand.workload.classes):
        notes.append("Prefix cache as stated: cached prompt tokens are not prefilled; the hit rate is not checked")
    return [*notes, *failure_notes(demand)]


def assumed_lengths(classes: Sequence[RequestClass]) -> list[InputRow]:
    """How lengths of which only the mean was said are taken to spread, as in published traces."""
    both = [(c.input_tokens, "in") for c in classes] + [(c.output_tokens, "out") for c in classes]
    assumed_ones = [(t, which) for t, which in both if isinstance(t, AssumedCounts) and not t.is_alike]
    said = [f"{t.at('p95'):,.0f} {which}" for t, which in assumed_ones]
    return [("spread of lengths", "lengths", f"p95 {', '.join(said)}", False)] if said else []


def failure_notes(demand: Demand) -> list[str]:
    """What may fail."""
    notes = []
    if demand.spare_machines:
        fail = "fails" if demand.spare_machines == 1 else "fail"
        notes.append(f"The headroom holds even if {demand.spare_machines} of the machines {fail}")
    if demand.zones > 1:
        notes.append(f"The headroom holds even if one of {demand.zones} zones fails; prices are those of one region")
    return notes


def refuse_rows(rows: int) -> None:
    """Refuse a number of rows that no page holds."""
    if not 1 <= rows <= MOST_ROWS:
        raise UsageError("the number of rows is out of range", found=rows, expected=f"from 1 to {MOST_ROWS}")


def checked_lengths(input_tokens: float, output_tokens: float) -> Lengths:
    """Tokens of a request: one at least, and not absurd."""
    for name, tokens in (("input", input_tokens), ("output", output_tokens)):
        if not 1 <= tokens <= MOST_TOKENS:
            raise UsageError(f"{name} tokens must be from 1 to {MOST_TOKENS:,}", found=tokens)
    return Lengths(float(input_tokens), float(output_tokens))
