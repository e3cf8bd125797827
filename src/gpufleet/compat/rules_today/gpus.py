"""Number of GPUs: the seeds' quick formulas beside the smallest number that holds a real model."""

from __future__ import annotations

from gpufleet.api import fit
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.compat.rules.gpus import (
    gpus_for_inference,
    gpus_for_training,
    precision_bytes,
    size_category,
    whole_gpus,
)
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, bound, exact, given
from gpufleet.compat.rules_today.stand_ins import (
    TRAINING_STATE_BYTES_PER_PARAMETER,
    StandIn,
    billions,
    gpu_of_memory,
    memory_note,
    model_of,
    training_state_bytes,
)
from gpufleet.domain.accelerator import Accelerator
from gpufleet.records import dataclass
from gpufleet.report.numbers import gib
from gpufleet.results.base import Figure
from gpufleet.units import GB

SOURCE = "Computation Requirements, 'GPU Memory Estimation'"
NUMBERS_OF_GPUS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
UNIT = "GPUs"


@dataclass(frozen=True)
class GpusQuestion:
    """A model, a precision and the memory of one GPU."""

    parameters: float = 70e9
    precision: str = "fp16"
    gpu_memory_gb: float = 80.0
    gpu: str | None = None
    context_tokens: float = 4096
    users: int = 1
    model: str | None = None


def gpus_answer(q: GpusQuestion) -> RuleAnswer:
    """The seeds' counts for inference and training beside ours."""
    size_b, stand_in = billions(q.parameters), model_of(q.model, q.parameters)
    gpu, memory_gb, note = gpu_that_answers(q)
    bytes_each, category = precision_bytes(q.precision), size_category(size_b)
    inference, training = (rule(size_b, bytes_each, memory_gb) for rule in (gpus_for_inference, gpus_for_training))
    holding, said = least_gpus(q, gpu, stand_in)
    state_gpus = bound(float(whole_gpus(training_state_bytes(stand_in.parameters) / gpu.memory_bytes)), UNIT)
    rows = [
        RuleRow(name="inference, by the formula", unit=UNIT, seed=round(inference, 3)),
        gpus_row("inference, whole GPUs", inference, holding, said),
        RuleRow(name="training, by the formula", unit=UNIT, seed=round(training, 3)),
        gpus_row("training, whole GPUs", training, state_gpus, "a bound: the state alone"),
        RuleRow(name="size class", seed=category.name),
        weights_row("memory of the class, FP16", category.memory_fp16, stand_in.weights_bytes("fp16")),
        weights_row("memory of the class, FP32", category.memory_fp32, stand_in.weights_bytes("fp32")),
    ]
    return RuleAnswer(
        rule="gpus",
        question=f"GPUs of {memory_gb:g} GB for {size_b:,.3g}B in {q.precision}.",
        source=SOURCE,
        inputs=[
            given("bytes a parameter", bytes_each, q.precision != GpusQuestion.precision),
            given("GPU memory", f"{memory_gb:g} GB", memory_gb != GpusQuestion.gpu_memory_gb),
        ],
        tables=[RuleTable(title="question", rows=rows)],
        differences=differences(q, gpu),
        notes=[*filter(None, [note]), stand_in.note],
    )


def gpus_row(name: str, seed: float, ours: Figure | None, said: str) -> RuleRow:
    """GPUs that can be rented."""
    return RuleRow(name=name, unit=UNIT, seed=float(whole_gpus(seed)), ours=ours, ours_text=said)


def weights_row(name: str, seed: str, weights_bytes: float) -> RuleRow:
    """The seeds' memory of a size class beside the weights of the model that stands for it."""
    return RuleRow(name=name, seed=seed, ours_text=f"{weights_bytes / GB:,.1f} GB of weights")


def gpu_that_answers(q: GpusQuestion) -> tuple[Accelerator, float, str | None]:
    """The named GPU with its marketed memory, or the one that stands for a memory."""
    tables = load_catalog()
    if q.gpu is not None:
        named = resolve_gpu(tables, q.gpu)
        return named.accelerator, named.accelerator.marketed_memory_gb, named.note
    gpu = gpu_of_memory(tables, q.gpu_memory_gb)
    return gpu, q.gpu_memory_gb, memory_note(gpu, q.gpu_memory_gb)


def least_gpus(q: GpusQuestion, gpu: Accelerator, stand_in: StandIn) -> tuple[Figure | None, str]:
    """The smallest number that a layout exists for and that holds the users, or why none does."""
    reason = ""
    for number in NUMBERS_OF_GPUS:
        result = fit(stand_in.asked, f"{gpu.name}:{number}", q.context_tokens, precision=q.precision, batch=q.users)
        if result.fits:
            return exact(float(number), UNIT), f"as {result.layout}"
        reason = result.refusal or f"more than {number}"
    return None, reason


def differences(q: GpusQuestion, gpu: Accelerator) -> list[str]:
    """What weights over memory leaves out."""
    users = "one user" if q.users == 1 else f"{q.users} users"
    return [
        f"The seed divides weights by memory; ours adds KV cache for {users} of {q.context_tokens:,.0f} tokens, the "
        f"engine and what the driver keeps, and asks for a layout that the model's heads allow.",
        "The seed's 6 for training leaves the weights themselves out; weights, gradients and Adam's state are "
        f"{TRAINING_STATE_BYTES_PER_PARAMETER} bytes a parameter in mixed precision, before any activation.",
        f"Memories of a class are rounded to cards. {gpu.name} reports {gib(gpu.memory_bytes)}, which is "
        f"{gpu.memory_bytes / GB:.1f} GB.",
    ]
