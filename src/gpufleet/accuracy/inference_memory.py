"""Scores memory: weights, the KV pool that an engine opens, and the total of a run that states what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpufleet.accuracy.conditions import EngineLabel, engine_of, memory_version_of
from gpufleet.accuracy.figures import (
    Comparison,
    Prediction,
    Quantity,
    RowLabels,
    RowScores,
    has_failed,
    has_started,
    remark_on,
    says_how_it_ended,
)
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.precisions import kv_precision_of, weight_precision_of
from gpufleet.accuracy.replica_memory import MemoryQuestion, ReplicaMemory, replica_memory
from gpufleet.accuracy.serving import REFUSALS, Setup
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.memory.band import Band
from gpufleet.report.words import sentence
from gpufleet.units import GIB

WEIGHTS = Quantity("weights", "weights_gb", "GiB", GIB)
KV_TOKENS = Quantity("kv_tokens", "kv_cache_tokens", "tokens")
KV_POOL = Quantity("kv_pool", "kv_cache_gb", "GiB", GIB)
TOTAL = Quantity("total_memory", "total_gb", "GiB", GIB)
QUANTITIES = (TOTAL, WEIGHTS, KV_TOKENS, KV_POOL)
QUANTISED = ("fp8", "fp8_block", "int8", "int8_wo", "int4", "nf4", "mxfp4", "nvfp4")
PER_GPU_WORDS = ("per GPU", "one rank")
NATIVE_SAMPLER = "pytorch"


def score_memory(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """Every quantity of a row that states what it depends on and how the run ended, or why the row is not scored."""
    wanted = [quantity for quantity in amounts_of(row) if states_what_it_needs(row, quantity)]
    started = states_a_start(row)
    if not wanted and not started:
        return RowScores(left_out="does not state GPU, batch and lengths")
    labels = RowLabels(file, row, engine=engine_of(row.text("engine")).name, group=row.text("source"))
    compare, ran = Comparison(labels), not has_failed(row)
    try:
        setup = of_named_checkpoint(row, Setup.of(row, models), models)
        if exceeds_its_gpus(row, setup):
            return RowScores(left_out="states more memory than its GPUs have")
        found = memory_of(row, setup)
        predictions, fits = readings(row, setup, found), bool(found.budget.fits)
    except REFUSALS as refusal:
        return RowScores([compare.refused(q, refusal, ran=ran, fits=None) for q in wanted or [TOTAL]], ran=ran)
    judged = started or states_what_it_needs(row, TOTAL)
    remarked = replace(compare, remark=remark_on(ran=ran, fits=fits) if judged else None)
    figures = [remarked.scored(q, predictions[q]) for q in wanted]
    if started:
        figures.insert(0, compare.ended("runs" if ran else "oom", TOTAL, fits=fits, needed=predictions[TOTAL]))
    return RowScores(figures, ran=ran, fits=fits if judged else None)


def amounts_of(row: MeasurementRow) -> list[Quantity]:
    """The quantities of which a row states an amount; a run that failed has no total, whatever it had reached."""
    possible = QUANTITIES[1:] if has_failed(row) else QUANTITIES
    return [q for q in possible if row.text(q.column) and not says_how_it_ended(row.text(q.column))]


def states_a_start(row: MeasurementRow) -> bool:
    """Whether a row says how a run ended, and what had to fit: a batch with its lengths, or the longest context.

    An engine refuses to start where its KV pool does not hold one sequence of the longest context.
    """
    demands = states_what_it_needs(row, TOTAL) or bool(row.text("gpu_id", "gpu") and row.text("max_model_len"))
    return demands and (has_failed(row) or has_started(row))


def of_named_checkpoint(row: MeasurementRow, setup: Setup, models: ModelFinder) -> Setup:
    """The setup with the quantised checkpoint that the row names in full, where it is one of its model's.

    Checkpoints of one model differ in what they leave in 16 bits, and some in KV heads.
    """
    try:
        named = models.by_name(row.text("model"))
    except (UnknownName, UsageError):
        return setup
    shape = (named.num_layers, named.hidden_size, named.vocab_size)
    is_same_model = shape == (setup.model.num_layers, setup.model.hidden_size, setup.model.vocab_size)
    return replace(setup, model=named) if is_same_model and named.weights.name in QUANTISED else setup


def states_what_it_needs(row: MeasurementRow, quantity: Quantity) -> bool:
    """A total depends on GPU, batch and lengths; weights and KV pool on the GPU."""
    needed = ("batch", "isl", "osl") if quantity is TOTAL else ()
    return bool(row.text("gpu_id", "gpu")) and all(row.text(column) for column in needed)


def exceeds_its_gpus(row: MeasurementRow, setup: Setup) -> bool:
    """Whether a row contradicts itself: a measured total above the memory of the GPUs that it names."""
    if TOTAL not in amounts_of(row):
        return False
    total = row.positive(TOTAL.column) or 0.0
    num_gpus = 1 if states_per_gpu(row, setup.engine) else setup.layout.num_gpus
    return total * TOTAL.scale > num_gpus * resolve_gpu(load_catalog(), setup.layout.gpu).accelerator.memory_bytes


def memory_of(row: MeasurementRow, setup: Setup) -> ReplicaMemory:
    """Weights, KV pool and total of a row's replica; raises what is refused."""
    layout = setup.layout
    isl, osl = row.positive("isl"), row.positive("osl")
    states_lengths = isl is not None and osl is not None
    longest = row.positive("max_model_len") or setup.model.max_context_tokens
    found = replica_memory(
        MemoryQuestion(
            model=setup.model,
            gpu=layout.gpu,
            layout=Layout(layout.tp, layout.pp, layout.ep or 1, layout.attention_dp),
            engine=setup.engine.name,
            context_tokens=(isl or 0.0) + (osl or 0.0) if states_lengths else longest,
            precision=weight_precision_of(row),
            kv_precision=kv_precision_of(row),
            prompt_tokens=isl if states_lengths else None,
            batch=row.positive("batch"),
            start=start_of(row),
            engine_version=memory_version_of(row, setup.engine),
            has_native_sampler=row.text("sampler") == NATIVE_SAMPLER,
        )
    )
    if found.refusal:
        raise Infeasible(sentence(found.refusal))
    return found


def start_of(row: MeasurementRow) -> EngineStart:
    """How a row says that its engine was started."""
    return EngineStart(
        max_batch=row.whole("max_num_seqs"),
        max_step_tokens=row.whole("max_num_batched_tokens"),
        memory_fraction=row.positive("gpu_memory_utilization"),
    )


def readings(row: MeasurementRow, setup: Setup, found: ReplicaMemory) -> Mapping[Quantity, Prediction]:
    """Where each quantity of a row stands in the budget."""
    budget = found.budget
    num_gpus = 1 if states_per_gpu(row, setup.engine) else setup.layout.num_gpus
    amounts = {
        WEIGHTS: budget.loaded_bytes.scaled(num_gpus),
        KV_POOL: budget.kv_pool_bytes.scaled(num_gpus),
        KV_TOKENS: budget.pool_tokens(found.kv_bytes_per_block_token).scaled(setup.layout.attention_dp),
        TOTAL: budget.total_bytes.scaled(num_gpus),
    }
    return {quantity: as_prediction(band, found.grade) for quantity, band in amounts.items()}


def states_per_gpu(row: MeasurementRow, engine: EngineLabel) -> bool:
    """Whether a row's figures are of one GPU; a split by layer has no such figure."""
    by_layer = find_engine(engine.name).splits_by_layer
    return not by_layer and any(words in row.text("notes") for words in PER_GPU_WORDS)


def as_prediction(band: Band, grade: str) -> Prediction:
    """A band of the memory model as a prediction; a pool is never below nothing."""
    low, expected, high = (max(float(end), 0.0) for end in (band.low, band.expected, band.high))
    return Prediction(expected, low, high, grade)
