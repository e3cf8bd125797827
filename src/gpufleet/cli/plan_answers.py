"""What `gpufleet plan serve` answers: flags laid over a workload file, parsed, and put to the api."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpufleet.cli.encoder_answers import asks_encoder, refuse_encoder, refuse_of_encoders, without_serving
from gpufleet.cli.market import SHIPPED_MARKET, MarketFlags
from gpufleet.cli.money import currency_of, usd_of, write_money_in
from gpufleet.cli.options import answer_counts
from gpufleet.cli.plan_words import (
    NOTHING_FURTHER,
    FurtherFlags,
    SaidWords,
    ServeFlags,
    model_of,
    needed,
    read_as,
    with_words,
)
from gpufleet.cli.trace_words import burst_notes, busiest_of, length_notes
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError, named
from gpufleet.inputs.token_counts import parse_token_counts
from gpufleet.inputs.workload import CLASS_KEYS, KEYS, ClassEntry, WorkloadFile, read_workload, refuse_said
from gpufleet.questions.fields import SERVE, RequestKind, ServeRequest, words_of
from gpufleet.units import parse_rate, parse_ratio, parse_usd_per_hour

if TYPE_CHECKING:
    from gpufleet.api.answers import ServeAnswer
    from gpufleet.api.encoder_services import EncoderServeRequest
    from gpufleet.api.plan_changes import Asked
    from gpufleet.ask.side_by_side.shape import ModelComparison
    from gpufleet.domain.requests import Requests
    from gpufleet.inputs.trace import Trace
    from gpufleet.pricing.token_price import TokenPrice
    from gpufleet.results.comparison import Comparison
    from gpufleet.results.encoders import EncoderServePlan
    from gpufleet.results.fleet import FleetPlan
    from gpufleet.results.plan import ServePlan


def serve_answer(
    typed: WorkloadFile,
    preferred: WorkloadFile,
    workload: str | None,
    flags: ServeFlags,
    further: FurtherFlags = NOTHING_FURTHER,
) -> ServePlan | EncoderServePlan | FleetPlan:
    """The plan for what was typed, over what the file says, over what is preferred; and what else was asked about it.

    Several models are planned together where the file has them.
    """
    written = WorkloadFile() if workload is None else read_workload(workload)
    refuse_said(written, {*words_of(*SERVE), "classes", "models"}, "plan serve")
    liked = likings(preferred, written)
    currency = typed.over(written).over(liked).text("currency")
    write_money_in(currency)
    if written.models is not None:
        if replace(further, front=False) != NOTHING_FURTHER or "disagg" in typed.words:
            raise UsageError("several models have one answer together", hint="Ask about one model at a time.")
        return fleet_answer(typed, written, liked, flags)
    model = typed.over(written).model
    if model is not None and asks_encoder(model):
        from gpufleet.cli.encoder_services import encoder_service

        return encoder_service(SaidWords.of(typed, written, without_serving(liked)), flags, further)
    plan = planned(serve_request(typed, written, liked, flags), flags)
    if further == NOTHING_FURTHER:
        return plan
    from gpufleet.api.answers import asked_further

    if further.is_verified:
        from gpufleet.api.kept_plans import kept_in_replay

        plan = kept_in_replay(plan, seen_requests(typed.over(written).text("trace")))
    return asked_further(
        plan,
        why_not=further.why_not,
        flips=further.flips,
        front=further.front,
        token_price=None if further.token_price is None else token_price(further.token_price, currency),
        grid_g_co2_per_kwh=further.grid_g_co2_per_kwh,
    )


def seen_requests(trace: str | None) -> Requests | None:
    """The requests of a workload's trace, where it has one with times."""
    if trace is None:
        return None
    from gpufleet.inputs.trace import read_trace

    seen = read_trace(trace)
    return None if seen.times_s is None else seen.requests()


def planned(request: ServeRequest, flags: ServeFlags) -> ServeAnswer:
    """The plan on the shipped tables, one's own over them, or those of a seed config."""
    from gpufleet.api.plans import plan_serve

    if flags.seed_config is not None:
        return plan_on_seed_config(request, flags.seed_config)
    return plan_serve(request, flags.market.tables())


def compared(
    typed: WorkloadFile,
    preferred: WorkloadFile,
    workload: str | None,
    sides: tuple[str, str],
    market: MarketFlags = SHIPPED_MARKET,
) -> Comparison:
    """Two setups under what was typed, over what the file says, over what is preferred."""
    from gpufleet.api.comparisons import compare

    written = WorkloadFile() if workload is None else read_workload(workload)
    refuse_said(written, set(KEYS) - {"today"}, "compare")
    write_money_in(typed.over(written).over(preferred).text("currency"))
    request = serve_request(typed, written, likings(preferred, written), ServeFlags(market=market, verb="compare"))
    return compare(replace(request, rows=1), *sides, market.tables())


def models_compared(
    typed: WorkloadFile, preferred: WorkloadFile, workload: str | None, models: Sequence[str], market: MarketFlags
) -> ModelComparison:
    """Models side by side under what was typed, over what the file says of any model, over what is preferred."""
    from gpufleet.ask.side_by_side.find import compare_models
    from gpufleet.ask.side_by_side.words import refuse_number

    if typed.model is not None:
        problem = "a model for all beside models side by side"
        raise UsageError(problem, found=f"--model {typed.model}", hint="--model is of two sets of machines.")
    refuse_number(len(models))
    written = WorkloadFile() if workload is None else read_workload(workload)
    refuse_said(written, set(KEYS) - {"today"}, "compare")
    write_money_in(typed.over(written).over(preferred).text("currency"))
    liked, flags = likings(preferred, written), ServeFlags(market=market, verb="compare")
    asked = [WorkloadFile({**typed.words, "model": model}) for model in models]
    requests = [serve_request(words, written, liked, flags) for words in asked]
    return compare_models(requests, market.tables())


def likings(preferred: WorkloadFile, written: WorkloadFile) -> WorkloadFile:
    """What is preferred where nothing is said; objectives of a whole service do not stand beside classes."""
    has_classes = written.classes or any(model.classes for model in written.models or ())
    return preferred.without("slo") if has_classes else preferred


def fleet_answer(typed: WorkloadFile, written: WorkloadFile, liked: WorkloadFile, flags: ServeFlags) -> FleetPlan:
    """Several models: what each says over what stands beside them, and flags over both; one budget."""
    from gpufleet.api.fleets import plan_fleet

    said = typed.over(written)
    budget = usd_of(said.text("budget"), said.over(liked).text("currency"), parse_usd_per_hour)
    return plan_fleet(fleet_requests(typed, written, liked, flags), budget, flags.market.tables())


def asked_today(workload: str) -> Asked:
    """The questions of a workload file alone, and the budget of several models; encoders are not compared."""
    from gpufleet.api.plan_changes import Asked

    written, flags = read_workload(workload), ServeFlags()
    if written.models is None:
        return Asked([serve_request(WorkloadFile(), written, WorkloadFile(), flags)])
    requests = fleet_requests(WorkloadFile(), written, WorkloadFile(), flags)
    of_writers = [request for request in requests if isinstance(request, ServeRequest)]
    return Asked(of_writers, usd_of(written.text("budget"), written.text("currency"), parse_usd_per_hour))


def token_price(text: str, currency: str | None) -> TokenPrice | str:
    """The price of an API by the token, in dollars; the name of a host as it is."""
    from gpufleet.api.inquiries import names_host, parse_token_price
    from gpufleet.inputs.currency import code_and_rest
    from gpufleet.pricing.token_price import TokenPrice

    if names_host(text):
        return text
    _, bare = code_and_rest(text)
    price, in_usd = parse_token_price(bare), usd_of(text, currency, lambda _: 1.0) or 1.0
    return TokenPrice(price.usd_per_million_input_tokens * in_usd, price.usd_per_million_output_tokens * in_usd)


def fleet_requests(
    typed: WorkloadFile, written: WorkloadFile, liked: WorkloadFile, flags: ServeFlags
) -> list[ServeRequest | EncoderServeRequest]:
    """The question of each model, without the budget that all share."""
    if typed.model is not None or written.model is not None:
        raise UsageError("both a model and several models", expected="'models' alone, or one MODEL")
    if flags.seed_config is not None:
        raise UsageError("several models on a seed config", expected="one model with --seed-config")
    of_all, of_one = replace(written, models=None).without("budget"), typed.without("budget")
    return [entry_request(of_one, entry.over(of_all), liked, flags) for entry in written.models or ()]


def entry_request(
    typed: WorkloadFile, entry: WorkloadFile, liked: WorkloadFile, flags: ServeFlags
) -> ServeRequest | EncoderServeRequest:
    """The question of one of several models; what is wrong with it is said with its name."""
    if entry.model is None:
        return serve_request(typed, entry, liked, flags)
    with named(entry.model):
        if not asks_encoder(entry.model):
            return serve_request(typed, entry, liked, flags)
        from gpufleet.cli.encoder_services import encoder_request

        of_encoder = SaidWords.of(typed.without("kv_precision"), entry, without_serving(liked))
        return encoder_request(of_encoder, flags, NOTHING_FURTHER)


def serve_request(typed: WorkloadFile, written: WorkloadFile, liked: WorkloadFile, flags: ServeFlags) -> ServeRequest:
    """The question that words ask; from a trace come the lengths and, where none is said, the rate."""
    asked = SaidWords.of(typed, written, liked)
    said = asked.words
    model = model_of(said, flags.verb)
    refuse_encoder(model)
    refuse_of_encoders(said)
    kinds, notes, busiest = request_kinds(said)
    first = kinds[0]
    request = ServeRequest(
        model,
        first.rate,
        first.input_tokens,
        first.output_tokens,
        classes=kinds if said.classes else (),
        prefix_cache=first.prefix_cache,
        prefix_kv=first.prefix_kv,
        busiest_rate=busiest,
        fleet_today=fleet_of_today(said),
        notes=notes,
    )
    return with_words(request, asked, flags.market)


def fleet_of_today(asked: WorkloadFile) -> str | None:
    """What runs today, its prices in dollars."""
    today = asked.text("today")
    if today is None:
        return None
    from gpufleet.inputs.fleet_today import fleet_in_dollars

    return fleet_in_dollars(today, currency_of(asked.text("currency")))


def request_kinds(asked: WorkloadFile) -> tuple[tuple[RequestKind, ...], list[str], float | None]:
    """The classes of requests, or the one kind that all are of; notes on traces, and the busiest rate of one."""
    if not asked.classes:
        kind, notes, busiest = request_kind(ClassEntry(asked.words), None)
        return (kind,), notes, None if "busiest" in asked.words else busiest
    refuse_beside_classes(asked)
    rate = asked.text("rate")
    total = None if rate is None else parse_rate(rate)
    told = [request_kind(c, total) for c in asked.classes]
    refuse_shares(asked)
    return tuple(kind for kind, _, _ in told), [note for _, notes, _ in told for note in notes], None


def refuse_beside_classes(asked: WorkloadFile) -> None:
    """Lengths, objectives and caches belong to the classes where there are any."""
    both = [name for name in CLASS_KEYS if name in asked.words and name != "rate"]
    if both:
        raise UsageError(f"{', '.join(both)} next to 'classes'", expected="them in each class, not next to 'classes'")


def refuse_shares(asked: WorkloadFile) -> None:
    """Shares of all requests add up to all of them."""
    said = [c.text("share") for c in asked.classes or ()]
    shares = [parse_ratio(share) for share in said if share is not None]
    if shares and abs(sum(shares) - 1) > 1e-6:
        raise UsageError("the shares of the classes do not add up", found=f"{sum(shares):.6g}", expected="100%")


def request_kind(entry: ClassEntry, total_rate: float | None) -> tuple[RequestKind, list[str], float | None]:
    """One kind of requests, with notes on its trace, and the busiest rate of it where all requests are of the kind.

    The trace of a class is not alone: the busiest stretches of several need not be one.
    """
    who = f"class {entry.name!r}: " if entry.name else ""
    seen = seen_in(entry.text("trace"))
    rate = class_rate(entry, total_rate, seen, who)
    prompt, answer, notes = request_tokens(seen, entry.text("in"), entry.text("out"), who=who)
    busiest = None
    if seen is not None and entry.text("rate") is None and total_rate is None:
        busiest = None if entry.name else busiest_of(seen, entry.text("slo"))
        notes += burst_notes(seen, entry.name, None if entry.text("busiest") else busiest)
    cached, shared = (ratio(entry.text(word)) for word in ("prefix_cache", "prefix_kv"))
    return RequestKind(entry.name, rate, prompt, answer, entry.text("slo"), cached, shared), notes, busiest


def seen_in(trace: str | None) -> Trace | None:
    """The requests of a trace, where one is named."""
    if trace is None:
        return None
    from gpufleet.inputs.trace import read_trace

    return read_trace(trace)


def request_tokens(
    seen: Trace | None, prompt: str | None, answer: str | None, who: str = ""
) -> tuple[TokenCounts | float, TokenCounts | float, list[str]]:
    """Tokens of prompts and answers as typed, else as a trace shows them; with notes on the trace."""
    if prompt is None and seen is not None:
        prompts: TokenCounts | float = seen.input_counts
    else:
        said = needed(prompt, f"{who}--in", "tokens of a prompt, such as '1000'")
        prompts = read_as(f"{who}--in", parse_token_counts, said)
    if answer is None and seen is not None:
        answers: TokenCounts | float = seen.output_counts
    else:
        said = needed(answer, f"{who}--out", "tokens of an answer, such as '300'")
        answers = read_as(f"{who}--out", answer_counts, said)
    return prompts, answers, [] if seen is None else length_notes(seen)


def class_rate(entry: ClassEntry, total: float | None, seen: Trace | None, who: str) -> float:
    """The rate of a class: its own, its share of the whole, or what its trace shows."""
    said, own = entry.text("share"), entry.text("rate")
    if said is not None:
        if own is not None:
            raise UsageError(f"{who}both a rate and a share", expected="one of them")
        if total is None:
            raise UsageError(f"{who}a share of an unknown rate", expected="'rate' next to 'classes', such as '50/s'")
        share = parse_ratio(said)
        if not share:
            raise UsageError(f"{who}a share of nothing", expected="a share above 0%, or no such class")
        return total * share
    if entry.name and total is not None:
        raise UsageError(f"{who}a rate next to 'classes' without a share", expected="'share: 80%' in each class")
    shown = rate_shown(seen) if own is None else None
    if shown is not None:
        return shown
    said = needed(own, f"{who}--rate", "requests per time, such as '50/s' or '3000/min'")
    return read_as(f"{who}--rate", parse_rate, said)


def rate_shown(seen: Trace | None) -> float | None:
    """The rate of a trace, where one is named and has times."""
    if seen is None:
        return None
    from gpufleet.inputs.trace_rate import rate_of

    return rate_of(seen)


def plan_on_seed_config(request: ServeRequest, folder: str) -> ServeAnswer:
    """The plan on the machines and prices that configs of the migration analyzer describe."""
    from gpufleet.api.plans import plan_serve
    from gpufleet.catalog.current_date import current_date
    from gpufleet.compat.seed_config import seed_catalog

    machines = seed_catalog(folder, current_date())
    plan = plan_serve(request, machines.catalog)
    return plan.model_copy(update={"notes": [*machines.notes, *plan.notes]})


def ratio(text: str | None) -> float | None:
    """A share, where one was given."""
    return None if text is None else parse_ratio(text)
