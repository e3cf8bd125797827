"""The command that starts one replica, for the engines that serve."""

from __future__ import annotations

import math
from collections.abc import Callable

from gpufleet.deploy import sglang, tensorrt_llm, vllm
from gpufleet.deploy.languages import shell_command
from gpufleet.deploy.replica import Replica
from gpufleet.records import dataclass
from gpufleet.results.base import Launch

FRACTION_DIGITS, ROUNDING = 4, 1e-6
VISIBLE_DEVICES = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES"}


@dataclass(frozen=True)
class Dialect:
    """How one engine is told: words in groups, what goes into a file, what flags cannot say; what measures it running.

    `benchmark`: docs.vllm.ai/en/latest/cli (bench), docs.sglang.ai (bench_serving), nvidia.github.io/TensorRT-LLM ("Run
    benchmarking with trtllm-serve"); read 2026-11-29.
    """

    documented: str
    benchmark: str
    words: Callable[[Replica], list[list[str]]]
    notes: Callable[[Replica], list[str]]
    options: Callable[[Replica], str] | None = None
    options_file: str | None = None


DIALECTS = {
    "vllm": Dialect(vllm.DOCUMENTED, "vllm bench serve", vllm.vllm_words, vllm.vllm_notes),
    "sglang": Dialect(sglang.DOCUMENTED, "python -m sglang.bench_serving", sglang.sglang_words, sglang.sglang_notes),
    "tensorrt-llm": Dialect(
        tensorrt_llm.DOCUMENTED,
        "python -m tensorrt_llm.serve.scripts.benchmark_serving",
        tensorrt_llm.tensorrt_llm_words,
        tensorrt_llm.tensorrt_llm_notes,
        tensorrt_llm.tensorrt_llm_options,
        tensorrt_llm.OPTIONS_FILE,
    ),
}


def launch(replica: Replica) -> Launch | None:
    """What starts the replica; None for engines that serve no requests as they come."""
    dialect = DIALECTS.get(replica.engine.name)
    if dialect is None:
        return None
    groups = dialect.words(replica)
    options = dialect.options(replica) if dialect.options else ""
    return Launch(
        engine=f"{replica.engine.title} ({replica.engine.version_era})",
        documented=dialect.documented,
        benchmark=dialect.benchmark,
        command=shell_command(word for group in groups for word in group),
        arguments=[word for group in groups for word in group],
        groups=[len(group) for group in groups],
        options_file=dialect.options_file if options else None,
        options=options or None,
        replicas_per_machine=replica.replicas_per_machine,
        notes=[
            *checkpoint_notes(replica, groups[0][-1]),
            *host_notes(replica),
            *dialect.notes(replica),
            *neighbour_notes(replica),
        ],
    )


def checkpoint_notes(replica: Replica, loaded_from: str) -> list[str]:
    """What must stand in the place of a checkpoint that nobody named."""
    if loaded_from == replica.checkpoint:
        stands = f"{loaded_from} stands for {replica.model}: name your own"
        return [stands] if replica.stands_for_shape else []
    needs = f", stored in {replica.weights.name}," if replica.is_requantised else ""
    return [f"Put the hub id or folder of your checkpoint{needs} in place of {loaded_from}"]


def host_notes(replica: Replica) -> list[str]:
    """The image for machines whose CPU is none of x86, and the version that it begins with."""
    host = replica.host_architecture
    built = [build for build in replica.engine.hosts if build.architecture == host]
    return [f"The machine's CPU is {host}: {build.image} has a build for it from {build.since} on" for build in built]


def neighbour_notes(replica: Replica) -> list[str]:
    """What tells replicas on one machine apart."""
    if replica.replicas_per_machine is None or replica.replicas_per_machine == 1:
        return []
    size, variable = replica.layout.num_devices, VISIBLE_DEVICES.get(replica.vendor)
    first, second = (",".join(str(n) for n in range(k * size, (k + 1) * size)) for k in (0, 1))
    by = f": {variable}={first} before the first, {second} before the next" if variable else ""
    return [f"{replica.replicas_per_machine} replicas share a machine, each with a --port and GPUs of its own{by}"]


def written_fraction(fraction: float) -> float:
    """A memory fraction as it is typed: rounded up, so that no sequence loses its room.

    >>> written_fraction(0.8742310), written_fraction(0.9000000000001)
    (0.8743, 0.9)
    """
    scale = 10.0**FRACTION_DIGITS
    return math.ceil(fraction * scale - ROUNDING) / scale
