"""Runs of training of one's own, each beside the step that a plan predicts of it."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.accuracy.training_cells import (
    is_fine_tuning,
    method_of,
    said_sharding,
    sharding_of,
    stack_of,
    stated_recompute,
)
from gpufleet.api.spoken import heard
from gpufleet.api.training import run_of, stack_asked, stack_of_runs, trained_as
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.own_stack import OwnRun, OwnStack
from gpufleet.errors import UsageError, named
from gpufleet.inputs.gpu_request import GpuRequest
from gpufleet.inputs.measurements import MeasurementRow, read_measurements
from gpufleet.inputs.training_layout import MeasuredRun
from gpufleet.questions.training import FinetuneRequest, TrainingRequest, TrainRequest

TRAINING = "training_throughput"
ENOUGH_TOKENS = 1e12
"""Of runs whose batch is not said: no batch of a usual size is more."""
PARTS = ("tp", "pp", "cp", "ep", "dp", "micro_batch")


def trained_stack(files: Sequence[str]) -> tuple[OwnStack, list[tuple[str, OwnRun]]]:
    """Software on a GPU as its rows say, and each row's run by the name of the row."""
    tables, found = load_catalog(), []
    for file in files:
        for row in read_measurements(file).rows:
            with named(f"{file}, line {row.line}"):
                request, run = request_of(row), stated_run(row)
                trained = trained_as(request, {run.gpus.name: run.gpus.number})
                found.append((stack_asked(request), *run_of(trained, run, row.text("model_id", "model"), tables)))
    stacks = sorted({stack.value for stack, *_ in found})
    if len(stacks) != 1:
        raise UsageError("runs of several stacks", found=" and ".join(stacks) or "none", expected="one software")
    own = stack_of_runs(found[0][0], [(gpu, run) for _, gpu, run in found])
    return own, [(f"run {at}", run) for at, (_, _, run) in enumerate(found, 1)]


def request_of(row: MeasurementRow) -> TrainingRequest:
    """The question of training that a row answers."""
    stack, method = stack_of(row), method_of(row)
    said = {
        "sequence_tokens": row.positive("seq_len"),
        "global_batch": row.whole("global_batch"),
        "precision": row.text("precision") or None,
        "optimizer": row.text("optimizer") or None,
        "stack": None if stack is None else stack.value,
        "tokens": ENOUGH_TOKENS,
    }
    model = row.text("model_id", "model")
    if not is_fine_tuning(row):
        return heard(TrainRequest, model, **said)
    modules = [name.strip() for name in row.text("lora_modules").split(",") if name.strip()]
    own = {"method": method.value, "rank": row.whole("lora_rank"), "modules": modules or None}
    return heard(FinetuneRequest, model, **said, **own)


def stated_run(row: MeasurementRow) -> MeasuredRun:
    """GPUs, what is said of the layout, and tokens per second and GPU of a row."""
    speed, recompute = row.positive("tokens_per_s_per_gpu"), stated_recompute(row)
    if speed is None:
        raise UsageError("tokens_per_s_per_gpu is missing")
    layout = {name.replace("_", "-"): row.whole(name) for name in PARTS}
    layout |= {"recompute": None if recompute is None else int(recompute)}
    layout |= {"sharding": int(sharding_of(row)) if said_sharding(row) else None}
    gpus = GpuRequest(row.text("gpu_id", "gpu"), row.whole("num_gpus") or 1)
    return MeasuredRun(gpus, {name: part for name, part in layout.items() if part is not None}, speed)
