"""Which machines serve a workload within its objectives at least cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from os import PathLike

from gpufleet.api.estimates import beyond_context, calibration_of, checked_lengths, timed_by_formula
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
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.precision import FP8, FP16, Precision, WeightFormat
from gpufleet.domain.slo import Slo
from gpufleet.domain.workload import Workload
from gpufleet.errors import DataMissing, UnknownName, UsageError
from gpufleet.inputs.model_config import read_model
from gpufleet.inputs.slo import parse_slo
from gpufleet.optimize.replicas import Choices, with_fp16_twins
from gpufleet.optimize.serve import ServeQuestion, ServeSolution, solve_serve
from gpufleet.optimize.size import Demand, best_of_each_type, rank
from gpufleet.results.base import Input
from gpufleet.results.plan import Deployment, ServePlan
from gpufleet.results.serve_plan import Context, deployment, serve_plan

LOWER_FORMATS = ("fp8", "nvfp4", "int4")
QUALITY_COST = {
    "fp8": "fp8 weights: effectively lossless on the Llama 3.1 family (arXiv:2411.02355); test other models",
    "int4": "int4 weights: on a par with int8, which loses 1-3 % on the Llama 3.1 family (arXiv:2411.02355)",
    "nvfp4": "nvfp4 weights: their cost in quality is not known here; measure it on your own task",
}
DEFAULT_HEADROOM = 0.2
LEAST_REQUESTS_PER_S, MOST_REQUESTS_PER_S = 1e-9, 1e6
MOST_ROWS, MOST_NAMED = 1000, 8
SERVING_ENGINES = ("vllm", "sglang", "tensorrt-llm")


@dataclass(frozen=True)
class ServeRequest:
    """The question as it was asked; None takes the default. Lists name what is allowed.

    `from_file` names the fields that a workload file gave, `from_config` those that were preferred: they change
    nothing but the origin that the answer states.
    """

    model: str | PathLike[str] | Architecture
    rate: float
    input_tokens: float
    output_tokens: float
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


def plan_serve(request: ServeRequest, catalog: Catalog | None = None) -> ServePlan:
    """The cheapest machines, layout and engine that keep every objective, ranked, with what was rejected and why.

    >>> plan = plan_serve(ServeRequest("llama-3.1-8b", 5.0, 1000, 200, "tpot.p95<50ms"))
    >>> plan.answer.usd_per_hour > 0
    True
    """
    tables = load_catalog() if catalog is None else catalog
    arch = request.model if isinstance(request.model, Architecture) else read_model(
        str(request.model), shipped_architecture
    )  # fmt: skip
    question, notes = serve_question(request, arch, tables)
    solution = solve_serve(question, calibration_of(tables))
    inputs = understood(request, question)
    lengthy = beyond_context(arch, request.input_tokens + request.output_tokens)
    notes += [*lengthy, *timed_by_formula(arch), *arch.notes]
    plan = serve_plan(question, solution, inputs, tables.sources, digest(inputs, question.offers), notes, request.rows)
    if not plan.deployments:
        return plan
    alternatives = {
        "spot_alternative": spot_alternative(request, question, solution, tables),
        "lower_precision_alternative": lower_precision_alternative(request, arch, plan, tables),
    }
    return plan.model_copy(update=alternatives)


def serve_question(request: ServeRequest, arch: Architecture, tables: Catalog) -> tuple[ServeQuestion, list[str]]:
    """Names resolved, numbers checked, formats and engines chosen; with notes on how names were read."""
    gpus = [resolve_gpu(tables, name) for name in request.gpus or ()]
    notes = [gpu.note for gpu in gpus if gpu.note]
    wanted = offer_filter(request, tables, {gpu.accelerator.name for gpu in gpus} or None)
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
    return ServeQuestion(arch, choices, offers, demand_of(request)), notes + quality


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
    """Clouds, regions and price kinds by their right names; on-demand where nothing is said."""
    clouds = [resolve_cloud(tables, name) for name in request.clouds or ()] or None
    regions = [resolve_region(tables, name, clouds) for name in request.regions or ()] or None
    kinds = [price_kind(name) for name in request.pricing or (PriceKind.ON_DEMAND.value,)]
    return OfferFilter(clouds=clouds, regions=regions, accelerators=gpus, price_kinds=kinds)


def price_kind(name: str) -> PriceKind:
    """The price kind of that name: 'on-demand' and 'on_demand' are the same."""
    folded = name.strip().lower().replace("-", "_")
    if folded not in {k.value for k in PriceKind}:
        raise UnknownName("price kind", name, [k.value for k in PriceKind], hint="Known: on_demand, spot.")
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


def demand_of(request: ServeRequest) -> Demand:
    """Rate, lengths, objectives, headroom and replicas, checked."""
    checked_lengths(request.input_tokens, request.output_tokens)
    if not LEAST_REQUESTS_PER_S <= request.rate <= MOST_REQUESTS_PER_S:
        expected = f"from {LEAST_REQUESTS_PER_S:g}/s to {MOST_REQUESTS_PER_S:,.0f}/s"
        raise UsageError("the rate is out of range", found=request.rate, expected=expected)
    headroom = DEFAULT_HEADROOM if request.headroom is None else request.headroom
    if not 0 <= headroom <= 10:
        raise UsageError("the headroom is out of range", found=headroom, expected="from 0 to 10 (1 = 100 %)")
    if not 1 <= request.rows <= MOST_ROWS:
        raise UsageError("the number of rows is out of range", found=request.rows, expected=f"from 1 to {MOST_ROWS}")
    replicas = 1 if request.min_replicas is None else request.min_replicas
    if not 1 <= replicas <= 10_000:
        raise UsageError("the number of replicas is out of range", found=replicas, expected="from 1 to 10,000")
    slo = request.slo if isinstance(request.slo, Slo) else Slo() if request.slo is None else parse_slo(request.slo)
    return Demand(Workload(request.input_tokens, request.output_tokens, request.rate, slo), headroom, replicas)


def spot_alternative(
    request: ServeRequest, question: ServeQuestion, solution: ServeSolution, tables: Catalog
) -> Deployment | None:
    """The cheapest spot offer of what was placed, where the question was about on-demand prices only."""
    if request.pricing or not solution.ranked:
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
    kinds = ", ".join(r.pricing or ["on_demand"]).replace("-", "_")
    rows: list[tuple[str, str, str, object]] = [
        ("model", "model", question.arch.name, True),
        ("rate", "rate", f"{r.rate:g}/s", True),
        ("input tokens", "input_tokens", f"{r.input_tokens:g}", True),
        ("output tokens", "output_tokens", f"{r.output_tokens:g}", True),
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
    ]
    return [Input(name=n, value=v, origin=_origin(request, field, stated)) for n, field, v, stated in rows]


def _names(formats: Sequence[WeightFormat] | Sequence[Precision]) -> str:
    return ", ".join(x.name for x in formats)


def _origin(request: ServeRequest, field: str, stated: object) -> str:
    if field in request.from_file:
        return "file"
    if stated:
        return "config" if field in request.from_config else "given"
    return "checkpoint" if field in ("precision", "kv_precision") else "default"


def digest(inputs: Sequence[Input], offers: Sequence[Offer]) -> str:
    """A hash of everything that the plan rests on: the question as read and every price considered."""
    prices = sorted(f"{o.cloud}/{o.region}/{o.instance}/{o.price_kind.value}/{o.as_of}/"
                    f"{o.price_per_instance_usd_per_hour!r}" for o in offers)  # fmt: skip
    text = json.dumps([[i.name, i.value] for i in inputs] + [prices])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
