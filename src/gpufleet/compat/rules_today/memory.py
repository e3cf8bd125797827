"""Memory: the seeds' formula beside the bytes that `gpufleet fit` counts for a real model."""

from __future__ import annotations

import numpy as np

from gpufleet.answers.training_estimate import band_figure
from gpufleet.api import fit
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.compat.rules.gpus import size_category
from gpufleet.compat.rules.memory import guessed_shape
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, exact, given, scaled
from gpufleet.compat.rules_today.questions import MemoryQuestion
from gpufleet.compat.rules_today.stand_ins import SINGLE_GPUS, StandIn, billions, model_of, sized
from gpufleet.compat.rules_today.trained import Trained, gpus_rows, gpus_words, placed_or_not, training_notes
from gpufleet.domain.training import one_layout
from gpufleet.provenance import Grade
from gpufleet.results.base import Figure
from gpufleet.results.fit import FitResult
from gpufleet.units import GIB

UNIT = "GiB"
SOURCE = "GPU Infrastructure & Computational Requirements, 'GPU Memory Hierarchy and Bandwidth'"
PARTS = {
    "model weights": ("weights",),
    "activations": ("activations", "logits"),
    "gradients": ("gradients",),
    "optimizer states": ("optimizer", "step"),
}
"""The seed's parts of training, and what our model counts under each."""
ENGINE_PARTS = ("graphs", "context, libraries, buffers")


def memory_answer(q: MemoryQuestion) -> RuleAnswer:
    """The seeds' memory rule and ours, part by part."""
    q = sized(q)
    size_b, rule, stand_in = billions(q.parameters), q.rule(), model_of(q.model, q.parameters)
    kind, category = "training" if q.training else "inference", size_category(size_b)
    return RuleAnswer(
        rule="memory",
        question=f"Memory for {kind}: {size_b:,.3g}B in {q.precision}, {q.batch} x {q.tokens:,} tokens.",
        source=SOURCE,
        inputs=[
            given("parameters", f"{size_b:,.3g}B", "parameters" in q.said),
            given("precision", q.precision, "precision" in q.said),
            given("batch", q.batch, "batch" in q.said),
            given("sequence", f"{q.tokens:,}", "tokens" in q.said),
        ],
        tables=training_tables(q, rule, stand_in) if q.training else inference_tables(q, rule, stand_in),
        differences=training_differences(q, stand_in) if q.training else inference_differences(q, stand_in),
        notes=[
            stand_in.note,
            *notes_of_training(q, stand_in),
            f"Size class by the seeds: {category.name} ({category.memory_fp16} in FP16).",
        ],
    )


def fit_on(q: MemoryQuestion, gpu: str, stand_in: StandIn) -> FitResult:
    """Our figures on one GPU of a kind."""
    return fit(stand_in.asked, f"{gpu}:1", q.tokens, precision=q.precision, batch=q.batch)


def inference_tables(q: MemoryQuestion, rule: dict[str, float], stand_in: StandIn) -> list[RuleTable]:
    """Part by part."""
    return [RuleTable(title="part", rows=inference_rows(q, rule, stand_in))]


def training_tables(q: MemoryQuestion, rule: dict[str, float], stand_in: StandIn) -> list[RuleTable]:
    """Part by part, then the fewest GPUs that train all weights, and adapters."""
    trained = trained_as_asked(q, stand_in)
    return [
        RuleTable(title="part", rows=training_rows(q, rule, trained)),
        RuleTable(title=f"fewest {trained.gpu.name}", rows=gpus_rows(trained)),
    ]


def notes_of_training(q: MemoryQuestion, stand_in: StandIn) -> list[str]:
    """Where our figures are for other sequences, or other formats, than the rule was asked for."""
    return training_notes(trained_as_asked(q, stand_in)) if q.training else []


def inference_rows(q: MemoryQuestion, rule: dict[str, float], stand_in: StandIn) -> list[RuleRow]:
    """Weights, cache, activations and the engine's own memory."""
    result = fit_on(q, q.gpu, stand_in)
    parts = {part.name: scaled(part.size, GIB, UNIT) for part in result.parts}
    refusal = result.refusal or ""
    kv = next((size for name, size in parts.items() if name.startswith("KV cache")), None)
    total = None if result.total_bytes is None else scaled(result.total_bytes, GIB, UNIT)
    return [
        row("model weights", rule["model_weights_gb"], parts.get("weights"), refusal),
        row("activations", rule["activations_gb"], parts.get("activations")),
        row("gradients", rule["gradients_gb"]),
        row("optimizer states", rule["optimizer_states_gb"]),
        row("KV cache", rule["kv_cache_gb"], kv),
        *(row(name, None, parts.get(name)) for name in ENGINE_PARTS if name in parts),
        row("total", rule["total_gb"], total),
        row("recommended GPU memory", rule["recommended_gpu_memory_gb"], None, smallest_single_gpu(q, stand_in)),
    ]


def trained_as_asked(q: MemoryQuestion, stand_in: StandIn) -> Trained:
    """The training that the rule is asked for, by our model: the batch is what a GPU works on at once."""
    tables = load_catalog()
    gpu = resolve_gpu(tables, q.gpu).accelerator
    return Trained(tables, stand_in.architecture, gpu, q.precision, q.tokens, q.batch)


def training_rows(q: MemoryQuestion, rule: dict[str, float], trained: Trained) -> list[RuleRow]:
    """What one GPU would hold, had it room: weights, what learning adds, activations without recomputation."""
    counts = trained.counts()
    memory = counts.memory(one_layout(micro_batch=q.batch))
    parts = {name: float(np.sum([getattr(memory, each) for each in names])) for name, names in PARTS.items()}
    kept, moments = parts["activations"], parts["optimizer states"]
    total = band_figure(memory.total.low, memory.total.expected, memory.total.high)
    in_turn = float(np.sum(memory.reused))
    other = total.value - sum(parts.values()) - in_turn
    return [
        row("model weights", rule["model_weights_gb"], exact(parts["model weights"] / GIB, UNIT)),
        row("activations", rule["activations_gb"], exact(kept / GIB, UNIT), "none recomputed"),
        row("gradients", rule["gradients_gb"], exact(parts["gradients"] / GIB, UNIT)),
        row("optimizer states", rule["optimizer_states_gb"], exact(moments / GIB, UNIT)),
        row("KV cache", rule["kv_cache_gb"], exact(0.0, UNIT), "training keeps none"),
        row("one after the other in one place", None, exact(in_turn / GIB, UNIT)),
        row("allocator, context, fragments", None, exact(other / GIB, UNIT)),
        row("total", rule["total_gb"], scaled(graded(total), GIB, UNIT), "on one GPU, had it room"),
        row("recommended GPU memory", rule["recommended_gpu_memory_gb"], None, recommended(trained)),
    ]


def graded(figure: Figure) -> Figure:
    """Memory of training rests on peaks that others measured."""
    return figure.model_copy(update={"grade": Grade.TRANSFERRED.label})


def recommended(trained: Trained) -> str:
    """The fewest GPUs that train all weights."""
    found = trained.counts().fewest()
    return gpus_words(found) if found else placed_or_not(trained.counts(), None)


def row(name: str, seed: float | None, ours: Figure | None = None, said: str = "") -> RuleRow:
    """One part in GiB."""
    return RuleRow(name=name, unit=UNIT, seed=seed, ours=ours, ours_text=said)


def smallest_single_gpu(q: MemoryQuestion, stand_in: StandIn) -> str:
    """The first GPU, by memory, that holds all of it by our own count."""
    for gpu in SINGLE_GPUS:
        result = fit_on(q, gpu, stand_in)
        if result.fits:
            return f"one {gpu} ({result.device_bytes / GIB:.0f} GiB)"
    return "no single GPU: see 'gpufleet rules gpus'"


def inference_differences(q: MemoryQuestion, stand_in: StandIn) -> list[str]:
    """Activations, cache and the engine."""
    shape = guessed_shape(q.parameters)
    times = 4 * q.batch * q.tokens / 2048
    return [
        f"Activations: the seed takes {times:,.3g} times the weights (4 x batch x tokens / 2048), as if every token's "
        "stayed; an engine frees them layer by layer.",
        f"KV cache: the seed guesses {shape.num_layers:.0f} layers of width {shape.hidden_dim:,.0f} from the parameter "
        f"count; ours reads {stand_in.architecture.num_layers} layers and their KV heads from the model.",
        "The seed knows no engine: graphs, libraries and buffers are its 20% of everything.",
    ]


def training_differences(q: MemoryQuestion, stand_in: StandIn) -> list[str]:
    """What training keeps."""
    trained = trained_as_asked(q, stand_in)
    return [
        f"Ours trains {trained.words()}: fp32 keeps 4 bytes of weight, 4 of gradient and 8 of Adam's moments; mixed "
        "precision 2, 4 and 12, a 32-bit copy of the weights among them. The parameters here are exact.",
        "The seed adds a KV cache, which training does not keep, and activations that no recomputation lowers; the "
        "fewest GPUs are those on which some layout, sharding and recomputation has room.",
        "The seed knows no adapters: LoRA and QLoRA learn a few of 1,000 weights (rank 16 on all matrices), with the "
        "model frozen in 16 or 4 bits.",
        f"Another seed multiplies the weights by 6 ({6 * q.rule()['model_weights_gb']:,.0f} GiB here), a third by 1.5.",
    ]
