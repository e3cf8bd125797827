"""GPU memory by the seeds' formula, which knows a parameter count and no architecture."""

from __future__ import annotations

import math
from typing import NamedTuple

from gpufleet.compat.rules.plausible import refuse_unless
from gpufleet.units import GIB

ACTIVATIONS_PER_WEIGHT_BYTE = 4
REFERENCE_SEQUENCE_TOKENS = 2048
LAYERS_PER_DECADE = 8
PARAMETERS_PER_HIDDEN_SQUARED = 12
SPARE_MEMORY_RATIO = 1.2


class Shape(NamedTuple):
    """Layers and hidden width that the seeds read out of a parameter count; neither is whole."""

    num_layers: float
    hidden_dim: float


def calculate_memory_requirements(
    num_parameters: int,
    precision_bytes: float,
    batch_size: int,
    sequence_length: int,
    training: bool = False,
) -> dict[str, float]:
    """GPU memory of a language model by the seeds' rule of thumb; keys say GB and hold GiB, as in the seed.

    weights     = parameters x bytes / 2^30
    activations = 4 x weights x batch x tokens / 2048
    gradients   = weights, optimizer states = 2 x weights (training alone)
    KV cache    = 2 x layers x hidden x tokens x batch x bytes / 2^30, by the layers and width of `guessed_shape`
    recommended = 1.2 x the sum of all; each figure is rounded to two decimals

    Source: GPU Infrastructure & Computational Requirements, "GPU Memory Hierarchy and Bandwidth".
    Known fault: activations of inference grow with batch x tokens without end, as no engine's do.

    >>> calculate_memory_requirements(7_000_000_000, 2, 4, 2048)["recommended_gpu_memory_gb"]
    273.84
    """
    _refuse_nonsense(num_parameters, precision_bytes, batch_size, sequence_length)
    model_memory = (num_parameters * precision_bytes) / int(GIB)
    activation_memory = (
        model_memory * ACTIVATIONS_PER_WEIGHT_BYTE * batch_size * sequence_length
    ) / REFERENCE_SEQUENCE_TOKENS
    gradient_memory = model_memory if training else 0
    optimizer_memory = model_memory * 2 if training else 0
    num_layers, hidden_dim = guessed_shape(num_parameters)
    kv_cache = (2 * num_layers * hidden_dim * sequence_length * batch_size * precision_bytes) / int(GIB)
    total = model_memory + activation_memory + gradient_memory + optimizer_memory + kv_cache
    return {
        "model_weights_gb": round(model_memory, 2),
        "activations_gb": round(activation_memory, 2),
        "gradients_gb": round(gradient_memory, 2),
        "optimizer_states_gb": round(optimizer_memory, 2),
        "kv_cache_gb": round(kv_cache, 2),
        "total_gb": round(total, 2),
        "recommended_gpu_memory_gb": round(total * SPARE_MEMORY_RATIO, 2),
    }


def guessed_shape(num_parameters: float) -> Shape:
    """The seeds' guess: 8 layers a decade of parameters, and the width that leaves 12 x layers x width^2 of them.

    >>> [round(guess) for guess in guessed_shape(7e9)]
    [79, 2721]
    """
    num_layers = math.log(num_parameters, 10) * LAYERS_PER_DECADE
    return Shape(num_layers, (num_parameters / (num_layers * PARAMETERS_PER_HIDDEN_SQUARED)) ** 0.5)


def _refuse_nonsense(num_parameters: float, precision_bytes: float, batch_size: float, sequence_length: float) -> None:
    refuse_unless(num_parameters > 1, "num_parameters", num_parameters, "more than one parameter")
    refuse_unless(precision_bytes > 0, "precision_bytes", precision_bytes, "4 (FP32), 2 (FP16) or 1 (INT8)")
    refuse_unless(batch_size > 0, "batch_size", batch_size, "at least one sequence")
    refuse_unless(sequence_length > 0, "sequence_length", sequence_length, "at least one token")
