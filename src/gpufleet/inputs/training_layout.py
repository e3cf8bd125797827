"""Layouts of training as users type them: 'tp=4,pp=2,micro-batch=1', and runs of their own: 'H100:8,tp=2@9800'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpufleet.domain.training_recipes import RECOMPUTES, SHARDINGS
from gpufleet.errors import UnknownName, UsageError
from gpufleet.inputs.gpu_request import GpuRequest, parse_gpus
from gpufleet.questions.training import LARGEST_SIZE
from gpufleet.units import parse_count

RUN = "GPU:N[,NAME=N...]@TOKENS, such as 'H100:8,micro-batch=4@9800' (tokens/s/GPU)"
SIZES = ("tp", "pp", "cp", "ep", "dp", "interleave", "micro-batch")


class MeasuredRun(NamedTuple):
    """A run of one's own: GPUs, the parts of its layout that were said, and tokens per second and GPU."""

    gpus: GpuRequest
    layout: Mapping[str, int]
    tokens_per_s_per_gpu: float


def parse_layout(text: str) -> dict[str, int]:
    """Parts of a layout by name; sharding and recompute are the numbers of `Sharding` and `Recompute`.

    >>> parse_layout("tp=4,recompute=full")
    {'tp': 4, 'recompute': 2}
    """
    found: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, equals, value = (each.strip().lower() for each in part.partition("="))
        if not equals or not value:
            raise UsageError("cannot read a part of the layout", found=part, expected="NAME=N, such as tp=4")
        if name in found:
            raise UsageError("a part of the layout is said twice", found=part)
        found[name] = part_of_layout(name, value)
    return found


def part_of_layout(name: str, value: str) -> int:
    """One part, read."""
    if name == "sharding":
        return int(named_value(value, SHARDINGS, "sharding"))
    if name == "recompute":
        return int(named_value(value, RECOMPUTES, "recomputation"))
    if name not in SIZES:
        raise UnknownName("part of a layout", name, [*SIZES, "sharding", "recompute"])
    size = parse_count(value)
    if size != int(size) or not 1 <= size <= LARGEST_SIZE:
        expected = f"a whole number from 1 to {LARGEST_SIZE:,}"
        raise UsageError(f"{name} of the layout is out of range", found=value, expected=expected)
    return int(size)


def named_value(value: str, known: Mapping[str, int], what: str) -> int:
    """A value by its name."""
    if value not in known:
        raise UnknownName(what, value, known)
    return known[value]


def parse_measured(text: str) -> list[MeasuredRun]:
    """Runs of one's own, one behind the other.

    >>> parse_measured("H100:8,micro-batch=4@9800")[0].tokens_per_s_per_gpu
    9800.0
    """
    return [measured_run(each.strip()) for each in text.split(";") if each.strip()]


def measured_run(text: str) -> MeasuredRun:
    """One run."""
    run, at, rate = text.rpartition("@")
    if not at:
        raise UsageError("cannot read a run of your own", found=text, expected=RUN)
    gpus, _, layout = run.partition(",")
    speed = parse_count(rate.strip(), "tokens per second and GPU")
    return MeasuredRun(parse_gpus(gpus), parse_layout(layout), speed)
