"""Scaling over several GPUs by the seeds' rule of thumb, finished where the seed is cut off."""

from __future__ import annotations

from enum import Enum
from typing import Any

from gpufleet.compat.rules.plausible import refuse_unless
from gpufleet.errors import UnknownName

LAYER_SPLIT_MESSAGES = 2
LEAST_MICRO_BATCHES_PER_STAGE = 4
WORTHWHILE_EFFICIENCY = 0.7
CUT_OFF = (
    "The seed breaks off inside its pipeline branch: tensor parallelism, what is returned and the floor of the "
    "efficiency at zero are finished here by its evident intent."
)


class ParallelismStrategy(Enum):
    """The seeds' four ways of using several GPUs."""

    DATA = "data_parallelism"
    MODEL = "model_parallelism"
    PIPELINE = "pipeline_parallelism"
    TENSOR = "tensor_parallelism"


def calculate_multi_gpu_efficiency(
    num_gpus: int,
    strategy: ParallelismStrategy,
    model_size_gb: float,
    batch_size: int,
    communication_overhead: float = 0.1,
) -> dict[str, Any]:
    """Memory per GPU, efficiency and speedup by the seeds' rule of thumb.

    data      efficiency = 1 - c (1 - 1/n),         every GPU holds the model
    model     efficiency = 1 - 2 c,                 every GPU holds 1/n of it
    pipeline  efficiency = batch / (batch + n - 1) - c, every GPU holds 1/n of it
    tensor    efficiency = 1 - 2 c (1 - 1/n),       every GPU holds 1/n of it
    speedup   = n x efficiency (of no use for model parallelism, where one GPU works at a time)

    with n GPUs and c the communication overhead. Source: GPU Infrastructure & Computational Requirements, "Multi-GPU
    Scaling". The seed is cut off after the pipeline's efficiency. By its evident intent ("efficiency metrics and
    recommendations") this adds: the tensor branch, which pays data parallelism's ring twice because it exchanges in
    the forward and in the backward pass; no efficiency below zero; the speedup; the recommendation.

    >>> calculate_multi_gpu_efficiency(8, ParallelismStrategy.DATA, 14.0, 32)["scaling_efficiency"]
    0.912
    """
    _refuse_nonsense(num_gpus, model_size_gb, batch_size, communication_overhead)
    chosen = strategy_of(strategy)
    efficiency = max(_scaling_efficiency(num_gpus, chosen, batch_size, communication_overhead), 0.0)
    memory_per_gpu = model_size_gb if chosen is ParallelismStrategy.DATA else model_size_gb / num_gpus
    return {
        "strategy": chosen.value,
        "num_gpus": num_gpus,
        "memory_per_gpu_gb": round(memory_per_gpu, 2),
        "effective_batch_size": batch_size,
        "scaling_efficiency": round(efficiency, 3),
        "effective_speedup": round(num_gpus * efficiency, 2),
        "recommendation": _recommendation(chosen, num_gpus, batch_size, efficiency),
    }


def strategy_of(strategy: object) -> ParallelismStrategy:
    """A strategy given as itself, as another enum with these values, or as a word ('data', 'tensor_parallelism').

    >>> strategy_of("Pipeline").value
    'pipeline_parallelism'
    """
    word = str(getattr(strategy, "value", strategy)).casefold().removesuffix("_parallelism")
    known = {member.name.casefold(): member for member in ParallelismStrategy}
    if word not in known:
        raise UnknownName("strategy", strategy, known)
    return known[word]


def _scaling_efficiency(num_gpus: int, strategy: ParallelismStrategy, batch_size: int, overhead: float) -> float:
    ring = 1 - 1 / num_gpus
    if strategy is ParallelismStrategy.DATA:
        return 1 - overhead * ring
    if strategy is ParallelismStrategy.MODEL:
        return 1 - overhead * LAYER_SPLIT_MESSAGES
    if strategy is ParallelismStrategy.PIPELINE:
        pipeline_bubble = 1 - (batch_size / (batch_size + num_gpus - 1))
        return 1 - pipeline_bubble - overhead
    return 1 - overhead * LAYER_SPLIT_MESSAGES * ring


def _recommendation(strategy: ParallelismStrategy, num_gpus: int, batch_size: int, efficiency: float) -> str:
    if strategy is ParallelismStrategy.DATA and batch_size < num_gpus:
        return f"A batch of {batch_size} leaves GPUs without work: use at least {num_gpus}, or fewer GPUs."
    if strategy is ParallelismStrategy.PIPELINE and batch_size < LEAST_MICRO_BATCHES_PER_STAGE * num_gpus:
        needed = LEAST_MICRO_BATCHES_PER_STAGE * num_gpus
        return f"The pipeline runs half empty: a batch of {needed} or more fills it."
    if efficiency < WORTHWHILE_EFFICIENCY:
        return "Less than 70% of the GPUs is used: use fewer GPUs or another strategy."
    if strategy is ParallelismStrategy.DATA:
        return "Use it where the model fits one GPU."
    return "Use it where the model does not fit one GPU."


def _refuse_nonsense(num_gpus: int, model_size_gb: float, batch_size: int, overhead: float) -> None:
    refuse_unless(num_gpus >= 1, "num_gpus", num_gpus, "at least one GPU")
    refuse_unless(model_size_gb > 0, "model_size_gb", model_size_gb, "a size above zero")
    refuse_unless(batch_size >= 1, "batch_size", batch_size, "at least one sequence")
    refuse_unless(0 <= overhead < 1, "communication_overhead", overhead, "a share from 0 to below 1")
