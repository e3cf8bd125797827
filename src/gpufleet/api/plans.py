"""Which machines serve a workload within its objectives at least cost."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from gpufleet.api.answers import ServeAnswer
from gpufleet.api.demands import (
    count_words,
    demand_notes,
    demand_of,
    further_inputs,
    inputs_of,
    purse_of,
)
from gpufleet.api.launches import launched, serve_launches
from gpufleet.api.market import best_on_spot, market_of, market_rows
from gpufleet.api.price_age import refuse_old_prices
from gpufleet.api.price_ends import said_of_prices
from gpufleet.api.remarks import beyond_context, unmeasured_kernels
from gpufleet.api.requests import ServeRequest
from gpufleet.architecture.precision_labels import kv_format, weight_format
from gpufleet.architecture.precision_labels import kv_precision as usual_kv_precision
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.engine_eras import load_engine, load_eras
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.slices import SLICE_NOTE, with_slices
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.offer import Offer
from gpufleet.domain.precision import FP8, FP16, Precision, WeightFormat
from gpufleet.errors import UsageError
from gpufleet.inputs.model_config import read_model
from gpufleet.optimize.flips import Standing, price_flips
from gpufleet.optimize.mix import Mix, cheapest_mix, may_mix
from gpufleet.optimize.replicas import Choices, with_fp16_twins
from gpufleet.optimize.serve import BEYOND_QUOTA, ServeQuestion, ServeSolution, solve_serve
from gpufleet.results.base import Input
from gpufleet.results.flips import flips_of
from gpufleet.results.mix import mixed_deployment
from gpufleet.results.plan import Deployment, ServePlan
from gpufleet.results.price_sources import price_days, price_sources
from gpufleet.results.rest_of_bill import with_rest_of_bill
from gpufleet.results.serve_plan import Context, deployment, serve_plan
from gpufleet.units import in_full

LOWER_FORMATS = ("fp8", "nvfp4", "int4")
QUALITY_COST = {
    "fp8": "fp8 weights: effectively lossless on the Llama 3.1 family (arXiv:2411.02355); test other models",
    "int4": "int4 weights: on a par with int8, which loses 1-3 % on the Llama 3.1 family (arXiv:2411.02355)",
    "nvfp4": "nvfp4 weights: their cost in quality is not known here; measure it on your own task",
}
NO_MIX = "Two offers together are not looked for with quiet hours or a spot share"
NO_BILL = "Lines of bill_lines.csv are not added to two offers together"
MOST_ROWS = 1000
SERVING_ENGINES = ("vllm", "sglang", "tensorrt-llm")


def plan_serve(request: ServeRequest, catalog: Catalog | None = None) -> ServeAnswer:
    """The cheapest machines, layout and engine that keep every objective, ranked, with what was rejected and why.

    The answer can be asked further: `.why()`, `.why_not("L40S:4")`, `.what_flips()`, `.pareto()`, `.against_tokens()`.

    >>> plan = plan_serve(ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms"))
    >>> plan.answer.usd_per_hour > 0
    True
    """
    tables = sold_tables(request, load_catalog() if catalog is None else catalog)
    question, solution, notes = solved(request, tables)
    plan = answered(request, question, solution, notes, tables)
    if request.fleet_today is None:
        return plan
    from gpufleet.api.today import with_today

    return with_today(plan, request, question, solution, tables)


def solved(request: ServeRequest, tables: Catalog) -> tuple[ServeQuestion, ServeSolution, list[str]]:
    """The question with its solution, and notes on how it was read."""
    _, question, notes = market_question(request, architecture_of(request), tables)
    return question, solve_serve(question, calibration_of(tables)), notes


def sold_tables(request: ServeRequest, tables: Catalog) -> Catalog:
    """The tables with slices of GPUs as devices of their own, where they may be rented."""
    return with_slices(tables) if request.fractions else tables


def market_question(
    request: ServeRequest, arch: Architecture, tables: Catalog
) -> tuple[Catalog, ServeQuestion, list[str]]:
    """The tables that a request is asked of, the question and notes on it; prices that are too old end it."""
    sold = sold_tables(request, tables)
    question, notes = serve_question(request, arch, sold)
    refuse_too_old(request, question.offers)
    return sold, question, notes


def refuse_too_old(request: ServeRequest, offers: Sequence[Offer]) -> None:
    """Raise when any of these prices is older than the request allows."""
    if request.max_price_age_s is not None:
        refuse_old_prices(offers, request.max_price_age_s, request.today or date.today())


def answered(
    request: ServeRequest, question: ServeQuestion, solution: ServeSolution, notes: list[str], tables: Catalog
) -> ServeAnswer:
    """The plan of a solved question, with the alternatives that were not asked for."""
    inputs, arch = understood(request, question), question.arch
    longest = question.demand.mix.longest_tokens
    of_model = [*beyond_context(arch, longest), *unmeasured_kernels(arch), *arch.notes]
    of_tables = [*tables.warnings, *([SLICE_NOTE] if request.fractions else [])]
    said = [*notes, *of_tables, *request.notes, *demand_notes(question.demand), *of_model]
    plan = serve_plan(question, solution, inputs, tables.sources, digest(inputs, question.offers), said, request.rows)
    plan = with_mix(plan, request, question, solution, tables)
    plan = plan.model_copy(update={"notes": [*plan.notes, *said_of_prices(chosen_of(plan), tables)]})
    if not plan.deployments:
        unbilled = [NO_BILL] if plan.mix is not None and tables.bill_lines else []
        return ServeAnswer.of(plan.model_copy(update={"notes": [*plan.notes, *unbilled]}), request, tables)
    spot = best_on_spot(request, solution.ranked, tables)
    launches = serve_launches(request.model, question, solution, solution.ranked[: len(plan.deployments)])
    alternatives = {
        "deployments": launched(plan.deployments, launches),
        "spot_alternative": spot and deployment(Context.of(question, solution), spot),
        "flips": flips_of(price_flips(Standing.of(question, solution))),
        "lower_precision_alternative": lower_precision_alternative(request, arch, plan, tables),
    }
    whole = with_every_source(plan.model_copy(update=alternatives), question, tables)
    return ServeAnswer.of(with_rest_of_bill(whole, tables.bill_lines), request, tables)


def chosen_of(plan: ServePlan) -> list[Deployment]:
    """What a plan advises to rent: its answer, and two offers together."""
    return [*plan.deployments[:1], *(part.deployment for part in (plan.mix.parts if plan.mix else ()))]


def with_every_source(plan: ServePlan, question: ServeQuestion, tables: Catalog) -> ServePlan:
    """The plan with the sources of every price that it says: of alternatives, mixes and who wins elsewhere too."""
    beside = [d for d in (plan.spot_alternative, plan.lower_precision_alternative) if d is not None]
    beside += [part.deployment for part in plan.mix.parts] if plan.mix is not None else []
    winners = [flip.winner for flip in plan.flips or () if flip.winner is not None]
    named = {(w.cloud, w.region, w.instance, w.price_kind) for w in winners}
    named |= {(x.cloud, x.region, x.instance, x.price_kind) for x in plan.looser_limits}
    flipped = [
        (o.source, o.as_of) for o in question.offers if (o.cloud, o.region, o.instance, o.price_kind.value) in named
    ]
    used = [*price_days([*plan.deployments, *beside]), *flipped]
    return plan.model_copy(update={"price_sources": price_sources(used, tables.sources)})


def architecture_of(request: ServeRequest) -> Architecture:
    """The model of a request, read where it is a name or a path."""
    if isinstance(request.model, Architecture):
        return request.model
    return read_model(str(request.model), shipped_architecture)


def serve_question(request: ServeRequest, arch: Architecture, tables: Catalog) -> tuple[ServeQuestion, list[str]]:
    """Names resolved, numbers checked, formats and engines chosen; with notes on how names were read."""
    refuse_rows(request.rows)
    market = market_of(request, tables)
    formats, quality = formats_allowed(arch, request)
    weights = with_fp16_twins(formats, FP16)
    engines = engines_allowed(request.engine)
    kv = kv_formats(engines, weights, request.kv_precision)
    distinct = tuple(dict.fromkeys(precision for row in kv for precision in row))
    palette = Palette(tuple(tables.accelerators.values()), weights, distinct, engines)
    choices = Choices(palette, market.instances, tuple(tuple(map(distinct.index, row)) for row in kv))
    question = ServeQuestion(arch, choices, market.offers, demand_of(request), purse_of(request))
    return question, [*market.notes, *quality]


def formats_allowed(arch: Architecture, request: ServeRequest) -> tuple[list[WeightFormat], list[str]]:
    """The checkpoint's own format; lower ones only where the user allows them, with what they cost in quality."""
    if request.precision:
        formats = [weight_format(arch, label) for label in request.precision]
    elif request.allow_lower_precision:
        formats = [arch.weights, *(weight_format(arch, label) for label in LOWER_FORMATS)]
    else:
        formats = [arch.weights]
    unique = list({w.name: w for w in formats}.values())
    lower = [w.name for w in unique if w.name != arch.weights.name]
    return unique, [QUALITY_COST[name] for name in lower if name in QUALITY_COST]


def kv_formats(
    engines: Sequence[EngineProfile], formats: Sequence[WeightFormat], asked: str | None
) -> list[list[Precision]]:
    """The KV format of each engine with each weight format: the asked one, else what the engine chooses for it."""
    if asked is None:
        return [[usual_kv_precision(weights, engine) for weights in formats] for engine in engines]
    return [[kv_format(asked)] * len(formats)] * len(engines)


def engines_allowed(name: str | None) -> tuple[EngineProfile, ...]:
    """The named engine, all serving engines for 'all', vLLM where nothing is said."""
    if name is not None and name.strip().lower() == "all":
        return tuple(load_engine(e) for e in SERVING_ENGINES if e in load_eras())
    engine = load_engine("vllm" if name is None else name)
    if engine.name not in SERVING_ENGINES:
        raise UsageError(f"{engine.title} does not batch requests as they come", expected=", ".join(SERVING_ENGINES))
    return (engine,)


def refuse_rows(rows: int) -> None:
    """Refuse a number of rows that no page holds."""
    if not 1 <= rows <= MOST_ROWS:
        raise UsageError("the number of rows is out of range", found=rows, expected=f"from 1 to {MOST_ROWS}")


def with_mix(
    plan: ServePlan, request: ServeRequest, question: ServeQuestion, solution: ServeSolution, tables: Catalog
) -> ServePlan:
    """The plan with two offers together where they cost less than any alone; where nothing serves, why not two."""
    found = cheapest_mix(question, solution)
    least = min((row.usd_per_hour for row in solution.ranked), default=math.inf)
    if found is None or found.usd_per_hour > question.purse.most_usd_per_hour:
        told = [] if plan.deployments else no_mix_notes(question, solution, found)
        return plan.model_copy(update={"notes": [*plan.notes, *told]})
    if found.usd_per_hour >= least:
        return plan
    launches = serve_launches(request.model, question, solution, [part.priced for part in found.parts])
    mix = mixed_deployment(question, solution, found, launches)
    sources = price_sources(price_days([*plan.deployments, *(part.deployment for part in mix.parts)]), tables.sources)
    return plan.model_copy(update={"mix": mix, "price_sources": sources})


def no_mix_notes(question: ServeQuestion, solution: ServeSolution, found: Mix | None) -> list[str]:
    """Why two offers together do not help where no offer has enough machines."""
    if found is not None:
        return [f"Two offers together would cost ${found.usd_per_hour:,.2f}/h, over the budget"]
    is_short = BEYOND_QUOTA in solution.rejections.counts
    return [NO_MIX] if is_short and not may_mix(question) else []


def lower_precision_alternative(
    request: ServeRequest, arch: Architecture, plan: ServePlan, tables: Catalog
) -> Deployment | None:
    """What fp8 weights would cost, where the question kept to a 16-bit checkpoint and they are cheaper."""
    if request.precision or request.allow_lower_precision or arch.weights.name not in ("bf16", "fp16"):
        return None
    question, _ = serve_question(replace(request, precision=(FP8.name,)), arch, tables)
    solution = solve_serve(question, calibration_of(tables))
    if not solution.ranked or solution.ranked[0].usd_per_hour >= plan.answer.usd_per_hour:
        return None
    return deployment(Context.of(question, solution), solution.ranked[0])


def understood(request: ServeRequest, question: ServeQuestion) -> list[Input]:
    """The question as it was read, each with its origin."""
    demand, palette, r = question.demand, question.choices.palette, request
    limits = ", ".join(f"{x.label} < {x.limit_s:g} s" for x in demand.workload.slo.limits)
    engines = ", ".join(f"{e.name} ({e.version_era})" for e in palette.engines)
    mean = demand.workload
    rows: list[tuple[str, str, str, object]] = [
        ("model", "model", question.arch.name, True),
        ("rate", "rate", f"{in_full(demand.workload.rate_requests_per_s)}/s", True),
        ("input tokens", "input_tokens", count_words(mean.input_tokens if r.classes else r.input_tokens), True),
        ("output tokens", "output_tokens", count_words(mean.output_tokens if r.classes else r.output_tokens), True),
        ("objectives", "slo", limits or "none", r.slo),
        ("engine", "engine", engines, r.engine),
        ("weights", "precision", _names(palette.weight_formats), r.precision or r.allow_lower_precision),
        ("KV cache", "kv_precision", _names(palette.kv_precisions), r.kv_precision),
        *market_rows(r, question.offers),
        ("headroom", "headroom", f"{demand.headroom_ratio:.0%}", r.headroom is not None),
        ("least replicas", "min_replicas", str(demand.min_replicas), r.min_replicas),
        *further_inputs(r, demand),
        *([("today", "fleet_today", r.fleet_today, True)] if r.fleet_today is not None else []),
    ]
    return inputs_of(request, rows)


def _names(formats: Sequence[WeightFormat] | Sequence[Precision]) -> str:
    return ", ".join(x.name for x in formats)


def digest(inputs: Sequence[Input], offers: Sequence[Offer]) -> str:
    """A hash of everything that the plan rests on: the question as read and every price considered."""
    prices = sorted(f"{o.cloud}/{o.region}/{o.instance}/{o.price_kind.value}/{o.as_of}/"
                    f"{o.price_per_instance_usd_per_hour!r}{supply(o)}" for o in offers)  # fmt: skip
    text = json.dumps([[i.name, i.value] for i in inputs] + [prices])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def supply(offer: Offer) -> str:
    """What the hash says of an upfront payment and of how many can be had, where it must."""
    bounds = [f"upfront {offer.upfront_usd!r}"] if offer.upfront_usd else []
    bounds += [] if offer.max_instances is None else [f"at most {offer.max_instances}"]
    bounds += [f"at most {quota.max_gpus} GPUs of {quota.name}" for quota in offer.gpu_quotas]
    return "".join(f"/{bound}" for bound in bounds)
