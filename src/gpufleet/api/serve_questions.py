"""From a request of a model that writes to its question, solved once: model, formats, engines, market, demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpufleet.answers.beside import notes_on_adapters
from gpufleet.api.configured import measured_engine, started_engine, told_engine
from gpufleet.api.demands import (
    demand_of,
    further_inputs,
    headroom_row,
    length_rows,
    purse_of,
    refuse_rows,
    sensible_size,
)
from gpufleet.api.input_rows import InputRow, inputs_of
from gpufleet.api.market import Market, market_of, market_rows, refuse_too_old
from gpufleet.api.speculating import drafting, planned_draft, speculation_of
from gpufleet.architecture.vision import with_images
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.engine_eras import load_eras, version_notes
from gpufleet.catalog.engine_models import family_notes
from gpufleet.catalog.engine_starts import started_for, started_of
from gpufleet.catalog.engines import DEFAULT_ENGINE, engines_that_implement, named_version
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.peer_access import with_peer_access
from gpufleet.catalog.slices import with_slices
from gpufleet.catalog.spoken_machines import with_owned
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.beside import NOTHING_BESIDE
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.own_stack import OwnStack, is_of_a_rate
from gpufleet.domain.precision import FP16, Precision, WeightFormat
from gpufleet.domain.precision_labels import dtype_named, half_of, kv_format, own_and_lower, weight_format
from gpufleet.domain.precision_labels import kv_precision as usual_kv_precision
from gpufleet.errors import Infeasible, UsageError
from gpufleet.inputs.model_config import model_asked
from gpufleet.layout.support import architecture_refusal
from gpufleet.optimize.beside import holding_beside
from gpufleet.optimize.copies.decoder import Decoder, WriterQuestion, WriterSolution
from gpufleet.optimize.mix import cheapest_mix
from gpufleet.optimize.promise import missed_confidence, solved_as_promised
from gpufleet.optimize.replicas import Choices, in_dtype, with_fp16_twins
from gpufleet.optimize.service import solve_serve
from gpufleet.questions.fields import ServeRequest, WriterRequest
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.units import in_full

QUALITY_COST = {
    "fp8": "fp8 weights: effectively lossless on the Llama 3.1 family (arXiv:2411.02355); test other models",
    "int4": "int4 weights: on a par with int8, which loses 1-3 % on the Llama 3.1 family (arXiv:2411.02355)",
    "nvfp4": "nvfp4 weights: their cost in quality is not known here; measure it on your own task",
}
SHOWN_SHORT = 3
SERVING_ENGINES = ("vllm", "sglang", "tensorrt-llm")


@dataclass(frozen=True)
class WriterChoices:
    """What a model that writes may run on and as, what of it may be rented, and notes on how names were read."""

    choices: Choices
    market: Market
    notes: list[str]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A request with its tables, the question that it asks, its solution, and notes on how its names were read.

    Nothing keeps the limits with `missed_confidence`, which nobody asked for: the question is that of expected values.
    """

    request: ServeRequest
    tables: Catalog
    question: WriterQuestion
    solution: WriterSolution
    notes: tuple[str, ...]
    missed_confidence: float | None = None

    @property
    def calibration(self) -> Calibration:
        """The measured kernels."""
        return calibration_of(self.tables)

    @property
    def served(self) -> WriterSolution:
        """The solution; an error where no offer alone serves."""
        if not self.solution.ranked:
            raise Infeasible(f"no single offer serves {self.question.model.name} as asked", hint="The plan says why.")
        return self.solution


def sold_tables(request: WriterRequest, tables: Catalog) -> Catalog:
    """The tables with machines of one's own, and slices of GPUs as devices of their own where they may be rented."""
    had = with_owned(tables, tuple(request.owned or ()))
    linked = with_peer_access(had, had.accelerators, request.peer_to_peer)
    return with_slices(linked) if request.fractions else linked


def architecture_of(request: WriterRequest) -> Architecture:
    """The model of a request, read where it is a name or a path, with its images, longest request and draft."""
    arch = with_images(model_asked(request.model, shipped_architecture), request.images)
    return planned_draft(started_for(arch, started_of(request)), request)


def serve_question(request: ServeRequest, arch: Architecture, tables: Catalog) -> tuple[WriterQuestion, list[str]]:
    """Names resolved, numbers checked, formats and engines chosen; with notes on how names were read."""
    found = writer_choices(request, arch, tables)
    model, market = Decoder(arch, found.choices), found.market
    demand, purse = demand_of(request, arch), purse_of(request)
    question = WriterQuestion(model, market.instances, market.offers, demand, purse, size=sensible_size(request))
    own = own_pace_of(request, question, tables)
    return question if own is None else at_pace(question, own), found.notes


def own_pace_of(request: ServeRequest, question: WriterQuestion, tables: Catalog) -> OwnStack | None:
    """The pace that a rate of one's own copy implies; None where none is said, or the request has it already."""
    if request.replica_rate is None or is_of_a_rate(request.calibration):
        return None
    if request.calibration is not None:
        raise UsageError("how fast copies are is said twice", expected="--replica-rate or --calibration")
    from gpufleet.api.own_rate import stack_of_request

    return stack_of_request(request.replica_rate, request, question, tables)


def at_pace(question: WriterQuestion, own: OwnStack) -> WriterQuestion:
    """The same question with an engine as its user measured it."""
    choices = question.model.choices
    engines = tuple(measured_engine(engine, own) for engine in choices.palette.engines)
    paced = replace(choices, palette=replace(choices.palette, engines=engines))
    return replace(question, model=replace(question.model, choices=paced))


def with_own_pace_of(request: ServeRequest, question: WriterQuestion) -> ServeRequest:
    """The request with the pace that its question found, so that replays and further questions have it."""
    own = next((e.own for e in question.model.choices.palette.engines if is_of_a_rate(e.own)), None)
    return request if own is None else replace(request, calibration=own)


def writer_choices(request: WriterRequest, arch: Architecture, tables: Catalog) -> WriterChoices:
    """Formats, engines and machines that a request allows."""
    refuse_rows(request.rows)
    market = market_of(request, tables)
    choices = choices_of(request, arch, tables)
    quality = quality_costs(Decoder(arch, choices)).values()
    engines = choices.palette.engines
    name, version = named_version(request.engine, request.engine_version)
    named = version_notes(name or DEFAULT_ENGINE, version)
    instead = [*drafts_without(request, arch), *engines_instead(arch, engines)]
    notes = [*market.notes, *quality, *named, *instead, *notes_on_adapters(arch, engines)]
    if all(engine.beside == NOTHING_BESIDE for engine in engines):
        return WriterChoices(choices, market, notes)
    kept, short = holding_beside(arch, choices.palette, market.instances)
    names = ", ".join(f"{machine.cloud} {machine.name}" for machine in short[:SHOWN_SHORT])
    lacking = [f"Machines whose host memory is too small are left out: {len(short)}, such as {names}"] if short else []
    offers = tuple(o for o in market.offers if (o.cloud, o.instance) not in {(i.cloud, i.name) for i in short})
    return WriterChoices(choices, replace(market, offers=offers, instances=kept), [*notes, *lacking])


def choices_of(request: WriterRequest, arch: Architecture, tables: Catalog) -> Choices:
    """Formats and engines that a request allows."""
    weights = in_dtype(with_fp16_twins(formats_allowed(arch, request), FP16), half_of(dtype_named(request.dtype)))
    plain = engines_allowed(request)
    engines = plain if arch.draft is None else (*plain, *(drafting(engine, arch, request) for engine in plain))
    kv = kv_formats(engines, weights, request.kv_precision)
    distinct = tuple(dict.fromkeys(precision for row in kv for precision in row))
    palette = Palette(tuple(tables.accelerators.values()), weights, distinct, engines)
    return Choices(palette, tuple(tuple(map(distinct.index, row)) for row in kv))


def formats_allowed(arch: Architecture, request: WriterRequest) -> list[WeightFormat]:
    """The checkpoint's own format; lower ones only where the user allows them."""
    if arch.weights.is_gguf and not request.precision:
        asked = arch.name if isinstance(request.model, Architecture) else request.model
        raise UsageError(
            f"{arch.name} is a file of llama.cpp, for which nothing is planned: it serves few users at a time",
            expected="a checkpoint of vLLM, SGLang or TensorRT-LLM",
            hint=f"'gpufleet fit {asked} --gpus RTX-4090:1' says whom it serves; for many users name the -AWQ.",
        )
    if request.precision:
        asked_for = (weight_format(arch, label) for label in request.precision)
        return list({w.name: w for w in asked_for}.values())
    return own_and_lower(arch) if request.allow_lower_precision else [arch.weights]


def quality_costs(model: Decoder) -> dict[str, str]:
    """What formats below the checkpoint's cost in quality, by their names."""
    lower = [w.name for w in model.choices.palette.weight_formats if w.name != model.arch.weights.name]
    return {name: QUALITY_COST[name] for name in lower if name in QUALITY_COST}


def kv_formats(
    engines: Sequence[EngineProfile], formats: Sequence[WeightFormat], asked: str | None
) -> list[list[Precision]]:
    """The KV format of each engine with each weight format: the asked one, else what the engine chooses for it."""
    if asked is None:
        return [[usual_kv_precision(weights, engine) for weights in formats] for engine in engines]
    return [[kv_format(asked)] * len(formats)] * len(engines)


def engines_allowed(request: WriterRequest) -> tuple[EngineProfile, ...]:
    """The named engine as it is started, all serving engines for 'all', vLLM where nothing is said."""
    name, version = named_version(request.engine, request.engine_version)
    start = started_of(request)
    if name is not None and name.strip().lower() == "all":
        if version is not None:
            raise UsageError("a version of all engines", found=version, expected="one engine, such as vllm==0.19.1")
        named = [e for e in SERVING_ENGINES if e in load_eras()]
        if request.tool_call_parser or request.reasoning_parser:
            raise UsageError("a parser of all engines", expected="one engine: each names its parsers otherwise")
        return tuple(told_engine(started_engine(e, None, start), request) for e in named)
    engine = told_engine(started_engine(DEFAULT_ENGINE if name is None else name, version, start), request)
    if engine.name not in SERVING_ENGINES:
        raise UsageError(f"{engine.title} does not batch requests as they come", expected=", ".join(SERVING_ENGINES))
    return (engine,)


def drafts_without(request: WriterRequest, arch: Architecture) -> list[str]:
    """That nothing drafts for a model, where a method was asked for that it has nothing for."""
    how = speculation_of(request)
    if how is None or arch.draft is not None:
        return []
    return [f"{arch.name} has no module that predicts tokens ahead: planned without --speculate {how.label}"]


def engines_instead(arch: Architecture, engines: Sequence[EngineProfile]) -> list[str]:
    """The engines that implement the model, where none that is allowed does; else what is doubtful of versions."""
    able = [engine for engine in engines if architecture_refusal(engine, arch) is None]
    if able:
        return [note for engine in able for note in family_notes(engine, arch)]
    return [f"Engines that implement {arch.family} models: {', '.join(engines_that_implement(arch)) or 'none'}"]


def understood(request: ServeRequest, question: WriterQuestion) -> list[Input]:
    """The question as it was read, each with its origin."""
    demand, r = question.demand, request
    limits = ", ".join(f"{x.label} < {x.limit_s:g} s" for x in demand.workload.slo.limits)
    rows: list[InputRow] = [
        ("model", "model", question.model.name, True),
        ("rate", "rate", f"{in_full(demand.workload.rate_requests_per_s)}/s", True),
        *length_rows(demand.workload),
        ("objectives", "slo", limits or "none", r.slo),
        *format_rows(r, question.model.choices.palette),
        *market_rows(r, question.offers),
        headroom_row(r, demand.headroom_ratio),
        ("least replicas", "min_replicas", str(demand.min_replicas), r.min_replicas),
        *further_inputs(r, demand),
        *([("today", "fleet_today", r.fleet_today, True)] if r.fleet_today is not None else []),
    ]
    return inputs_of(request, rows)


def format_rows(request: WriterRequest, palette: Palette) -> list[InputRow]:
    """Engines, weights and KV cache that are allowed."""
    engines = ", ".join(dict.fromkeys(f"{e.name} ({e.version_era})" for e in palette.engines))
    return [
        ("engine", "engine", engines, request.engine),
        ("weights", "precision", names(palette.weight_formats), request.precision or request.allow_lower_precision),
        ("KV cache", "kv_precision", names(palette.kv_precisions), request.kv_precision),
    ]


def names(formats: Sequence[WeightFormat] | Sequence[Precision]) -> str:
    """Formats by their names."""
    return ", ".join(x.name for x in formats)


def prepare(request: ServeRequest, tables: Catalog) -> Prepared:
    """Read a request against tables and solve it; prices that are older than it allows are refused."""
    sold = sold_tables(request, tables)
    question, notes = serve_question(request, architecture_of(request), sold)
    request = with_own_pace_of(request, question)
    refuse_too_old(request, question.offers)
    said = request.confidence is not None
    kept, solution = solved_as_promised(
        question, lambda asked: solve_serve(asked, calibration_of(sold)), is_asked=said, is_served=is_served
    )
    return Prepared(request, sold, kept, solution, tuple(notes), missed_confidence(question, kept))


def is_served(question: WriterQuestion, solution: WriterSolution) -> bool:
    """Whether one offer serves, or two together within the budget."""
    if solution.ranked:
        return True
    found = cheapest_mix(question, solution)
    return found is not None and found.usd_per_hour <= question.purse.most_usd_per_hour
