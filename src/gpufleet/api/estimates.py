"""How fast is one replica, in one layout, under one load."""

from __future__ import annotations

import math
from functools import lru_cache
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from gpufleet.answers.serving_estimate import serving_estimate
from gpufleet.api.demands import image_tokens, length_rows, mean_of, workload_of
from gpufleet.api.launches import estimate_launch
from gpufleet.api.lengths import checked_lengths
from gpufleet.api.remarks import (
    beyond_one_machine,
    remarks_on_load,
    remarks_on_replica,
    stages_take_turns,
    widened_formats,
)
from gpufleet.api.requests import RequestKind
from gpufleet.architecture.vision import with_images
from gpufleet.catalog.calibration import calibration_of, curve_names
from gpufleet.catalog.engine_eras import load_engine, newer_than_known
from gpufleet.catalog.engines import engines_that_implement, find_engine, usual_engine
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import resolve_gpu, resolve_instance
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.images import Images
from gpufleet.domain.instance import Instance
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import BF16, FP16, Precision, WeightFormat
from gpufleet.domain.precision_labels import kv_format, weight_format
from gpufleet.domain.precision_labels import kv_precision as usual_kv_precision
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.domain.workload import Workload
from gpufleet.errors import Infeasible, OutOfMemory, UsageError
from gpufleet.inputs.gpu_request import parse_gpus
from gpufleet.inputs.model_config import read_model
from gpufleet.inputs.pool_request import PoolRequest
from gpufleet.layout.feasible import refusal
from gpufleet.layout.support import architecture_refusal, kv_refusal, weight_refusal, weights_that_run
from gpufleet.optimize.estimate import EVERY_FIGURE, EstimateQuestion, EstimateSolution, Load, solve_estimate
from gpufleet.optimize.links import usual_instance, usual_link, usual_machine
from gpufleet.optimize.replicas import with_fp16_twins
from gpufleet.performance.serving import Client
from gpufleet.questions.images import read_images
from gpufleet.records import dataclass
from gpufleet.report.words import sentence
from gpufleet.results.base import Input
from gpufleet.results.estimate import ServingEstimate
from gpufleet.units import GB, GIB, in_full

if TYPE_CHECKING:
    from gpufleet.api.pools import AskedPools

LISTED = "'gpufleet catalog gpus' lists the formats of each device."
WHOLE = {"closed_loop": "clients (concurrency)", "static_batch": "sequences (batch)"}
MOST_SEQUENCES, MOST_DEVICES = 10**6, 4096
ONE_COPY = (None, 1, None, 1)


def estimate(
    model: str | PathLike[str] | Architecture,
    gpus: str | tuple[str, int] | None = None,
    *,
    prefill: str | PoolRequest | None = None,
    decode: str | PoolRequest | None = None,
    input_tokens: float | TokenCounts,
    output_tokens: float | TokenCounts,
    concurrency: float | None = None,
    rate: float | None = None,
    batch: float | None = None,
    full_queue: bool = False,
    requests: float | None = None,
    tp: int | None = None,
    pp: int = 1,
    ep: int | None = None,
    attention_dp: int = 1,
    precision: str | None = None,
    kv_precision: str | None = None,
    images: str | Images | None = None,
    engine: str | None = None,
    engine_version: str | None = None,
    waves: float | None = None,
    length_spread: float = 1.0,
    poll_interval_steps: float = 1.0,
    gather_steps: float = 0.0,
    max_batch: int | None = None,
    max_step_tokens: int | None = None,
    memory_fraction: float | None = None,
    instance: str | None = None,
    explain: bool = False,
    launch: bool = False,
    catalog: Catalog | None = None,
) -> ServingEstimate:
    """Latency and throughput of one replica with ranges, under exactly one kind of load.

    Without `engine` vLLM is meant, llama.cpp for its own files.
    `concurrency`: clients in a closed loop; `rate`: Poisson arrivals per second; `batch`: one static batch;
    `full_queue`: as many of `requests` that wait at once as the engine takes; else an endless queue, at the batch that
    serves most. `waves` and `length_spread` describe the client; the engine is started with `max_batch`,
    `max_step_tokens`, `memory_fraction` (and keeps to it), `poll_interval_steps` and `gather_steps` (for these two see
    `performance.serving.Client`). `explain` adds the steps by operation, and what would be faster; `launch` the
    command that starts the replica. At a rate a number of tokens is a mean, with the usual spread of lengths, as in a
    plan; under the other loads all requests are alike.
    In place of `gpus`, `prefill` and `decode` are copies that only prefill and copies that only decode, each as
    "2x H100:4 TP4" (copies, GPUs of one, its TP, PP, EP and DP); the answer has `pools` then.

    >>> e = estimate("llama-3.1-8b", "H100:1", input_tokens=1000, output_tokens=200, concurrency=16)
    >>> e.tpot_s.low < e.tpot_s.value < e.tpot_s.high
    True
    """
    tables = load_catalog() if catalog is None else catalog
    arch = with_images(
        model if isinstance(model, Architecture) else read_model(str(model), shipped_architecture), read_images(images)
    )
    engine = usual_engine(arch) if engine is None else engine
    split = pools_instead(gpus, prefill, decode, (tp, pp, ep, attention_dp), explain=explain)
    profile = started_engine(engine, engine_version, (max_batch, max_step_tokens, memory_fraction))
    load = checked_load(concurrency, rate, batch, queued_requests(full_queue, requests))
    client = Client(waves or math.inf, length_spread, poll_interval_steps, gather_steps)
    workload = estimated_workload(arch, input_tokens, output_tokens, load)
    version = newer_than_known(engine, engine_version)
    if split is not None:
        from gpufleet.api.pools import estimate_pools

        answer = estimate_pools(
            tables, arch, profile, split, (precision, kv_precision), workload, load, client, instance
        )
        return answer.model_copy(update={"notes": [*([version] if version else []), *answer.notes]})
    assert gpus is not None, "one copy has its GPUs"
    name, number = gpus if isinstance(gpus, tuple) else _parsed(str(gpus))
    parts = (number, tp, pp, ep, attention_dp)
    replica = configured(tables, arch, name, profile, parts, precision, kv_precision, instance)
    question = EstimateQuestion(arch, replica.candidates, workload, load, client)
    solution = solve_estimate(question, calibration_of(tables))
    if not solution.fits:
        raise does_not_fit(question, solution, arch.name if isinstance(model, Architecture) else str(model))
    notes = [
        *replica.notes,
        *([version] if version else []),
        *remarks_on_load(question, solution),
    ]
    answer = serving_estimate(
        question, solution, [*replica.inputs, *understood(question.workload, question.load)], notes
    )
    if explain:
        answer = explained(answer, question, solution, tables)
    return answer.model_copy(update={"launch": estimate_launch(model, question, solution)}) if launch else answer


def pools_instead(
    gpus: str | tuple[str, int] | None,
    prefill: str | PoolRequest | None,
    decode: str | PoolRequest | None,
    ranks: tuple[int | None, int, int | None, int],
    *,
    explain: bool,
) -> AskedPools | None:
    """Both pools where they stand in place of the GPUs of one copy; None where GPUs do."""
    if prefill is None and decode is None:
        if gpus is None:
            raise UsageError("the GPUs are missing", expected="--gpus NAME:N, or --prefill and --decode")
        return None
    if gpus is not None:
        raise UsageError("GPUs and pools are two questions", expected="--gpus alone, or --prefill with --decode")
    if ranks != ONE_COPY:
        raise UsageError("each pool states its own layout", expected="ranks in the pool, such as '2x H100:4 TP2 DP2'")
    if explain:
        raise UsageError("only one copy is explained", expected="--gpus with --explain, for a copy of each pool")
    from gpufleet.api.pools import asked_pools

    return asked_pools(prefill, decode)


@lru_cache(maxsize=256)
def estimated_workload(
    arch: Architecture, input_tokens: float | TokenCounts, output_tokens: float | TokenCounts, load: Load
) -> Workload:
    """Requests at a rate as a plan takes them, whatever the rate; under the other loads, one like the other."""
    if load.scenario == "open_loop":
        return workload_of([RequestKind("", 1.0, input_tokens, output_tokens, EVERY_FIGURE)], arch)
    for tokens in (input_tokens, output_tokens):
        if isinstance(tokens, TokenCounts) and not tokens.is_alike:
            raise UsageError("lengths that differ are estimated at a rate", found=load.scenario.replace("_", " "),
                             expected="--rate, or one number of tokens")  # fmt: skip
    lengths = checked_lengths(mean_of(input_tokens) + image_tokens(arch), mean_of(output_tokens))
    return Workload(float(lengths.input_tokens), float(lengths.output_tokens))


@dataclass(frozen=True, eq=False)
class Configured:
    """One replica as candidates of one row, and what is to be said about how its names were read."""

    candidates: Candidates
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]


@lru_cache(maxsize=256, typed=True)
def configured(
    tables: Catalog,
    arch: Architecture,
    gpu_name: str,
    engine: EngineProfile,
    parts: tuple[int, int | None, int, int | None, int],
    precision: str | None,
    kv_precision: str | None,
    instance: str | None,
) -> Configured:
    """A replica of GPUs in `parts` (number, tp, pp, ep, attention_dp), read and checked once for many loads."""
    gpu = resolve_gpu(tables, gpu_name)
    refuse_architecture(arch, engine)
    weights = runnable_format(arch, engine, gpu.accelerator, precision)
    kv = runnable_kv(engine, gpu.accelerator, weights, kv_precision)
    layout = checked_layout(arch, weights, *parts, by_layer=engine.splits_by_layer)
    candidates = one_candidate(tables, gpu.accelerator, engine, weights, kv, layout, instance)
    machine = usual_machine(gpu.accelerator)
    said = [
        gpu.note,
        stages_take_turns(engine, layout),
        *widened_formats(engine, gpu.accelerator, weights, kv),
        beyond_one_machine(layout, machine),
        link_note(tables, gpu.accelerator, layout, instance),
    ]
    usual = engine.name == usual_engine(arch)
    inputs = (
        Input(name="model", value=arch.name, origin="given"),
        Input(name="gpus", value=f"{gpu.accelerator.name}:{layout.num_devices}", origin="given"),
        Input(name="engine", value=f"{engine.name} ({engine.version_era})", origin="default" if usual else "given"),
        Input(name="weights", value=weights.name, origin="given" if precision else "checkpoint"),
        Input(name="KV cache", value=kv.name, origin="given" if kv_precision else "default"),
        *link_rows(tables, gpu.accelerator, layout, instance),
    )
    return Configured(candidates, inputs, (*filter(None, said), *remarks_on_replica(arch, candidates)))


def started_engine(
    name: str, version: str | None, limits: tuple[int | None, int | None, float | None]
) -> EngineProfile:
    """The engine as its version behaves, started for stated sequences, tokens of a step and share of memory."""
    return _engine(find_engine(name), name, version, limits)


@lru_cache(maxsize=64)
def _engine(
    read: EngineProfile, name: str, version: str | None, limits: tuple[int | None, int | None, float | None]
) -> EngineProfile:
    """The engine as its version behaves and as it was started, one object for one question: replicas are kept by it.

    Another overlay is another `read` profile, and is not answered from memory.
    """
    max_batch, max_step_tokens, memory_fraction = limits
    return load_engine(name, version).started_with(max_batch, max_step_tokens, checked_fraction(memory_fraction))


def explained(
    answer: ServingEstimate, question: EstimateQuestion, solution: EstimateSolution, tables: Catalog
) -> ServingEstimate:
    """The same with the steps by operation, and what would be faster."""
    from gpufleet.answers.estimate_explained import explanation

    reasons = explanation(question, solution, calibration_of(tables), curve_names())
    return answer.model_copy(update={"explanation": reasons})


def does_not_fit(question: EstimateQuestion, solution: EstimateSolution, asked: str) -> OutOfMemory:
    """By how much a configuration misses, and the question that says what would fit."""
    c, lengths = question.candidates, question.lengths
    gpu, weights = c.palette.accelerators[c.accelerator[0]].name, c.palette.weight_formats[0].name
    number, context = int(c.num_devices[0]), math.ceil(float(lengths.input_tokens + lengths.output_tokens))
    layout = Layout(int(c.tp[0]), int(c.pp[0]), int(c.ep[0]), int(c.attention_dp[0]))
    return OutOfMemory(
        f"{question.arch.name} in {weights} does not fit {number}x {gpu} ({layout.label})",
        **what_is_missing(solution),
        hint=f"'gpufleet fit {asked} --gpus {gpu}:{number} --context {context}' shows what would.",
    )


def what_is_missing(solution: EstimateSolution) -> dict[str, str]:
    """By how much each GPU is short, or what a stated memory fraction leaves for what comes after the KV pool."""
    budgets = solution.budgets
    if not np.all(budgets.lacks_room_beside):
        return {"found": f"short by {solution.short_by_gib:.1f} GiB per GPU"}
    after = budgets.after_pool_bytes.expected
    figures = (budgets.memory_fraction, (after + budgets.left_beside_bytes.expected) / GIB, after / GIB)
    fraction, left, needed = (float(np.max(np.asarray(figure))) for figure in figures)
    return {
        "found": f"memory fraction {fraction:.3g} leaves {left:.2f} GiB beside the pool",
        "expected": f"{needed:.2f} GiB, which graphs, context and unprofiled activations take after it",
    }


@lru_cache(maxsize=256)
def _parsed(gpus: str) -> tuple[str, int]:
    request = parse_gpus(gpus)
    return request.name, request.number


def refuse_architecture(arch: Architecture, engine: EngineProfile) -> None:
    """Refuse a model that the engine does not implement, naming the engines that do."""
    reason = architecture_refusal(engine, arch)
    if reason is None:
        return
    has = engine.architectures.has
    expected = f"one of {', '.join(has)}" if has else None
    others = ", ".join(engines_that_implement(arch)) or "none"
    raise Infeasible(sentence(reason), found=arch.name, expected=expected, hint=f"Engines that do: {others}.")


def runnable_format(arch: Architecture, engine: EngineProfile, gpu: Accelerator, precision: str | None) -> WeightFormat:
    """The asked format where engine and device run it; its 16-bit parts become fp16 on devices without bf16."""
    formats = with_fp16_twins([weight_format(arch, precision)], FP16)
    if precision is not None and formats[0].name == BF16.name:
        formats = formats[:1]
    reasons = [weight_refusal(engine, gpu, weights, allow_fp16_twin=False) for weights in formats]
    if all(reasons) and reasons[-1] is not None:
        raise Infeasible(sentence(reasons[-1]), hint=other_formats(engine, gpu))
    return formats[reasons.index(None)]


def other_formats(engine: EngineProfile, gpu: Accelerator) -> str:
    """What to ask instead of a format that does not run."""
    if any(d.generation == gpu.generation for d in engine.dropped):
        return "--engine-version names an older one."
    names = weights_that_run(engine, gpu)
    return f"{engine.title} on {gpu.name} runs --precision {', '.join(names)}." if names else LISTED


def runnable_kv(engine: EngineProfile, gpu: Accelerator, weights: WeightFormat, kv_precision: str | None) -> Precision:
    """The asked KV format, or the one that the engine chooses for this checkpoint on this device."""
    if kv_precision is None:
        usual = usual_kv_precision(weights, engine)
        return usual if kv_refusal(engine, gpu, usual) is None else weights.base
    asked = kv_format(kv_precision)
    reason = kv_refusal(engine, gpu, asked)
    if reason:
        raise Infeasible(sentence(reason))
    return asked


def checked_layout(
    arch: Architecture,
    weights: WeightFormat,
    number: int,
    tp: int | None,
    pp: int,
    ep: int | None,
    attention_dp: int,
    *,
    by_layer: bool = False,
) -> Layout:
    """The stated layout; a rule that it breaks is Infeasible.

    Where nothing is stated, TP over all GPUs, or pipeline stages in engines that split `by_layer`.
    """
    for name, parts in (
        ("pp", pp),
        ("attention_dp", attention_dp),
        ("tp", 1 if tp is None else tp),
        ("ep", 1 if ep is None else ep),
    ):
        if not 1 <= parts <= MOST_DEVICES:
            raise UsageError(f"--{name.replace('_', '-')} must be from 1 to {MOST_DEVICES}", found=parts)
    if by_layer and tp is None:
        tp, pp = 1, number if pp * attention_dp == 1 else pp
    tensor = tp or max(number // (pp * attention_dp), 1)
    stage = tensor * attention_dp
    if stage % (ep or 1):
        raise UsageError(f"EP {ep} does not divide the {stage} GPUs of a stage")
    layout = Layout(tensor, pp, ep or 1, attention_dp)
    if layout.num_devices != number:
        found = f"{layout.label} is {layout.num_devices} of {number}"
        hint = f"A copy on {layout.num_devices} of them is '--gpus NAME:{layout.num_devices}'."
        raise UsageError("the layout does not use the GPUs", found=found, hint=hint)
    reason = refusal(arch, layout, weights)
    if reason:
        raise Infeasible(f"{arch.name} cannot run as {layout.label}: {sentence(reason)}")
    return layout


def checked_fraction(memory_fraction: float | None) -> float | None:
    """The share of memory that an engine is told to keep to, if any."""
    if memory_fraction is not None and not 0 < memory_fraction <= 1:
        raise UsageError("not a share of memory", found=memory_fraction, expected="a ratio above 0 and up to 1")
    return memory_fraction


def queued_requests(full_queue: bool, requests: float | None) -> float | None:
    """Requests that wait at once in a full queue, infinitely many unless said; None: there is no such queue."""
    if requests is not None and not full_queue:
        raise UsageError("requests wait in a full queue", found=f"{requests:g} requests", expected="a full queue")
    return (math.inf if requests is None else requests) if full_queue else None


def checked_load(concurrency: float | None, rate: float | None, batch: float | None, queued: float | None) -> Load:
    """Exactly one kind of load; `queued` requests wait at once, infinitely many in a queue that never empties."""
    given = {"closed_loop": concurrency, "open_loop": rate, "static_batch": batch, "full_queue": queued}
    stated = [(scenario, amount) for scenario, amount in given.items() if amount is not None]
    if len(stated) != 1:
        raise UsageError("state one load", expected="exactly one of concurrency, rate, batch and full queue")
    scenario, amount = stated[0]
    if scenario in WHOLE and math.isfinite(amount) and amount != round(amount):
        raise UsageError(f"{WHOLE[scenario]} are whole", found=f"{amount:g}", expected="a number such as 2 or 3")
    if not amount > 0 or (amount > MOST_SEQUENCES and scenario != "full_queue"):
        raise UsageError(f"the load must be from above 0 to {MOST_SEQUENCES:,}", found=amount)
    return Load(scenario, float(amount))


def link_of_instance(machine: Instance, gpu: Accelerator, layout: Layout) -> tuple[bool, float]:
    """(is PCIe, bytes/s) inside a machine that must hold these GPUs, as many as a stage of the layout needs."""
    if machine.accelerator != gpu.name or machine.gpu_count < layout.devices_per_stage:
        raise UsageError(
            f"{machine.cloud} {machine.name} does not hold {layout.devices_per_stage}x {gpu.name}",
            found=f"{machine.gpu_count:g}x {machine.accelerator}",
        )
    return not machine.fabric.is_switched, machine.fabric.bytes_per_s or 0.0


def link_of(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> tuple[bool, float]:
    """(is PCIe, bytes/s) of the link that the GPUs of a stage share: of the named machine, else of the device."""
    if instance is None:
        return usual_link(gpu, layout.devices_per_stage)
    return link_of_instance(resolve_instance(tables, instance), gpu, layout)


def link_rows(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> list[Input]:
    """The link between the GPUs of a copy, where there are several, and whose it is."""
    if layout.num_devices == 1:
        return []
    whose = instance or "any machine"
    words = link_words(*link_of(tables, gpu, layout, instance))
    return [Input(name="link", value=f"{whose}, {words}", origin="given" if instance else "default")]


def link_note(tables: Catalog, gpu: Accelerator, layout: Layout, instance: str | None) -> str | None:
    """That the usual machine has another link than the one that was taken where no machine was named."""
    taken, usual = link_of(tables, gpu, layout, instance), usual_instance(tables.instances.values(), gpu, layout)
    if instance is not None or usual is None or link_of_instance(usual, gpu, layout) == taken:
        return None
    words = link_words(*link_of_instance(usual, gpu, layout))
    return (
        f"The link is taken as {link_words(*taken)}; {usual.cloud} {usual.name} and its like have {words}: "
        f"--instance {usual.name}"
    )


def link_words(is_pcie: bool, bytes_per_s: float) -> str:
    """A link as people call it.

    >>> link_words(True, 32e9)
    'PCIe at 32 GB/s'
    """
    return f"{'PCIe' if is_pcie else 'NVLink or the like'} at {bytes_per_s / GB:g} GB/s"


def one_candidate(
    tables: Catalog,
    gpu: Accelerator,
    engine: EngineProfile,
    weights: WeightFormat,
    kv: Precision,
    layout: Layout,
    instance: str | None,
) -> Candidates:
    """One configuration as arrays of one element, on the link of the named instance or of the device."""
    is_pcie, link = link_of(tables, gpu, layout, instance)
    accelerators = tuple(tables.accelerators.values())
    zero = np.zeros(1, dtype=np.int64)
    return Candidates(
        Palette(accelerators, (weights,), (kv,), (engine,)),
        accelerator=zero + list(tables.accelerators).index(gpu.name),
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=zero + layout.tp,
        pp=zero + layout.pp,
        ep=zero + layout.ep,
        attention_dp=zero + layout.attention_dp,
        link_is_pcie=np.array([is_pcie]),
        link_bytes_per_s=np.array([link]),
    )


def understood(workload: Workload, load: Load) -> list[Input]:
    """Lengths and load as they were read."""
    rows = [
        *length_rows(workload),
        (load.scenario.replace("_", " "), load.scenario, in_full(load.amount), True),
    ]
    return [Input(name=name, value=value, origin="given" if said else "default") for name, _, value, said in rows]
