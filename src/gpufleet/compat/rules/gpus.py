"""How many GPUs, by the seeds' quick formulas, and the size class of a model."""

from __future__ import annotations

import math
from typing import NamedTuple

from gpufleet.compat.rules.plausible import refuse_unless
from gpufleet.errors import UnknownName

TRAINING_MULTIPLIERS = {"optimizer states": 2, "gradients": 1, "forward activations": 1, "temporary buffers": 2}
TRAINING_MULTIPLIER = sum(TRAINING_MULTIPLIERS.values())
PRECISION_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


class SizeCategory(NamedTuple):
    """A row of the seeds' table of model sizes; a category begins with its lower end."""

    name: str
    least_billions: float
    below_billions: float
    memory_fp16: str
    memory_fp32: str
    examples: str


SIZE_CATEGORIES = (
    SizeCategory("Small", 0, 1, "2-4GB", "4-8GB", "GPT-2 Small, DistilBERT"),
    SizeCategory("Medium", 1, 7, "4-16GB", "8-32GB", "GPT-2 Large, BERT-Large"),
    SizeCategory("Large", 7, 20, "16-40GB", "32-80GB", "GPT-J, Llama-7B"),
    SizeCategory("Extra Large", 20, 70, "40-140GB", "80-280GB", "Llama-65B, GPT-3"),
    SizeCategory("Ultra Large", 70, math.inf, "140GB+", "280GB+", "GPT-4, PaLM"),
)


def gpus_for_inference(parameters_billions: float, precision_bytes: float, gpu_memory_gb: float) -> float:
    """GPUs that the weights alone fill: billions x bytes / gigabytes of one GPU. `whole_gpus` rounds it up.

    Source: Computation Requirements, "GPU Memory Estimation". No KV cache, no engine, nothing the driver keeps.

    >>> gpus_for_inference(70, 2, 80)
    1.75
    """
    refuse_unless(parameters_billions > 0, "parameters_billions", parameters_billions, "a size above zero")
    refuse_unless(precision_bytes > 0, "precision_bytes", precision_bytes, "4 (FP32), 2 (FP16) or 1 (INT8)")
    refuse_unless(gpu_memory_gb > 0, "gpu_memory_gb", gpu_memory_gb, "a memory above zero")
    return parameters_billions * precision_bytes / gpu_memory_gb


def gpus_for_training(parameters_billions: float, precision_bytes: float, gpu_memory_gb: float) -> float:
    """GPUs for training: six times those for inference.

    Source: Computation Requirements, "GPU Memory Estimation". Its six are optimizer states 2, gradients 1,
    activations 1 and buffers 2; the weights themselves are not among them.

    >>> round(gpus_for_training(7, 2, 80), 2)
    1.05
    """
    return TRAINING_MULTIPLIER * gpus_for_inference(parameters_billions, precision_bytes, gpu_memory_gb)


def whole_gpus(gpus: float) -> int:
    """GPUs that can be rented: the next whole number, one at least.

    >>> whole_gpus(1.75), whole_gpus(2.0)
    (2, 2)
    """
    return max(math.ceil(gpus), 1)


def precision_bytes(name: str) -> int:
    """Bytes of one parameter in the seeds' five formats.

    >>> precision_bytes("FP16")
    2
    """
    if name.casefold() not in PRECISION_BYTES:
        raise UnknownName("precision", name, PRECISION_BYTES)
    return PRECISION_BYTES[name.casefold()]


def size_category(parameters_billions: float) -> SizeCategory:
    """The seeds' size class; where two classes share a bound, the larger one has it, as its Llama-7B shows.

    Source: GPU Requirements Assessment, "Model Size Categories".

    >>> size_category(7).name, size_category(6.99).name, size_category(70).name
    ('Large', 'Medium', 'Ultra Large')
    """
    refuse_unless(parameters_billions > 0, "parameters_billions", parameters_billions, "a size above zero")
    return next(row for row in SIZE_CATEGORIES if row.least_billions <= parameters_billions < row.below_billions)
