"""Which real model and which real GPU stand for the numbers that a rule is given."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

from gpufleet.architecture.flops import flop_per_token
from gpufleet.architecture.parameters import num_parameters, weights_bytes
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.query import resolve_gpu
from gpufleet.compat.rules_today.questions import GpusQuestion, MemoryQuestion, RuntimeQuestion
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision_labels import weight_format
from gpufleet.errors import UsageError
from gpufleet.inputs.model_config import read_model
from gpufleet.questions.words import filled
from gpufleet.units import GB, GIGA, PERCENT, parse_count

LADDER = (
    "gpt2", "qwen2.5-0.5b", "gpt2-large", "tinyllama-1.1b", "qwen3-1.7b", "llama-3.2-3b", "gpt-j-6b", "llama-2-7b",
    "llama-3.1-8b", "llama-2-13b", "mistral-small-24b-2501", "qwen2.5-32b", "codellama-34b", "llama-30b",
    "deepseek-llm-67b", "llama-2-70b", "falcon-180b", "llama-3.1-405b",
)  # fmt: skip
SINGLE_GPUS = ("T4", "A10G", "A100-40GB", "L40S", "A100-80GB", "H200", "B200")
FAR_RATIO = 1.25
PASSES_OF_A_STEP = 3
LEAST_PARAMETERS, MOST_PARAMETERS = 1e6, 1e14


Sized = TypeVar("Sized", MemoryQuestion, RuntimeQuestion, GpusQuestion)


class StandIn(NamedTuple):
    """A model that answers for a parameter count, and what is to be said about it."""

    asked: str
    architecture: Architecture
    parameters: int
    note: str

    def weights_bytes(self, precision: str) -> float:
        """Bytes of its checkpoint in a precision, as `gpufleet fit` counts them."""
        return checkpoint_bytes(self.architecture, precision)


def model_of(name: str | None, parameters: float) -> StandIn:
    """The named model, or the dense decoder of the ladder that is nearest in parameters, as a ratio."""
    if name is not None:
        arch = read_model(name, shipped_architecture)
        return StandIn(name, arch, num_parameters(arch), f"Our figures are those of {said(arch)}.")
    known = [shipped_architecture(step) for step in LADDER]
    arch = min(known, key=lambda a: abs(math.log(num_parameters(a) / parameters)))
    ratio = num_parameters(arch) / parameters
    note = f"{said(arch)} stands for {parameters / GIGA:,.3g}B; '--model NAME' names another."
    if not 1 / FAR_RATIO <= ratio <= FAR_RATIO:
        note += f" It has {ratio:.2g} times the parameters: no nearer model is on the list."
    return StandIn(arch.name, arch, num_parameters(arch), note)


def sized(q: Sized) -> Sized:
    """The question with a size that was said without its option, '7B' or 'llama-3.1-8b', and a model's parameters."""
    if q.size is not None:
        is_count = q.size[:1].isdigit()
        word = "parameters" if is_count else "model"
        if word in q.said:
            raise UsageError("the size is said twice", found=f"{q.size} and --{word}", expected="one of them")
        q = filled(q, **{word: parse_count(q.size) if is_count else q.size})
    if q.model is None or "parameters" in q.said:
        return q
    return filled(q, parameters=parameters_of(q.model))


def parameters_of(model: str) -> float:
    """Parameters of a named model, exact."""
    return float(num_parameters(read_model(model, shipped_architecture)))


def checkpoint_bytes(arch: Architecture, precision: str) -> float:
    """Bytes of a model's checkpoint in a precision."""
    return weights_bytes(arch, weight_format(arch, precision))


def training_flop_per_token(arch: Architecture) -> float:
    """FLOP to train on one token without its attention scores: forward once, backward twice. [FLOP]"""
    return PASSES_OF_A_STEP * float(flop_per_token(arch, 0.0).total)


def said(arch: Architecture) -> str:
    """A model with its exact size."""
    return f"{arch.name} ({num_parameters(arch) / GIGA:,.2f}B)"


def gpu_of_memory(tables: Catalog, memory_gb: float) -> Accelerator:
    """The GPU of that marketed memory that the seeds would mean, or the nearest above; the largest where none is."""
    known = [resolve_gpu(tables, name).accelerator for name in SINGLE_GPUS]
    enough = [gpu for gpu in known if gpu.marketed_memory_gb >= memory_gb]
    return min(enough, key=lambda gpu: gpu.marketed_memory_gb, default=known[-1])


def memory_note(gpu: Accelerator, memory_gb: float) -> str | None:
    """How far the stand-in is from the memory that was asked for."""
    if abs(gpu.marketed_memory_gb - memory_gb) * PERCENT <= memory_gb:
        return f"{gpu.name} stands for a GPU of {memory_gb:g} GB; '--gpu NAME' names another."
    return (
        f"No GPU of {memory_gb:g} GB is on the list: {gpu.name} ({gpu.memory_bytes / GB:.0f} GB) stands for it; "
        "'--gpu NAME' names another."
    )


def billions(parameters: float) -> float:
    """Parameters in billions; refuses what no model has."""
    if not LEAST_PARAMETERS <= parameters <= MOST_PARAMETERS:
        expected = "from 1M to 100,000B, such as 7B or 350M"
        raise UsageError("not a number of parameters", found=f"{parameters:,.6g}", expected=expected)
    return parameters / GIGA
