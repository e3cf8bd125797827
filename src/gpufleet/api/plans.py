"""Which machines serve a workload within its objectives at least cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from os import PathLike

from gpufleet.api.answers import ServeAnswer
from gpufleet.api.demands import (
    RequestKind,
    count_words,
    demand_notes,
    demand_of,
    further_inputs,
    input_origin,
    purse_of,
)
from gpufleet.api.estimates import beyond_context, calibration_of, timed_by_formula
from gpufleet.api.launches import launched, serve_launches
from gpufleet.api.price_age import refuse_old_prices
from gpufleet.architecture.precision_labels import kv_format, weight_format
from gpufleet.architecture.precision_labels import kv_precision as usual_kv_precision
from gpufleet.catalog.engine_eras import load_engine, load_eras
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import (
    OfferFilter,
    matching_offers,
    priced_regions,
    resolve_cloud,
    resolve_gpu,
    resolve_region,
)
from gpufleet.catalog.slices import SLICE_NOTE, slices_of, with_slices
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.precision import FP8, FP16, Precision, WeightFormat
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.inputs.model_config import read_model
from gpufleet.optimize.contest import is_contest
from gpufleet.optimize.flips import Standing, price_flips
from gpufleet.optimize.replicas import Choices, with_fp16_twins
from gpufleet.optimize.serve import ServeQuestion, ServeSolution, solve_serve
from gpufleet.optimize.size import best_of_each_type, rank
from gpufleet.results.base import Input
from gpufleet.results.flips import flips_of
from gpufleet.results.plan import Deployment, ServePlan
from gpufleet.results.rest_of_bill import with_rest_of_bill
from gpufleet.results.serve_plan import Context, deployment, serve_plan

LOWER_FORMATS = ("fp8", "nvfp4", "int4")
QUALITY_COST = {
    "fp8": "fp8 weights: effectively lossless on the Llama 3.1 family (arXiv:2411.02355); test other models",
    "int4": "int4 weights: on a par with int8, which loses 1-3 % on the Llama 3.1 family (arXiv:2411.02355)",
    "nvfp4": "nvfp4 weights: their cost in quality is not known here; measure it on your own task",
}
USUAL_KINDS = (PriceKind.ON_DEMAND, PriceKind.OWNED)
MOST_ROWS, MOST_NAMED = 1000, 8
SERVING_ENGINES = ("vllm", "sglang", "tensorrt-llm")


@dataclass(frozen=True)
class ServeRequest:
    """The question as it was asked; None takes the default. Lists name what is allowed.

    Token counts are one number, or counts that differ from request to request. `classes` are kinds of requests of one
    service: then rate, lengths, objectives and prefix cache are theirs. `prefix_cache` is the share of prompt tokens
    that a cache holds, `prefix_kv` (the same, where None) the share whose KV all requests hold together. Capacity holds
    without `spare_machines`, or without one of `zones`. At `off_peak_rate` machines are given back, for all but
    `peak_hours` of a day. `from_file` names the fields that a workload file gave, `from_config` those that were
    preferred: they change nothing but the origin that the answer states.
    `fractions` also plans machines that hold a slice of a GPU.
    Limits hold with `confidence`, from 0.5 (the expected value; so where None) over 0.9 (the high end of every range).
    Prices older than `max_price_age_s` on `today` end the question with DataMissing.
    """

    model: str | PathLike[str] | Architecture
    rate: float
    input_tokens: float | TokenCounts
    output_tokens: float | TokenCounts
    slo: str | Slo | None = None
    clouds: Sequence[str] | None = None
    regions: Sequence[str] | None = None
    pricing: Sequence[str] | None = None
    gpus: Sequence[str] | None = None
    precision: Sequence[str] | None = None
    allow_lower_precision: bool = False
    kv_precision: str | None = None
    engine: str | None = None
    headroom: float | None = None
    min_replicas: int | None = None
    rows: int = 10
    from_file: Collection[str] = ()
    from_config: Collection[str] = ()
    fractions: bool = False
    max_price_age_s: float | None = None
    today: date | None = None
    classes: Sequence[RequestKind] = ()
    prefix_cache: float | None = None
    prefix_kv: float | None = None
    spare_machines: int | None = None
    zones: int | None = None
    off_peak_rate: float | None = None
    peak_hours: float | None = None
    budget_usd_per_hour: float | None = None
    max_spot: float | None = None
    notes: Sequence[str] = ()
    confidence: float | None = None


def plan_serve(request: ServeRequest, catalog: Catalog | None = None) -> ServeAnswer:
    """The cheapest machines, layout and engine that keep every objective, ranked, with what was rejected and why.

    The answer can be asked further: `.why()`, `.why_not("L40S:4")`, `.what_flips()`, `.pareto()`, `.against_tokens()`.

    >>> plan = plan_serve(ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms"))
    >>> plan.answer.usd_per_hour > 0
    True
    """
    tables = load_catalog() if catalog is None else catalog
    tables = with_slices(tables) if request.fractions else tables
    question, solution, notes = solved(request, tables)
    return answered(request, question, solution, notes, tables)


def solved(request: ServeRequest, tables: Catalog) -> tuple[ServeQuestion, ServeSolution, list[str]]:
    """The question with its solution, and notes on how it was read."""
    arch = architecture_of(request)
    question, notes = serve_question(request, arch, tables)
    if request.max_price_age_s is not None:
        refuse_old_prices(question.offers, request.max_price_age_s, request.today or date.today())
    return question, solve_serve(question, calibration_of(tables)), notes


def answered(
    request: ServeRequest, question: ServeQuestion, solution: ServeSolution, notes: list[str], tables: Catalog
) -> ServeAnswer:
    """The plan of a solved question, with the alternatives that were not asked for."""
    inputs, arch = understood(request, question), question.arch
    longest = question.demand.mix.longest_tokens
    of_model = [*beyond_context(arch, longest), *timed_by_formula(arch), *arch.notes]
    of_tables = [*tables.warnings, *([SLICE_NOTE] if request.fractions else [])]
    said = [*notes, *of_tables, *request.notes, *demand_notes(question.demand), *of_model]
    plan = serve_plan(question, solution, inputs, tables.sources, digest(inputs, question.offers), said, request.rows)
    if not plan.deployments:
        return ServeAnswer.of(plan, request, tables)
    launches = serve_launches(request.model, question, solution, len(plan.deployments))
    alternatives = {
        "deployments": launched(plan.deployments, launches),
        "spot_alternative": spot_alternative(request, question, solution, tables),
        "flips": flips_of(price_flips(Standing.of(question, solution))) if is_contest(question) else [],
        "lower_precision_alternative": lower_precision_alternative(request, arch, plan, tables),
    }
    told = with_rest_of_bill(plan.model_copy(update=alternatives), tables.bill_lines)
    return ServeAnswer.of(told, request, tables)


def architecture_of(request: ServeRequest) -> Architecture:
    """The model of a request, read where it is a name or a path."""
    if isinstance(request.model, Architecture):
        return request.model
    return read_model(str(request.model), shipped_architecture)


def serve_question(request: ServeRequest, arch: Architecture, tables: Catalog) -> tuple[ServeQuestion, list[str]]:
    """Names resolved, numbers checked, formats and engines chosen; with notes on how names were read."""
    refuse_rows(request.rows)
    gpus = [resolve_gpu(tables, name) for name in request.gpus or ()]
    notes = [gpu.note for gpu in gpus if gpu.note]
    wanted = offer_filter(request, tables, slices_of(tables, [gpu.accelerator.name for gpu in gpus]) or None)
    offers = tuple(o for o in matching_offers(tables, wanted) if tables.instance_of(o).gpu_count >= 1)
    if not offers:
        raise no_price(tables, wanted)
    formats, quality = formats_allowed(arch, request)
    weights = with_fp16_twins(formats, FP16)
    engines = engines_allowed(request.engine)
    kv = kv_formats(engines, weights, request.kv_precision)
    distinct = tuple(dict.fromkeys(precision for row in kv for precision in row))
    palette = Palette(tuple(tables.accelerators.values()), weights, distinct, engines)
    choices = Choices(palette, machines(tables, wanted), tuple(tuple(map(distinct.index, row)) for row in kv))
    return ServeQuestion(arch, choices, offers, demand_of(request), purse_of(request)), notes + quality


def no_price(tables: Catalog, wanted: OfferFilter) -> DataMissing:
    """What is known instead of the prices that were asked for."""
    regions = priced_regions(tables, wanted.clouds)
    shown = ", ".join(regions[:MOST_NAMED]) + (", ..." if len(regions) > MOST_NAMED else "")
    return DataMissing(
        "no offer has a known price under these clouds, regions, GPUs and price kinds",
        hint=f"Regions with prices there: {shown or 'none'}. 'gpufleet catalog prices' lists all.",
    )


def machines(tables: Catalog, wanted: OfferFilter) -> tuple[Instance, ...]:
    """Whole-GPU machine types of the allowed clouds and accelerators, priced or not."""
    allowed = (
        i for i in tables.instances.values()
        if i.gpu_count >= 1 and not i.retired
        and (wanted.clouds is None or i.cloud in wanted.clouds)
        and (wanted.accelerators is None or i.accelerator in wanted.accelerators)
    )  # fmt: skip
    return tuple(allowed)


def offer_filter(request: ServeRequest, tables: Catalog, gpus: Collection[str] | None) -> OfferFilter:
    """Clouds, regions and price kinds by their right names; on-demand and one's own where nothing is said."""
    clouds = [resolve_cloud(tables, name) for name in request.clouds or ()] or None
    regions = [resolve_region(tables, name, clouds) for name in request.regions or ()] or None
    kinds = [price_kind(name) for name in kinds_asked(request)]
    return OfferFilter(clouds=clouds, regions=regions, accelerators=gpus, price_kinds=kinds)


def kinds_asked(request: ServeRequest) -> Sequence[str]:
    """Price kinds by name: on-demand and one's own unless said, and spot where a share of it is."""
    spot = () if request.max_spot is None else (PriceKind.SPOT,)
    return request.pricing or [kind.value for kind in (*USUAL_KINDS, *spot)]


def price_kind(name: str) -> PriceKind:
    """The price kind of that name: 'on-demand' and 'on_demand' are the same."""
    folded = name.strip().lower().replace("-", "_")
    if folded not in {k.value for k in PriceKind}:
        raise UnknownName("price kind", name, [k.value for k in PriceKind])
    return PriceKind(folded)


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


def spot_alternative(
    request: ServeRequest, question: ServeQuestion, solution: ServeSolution, tables: Catalog
) -> Deployment | None:
    """The cheapest spot offer of what was placed, where the question was about on-demand prices only."""
    if request.pricing or request.max_spot is not None or not solution.ranked:
        return None
    wanted = offer_filter(replace(request, pricing=("spot",)), tables, None)
    placements = {p.placement.instance: p.placement for p in solution.ranked}.values()
    found = best_of_each_type(rank(placements, matching_offers(tables, wanted)))
    return deployment(Context.of(question, solution), found[0]) if found else None


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
    sold = {offer.price_kind.value for offer in question.offers}
    asked = [kind for kind in kinds_asked(r) if r.pricing or kind != PriceKind.OWNED.value or kind in sold]
    kinds, mean = ", ".join(asked).replace("-", "_"), demand.workload
    rows: list[tuple[str, str, str, object]] = [
        ("model", "model", question.arch.name, True),
        ("rate", "rate", f"{demand.workload.rate_requests_per_s:g}/s", True),
        ("input tokens", "input_tokens", count_words(mean.input_tokens if r.classes else r.input_tokens), True),
        ("output tokens", "output_tokens", count_words(mean.output_tokens if r.classes else r.output_tokens), True),
        ("objectives", "slo", limits or "none", r.slo),
        ("engine", "engine", engines, r.engine),
        ("weights", "precision", _names(palette.weight_formats), r.precision or r.allow_lower_precision),
        ("KV cache", "kv_precision", _names(palette.kv_precisions), r.kv_precision),
        ("clouds", "clouds", ", ".join(r.clouds or ["all"]), r.clouds),
        ("regions", "regions", ", ".join(r.regions or ["all"]), r.regions),
        ("GPUs", "gpus", ", ".join(r.gpus or ["all"]), r.gpus),
        ("price kinds", "pricing", kinds, r.pricing),
        ("headroom", "headroom", f"{demand.headroom_ratio:.0%}", r.headroom is not None),
        ("least replicas", "min_replicas", str(demand.min_replicas), r.min_replicas),
        *further_inputs(r, demand),
    ]
    return [Input(name=n, value=v, origin=input_origin(request, field, stated)) for n, field, v, stated in rows]


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
    return "".join(f"/{bound}" for bound in bounds)
