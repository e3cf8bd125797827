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
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, exact, given
from gpufleet.compat.rules_today.questions import GpusQuestion
from gpufleet.compat.rules_today.stand_ins import StandIn, billions, gpu_of_memory, memory_note, model_of, sized
from gpufleet.compat.rules_today.trained import (
    METHOD_NAMES,
    Trained,
    gpus_rows,
    layout_words,
    placed_or_not,
    time_of,
    training_notes,
)
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.training import Method
from gpufleet.errors import UsageError
from gpufleet.report.numbers import count, duration, gib, ranged_duration
from gpufleet.results.base import Figure, Input
from gpufleet.units import GB

SOURCE = "Computation Requirements, 'GPU Memory Estimation'"
NUMBERS_OF_GPUS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
UNIT = "GPUs"
LATE = "no number of these GPUs is in time"


def gpus_answer(q: GpusQuestion) -> RuleAnswer:
    """The seeds' counts for inference and training beside ours."""
    q = sized(q)
    size_b, stand_in = billions(q.parameters), model_of(q.model, q.parameters)
    gpu, memory_gb, note = gpu_that_answers(q)
    bytes_each, category = precision_bytes(q.precision), size_category(size_b)
    inference, training = (rule(size_b, bytes_each, memory_gb) for rule in (gpus_for_inference, gpus_for_training))
    holding, said = least_gpus(q, gpu, stand_in)
    trained = Trained(load_catalog(), stand_in.architecture, gpu, q.precision)
    rows = [
        RuleRow(name="inference, by the formula", unit=UNIT, seed=round(inference, 3)),
        gpus_row("inference, whole GPUs", inference, holding, said),
        RuleRow(name="training, by the formula", unit=UNIT, seed=round(training, 3)),
        *training_rows(trained, training),
        *in_time_rows(trained, q),
        RuleRow(name="size class", seed=category.name),
        weights_row("memory of the class, FP16", category.memory_fp16, stand_in.weights_bytes("fp16")),
        weights_row("memory of the class, FP32", category.memory_fp32, stand_in.weights_bytes("fp32")),
    ]
    return RuleAnswer(
        rule="gpus",
        question=f"GPUs of {memory_gb:g} GB for {size_b:,.3g}B in {q.precision}.",
        source=SOURCE,
        inputs=[
            given("bytes a parameter", bytes_each, "precision" in q.said),
            given("GPU memory", f"{memory_gb:g} GB", bool({"gpu_memory_gb", "gpu"} & q.said)),
            *asked_time(q),
        ],
        tables=[RuleTable(title="question", rows=rows)],
        differences=differences(q, gpu),
        notes=[*filter(None, [note]), stand_in.note, *training_notes(trained)],
    )


def asked_time(q: GpusQuestion) -> list[Input]:
    """The tokens to train on and the time for them, which go together."""
    if (q.train_on is None) != (q.within_s is None):
        missing = "--within" if q.within_s is None else "--train-on"
        raise UsageError(f"{missing} is missing", expected="--train-on and --within together, such as 10B and 3d")
    if q.train_on is None or q.within_s is None:
        return []
    return [given("train on", f"{count(q.train_on)} tokens", True), given("within", duration(q.within_s), True)]


def training_rows(trained: Trained, seed: float) -> list[RuleRow]:
    """The fewest GPUs that hold all weights in training, or adapters: the rule knows the first alone."""
    full, *adapters = gpus_rows(trained, float(whole_gpus(seed)), "training, ")
    return [full.model_copy(update={"name": "training, whole GPUs"}), *adapters]


def in_time_rows(trained: Trained, q: GpusQuestion) -> list[RuleRow]:
    """The fewest GPUs that are done with the asked tokens in time; nothing where no time was asked."""
    if q.train_on is None or q.within_s is None:
        return []
    return [in_time_row(trained, method, q.train_on, q.within_s) for method in METHOD_NAMES]


def in_time_row(trained: Trained, method: Method, tokens: float, within_s: float) -> RuleRow:
    """The fewest GPUs that one way to train needs to be done in time, with how long they take."""
    name, counts = f"in {duration(within_s)}, {METHOD_NAMES[method]}", trained.counts(method)
    found = counts.fewest(tokens, within_s)
    if found is None:
        return RuleRow(name=name, unit=UNIT, ours_text=placed_or_not(counts, None, LATE))
    time = time_of(found, tokens, "s", 1.0)
    took = ranged_duration(time.value, time.low, time.high)
    figure = counts.in_time_figure(tokens, within_s)
    return RuleRow(name=name, unit=UNIT, ours=figure, ours_text=f"{took} as {layout_words(found)}")


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
        "The seed's 6 for training leaves the weights themselves out; ours is the fewest GPUs, doubling from one, on "
        "which some layout has room for weights, gradients, Adam's state and activations. Adapters take fewer.",
        f"Memories of a class are rounded to cards. {gpu.name} reports {gib(gpu.memory_bytes)}, which is "
        f"{gpu.memory_bytes / GB:.1f} GB.",
    ]
