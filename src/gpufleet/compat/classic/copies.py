"""Output tokens a second of GPUs that hold copies of a model, in the copies and the layout that give most."""

from __future__ import annotations

from functools import lru_cache

from gpufleet.api import estimate
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.layout import Layout
from gpufleet.errors import GpufleetError, Infeasible
from gpufleet.layout.enumerate import enumerate_layouts
from gpufleet.optimize.links import GPUS_OF_A_MACHINE, usual_machine
from gpufleet.records import dataclass
from gpufleet.results.base import Figure

INPUT_TOKENS, OUTPUT_TOKENS = 1000, 200


@dataclass(frozen=True)
class Copies:
    """Copies of a model that serve side by side, and the output tokens a second of all of them."""

    number: int
    layout: Layout
    output_tokens_per_s: Figure

    @property
    def label(self) -> str:
        """How it is said: '8 copies of TP2'."""
        return f"{self.number} cop{'y' if self.number == 1 else 'ies'} of {self.layout.label}"


def best_copies(arch: Architecture, precision: str, gpu: Accelerator, gpu_count: int) -> Copies:
    """The copies that give most when their queues never empty; Infeasible says why the largest copy does not fit.

    Copies are independent, so that their rates add; GPUs that are too few for one more copy stay idle.
    """
    found, refused = [], None
    for size in copy_sizes(gpu_count):
        answer = rate_of_copy(arch, precision, gpu.name, usual_machine(gpu), size)
        if isinstance(answer, Copies):
            found.append(times(answer, gpu_count // size))
        else:
            refused = answer
    if found:
        return max(found, key=lambda copies: copies.output_tokens_per_s.value)
    raise refused or Infeasible(f"{arch.name} has no layout on {gpu_count}x {gpu.name}")


def copy_sizes(gpu_count: int) -> list[int]:
    """GPUs that one copy may take, rising: any number inside a machine of eight, powers of two beyond, and all.

    >>> copy_sizes(12)
    [1, 2, 3, 4, 5, 6, 7, 8, 12]
    """
    inside = range(1, min(gpu_count, GPUS_OF_A_MACHINE) + 1)
    powers = [1 << exponent for exponent in range(gpu_count.bit_length())]
    return sorted({*inside, *powers, gpu_count})


@lru_cache(maxsize=4096)
def rate_of_copy(arch: Architecture, precision: str, gpu: str, machine_gpus: int, size: int) -> Copies | GpufleetError:
    """One copy on so many GPUs, with the fewest pipeline stages that a machine allows; or why there is none."""
    layouts = enumerate_layouts(arch, size)
    rows = [layouts.row(index) for index in range(len(layouts))]
    layout = next((x for x in rows if x.devices_per_stage <= machine_gpus), None)
    if layout is None:
        return Infeasible(f"{arch.name} cannot be split over {size}x {gpu}")
    try:
        answer = estimate(
            arch,
            (gpu, size),
            input_tokens=INPUT_TOKENS,
            output_tokens=OUTPUT_TOKENS,
            full_queue=True,
            tp=layout.tp,
            pp=layout.pp,
            ep=layout.ep,
            attention_dp=layout.attention_dp,
            precision=precision,
            launch=False,
        )
    except GpufleetError as error:
        return error
    return Copies(1, layout, answer.output_tokens_per_s)


def times(one: Copies, number: int) -> Copies:
    """So many copies of one."""
    rate = one.output_tokens_per_s
    low, high = (None if end is None else number * end for end in (rate.low, rate.high))
    update = {"value": number * rate.value, "low": low, "high": high}
    return Copies(number, one.layout, rate.model_copy(update=update))
