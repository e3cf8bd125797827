"""Runtime by the seeds' roofline: the slower of arithmetic and memory, one efficiency for everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from gpufleet.compat.rules.plausible import refuse_unless
from gpufleet.units import GIGA, HOUR, KILO, TERA

FLOP_PER_PARAMETER_INFERENCE, FLOP_PER_PARAMETER_TRAINING = 2, 6


@dataclass
class GPUSpec:
    """A GPU as the seeds describe one; `memory_bandwidth_gbps` is gigabytes per second, whatever its name says."""

    name: str
    fp32_tflops: float
    fp16_tflops: float
    memory_gb: float
    memory_bandwidth_gbps: float
    tdp_watts: float
    cost_per_hour: float


@dataclass
class WorkloadProfile:
    """Work to be done: all its operations, all the gigabytes it moves, and 'fp16' or 'fp32'."""

    total_flops: float
    memory_accessed_gb: float
    precision: str


class TrainingRun(NamedTuple):
    """A row of "Training Performance": `hours` are those that it prints for 100M tokens."""

    model: str
    gpu: str
    num_gpus: int
    tokens_per_s: float
    hours: float


TRAINING_RUNS = (
    TrainingRun("GPT-2 Small", "T4", 1, 2500, 11),
    TrainingRun("GPT-2 Large", "V100", 1, 1200, 23),
    TrainingRun("GPT-J 6B", "A100 40GB", 1, 800, 35),
    TrainingRun("Llama-7B", "A100 40GB", 1, 600, 46),
    TrainingRun("Llama-65B", "A100 80GB", 8, 400, 69),
)
SEED_GPUS = {
    "consumer": GPUSpec("Consumer 24GB", 35, 70, 24, 900, 350, 1.50),
    "datacenter": GPUSpec("Datacenter 80GB", 20, 300, 80, 2000, 400, 8.00),
}
DECIMALS = {
    "compute_time_sec": 2, "memory_time_sec": 2, "actual_time_sec": 2, "compute_utilization": 2, "cost_usd": 2,
    "energy_kwh": 3,
}  # fmt: skip
SEED_WORKLOADS = {
    "inference": WorkloadProfile(7e9 * FLOP_PER_PARAMETER_INFERENCE * 1000, 14, "fp16"),  # not a conversion
    "training": WorkloadProfile(7e9 * FLOP_PER_PARAMETER_TRAINING * 10000, 280, "fp16"),
}


def estimate_runtime(gpu: GPUSpec, workload: WorkloadProfile, efficiency: float = 0.6) -> dict[str, Any]:
    """Seconds, dollars and kilowatt-hours of a workload by the seeds' rule of thumb.

    time = max(flop / (efficiency x peak flop/s), gigabytes / (gigabytes/s))
    cost = hours x price; energy = hours x watts / 1000. Rounded to two decimals, energy to three.

    Any precision but 'fp16' is counted at the FP32 rate, as in the seed.
    Source: GPU Infrastructure & Computational Requirements, "Compute Architecture".

    >>> estimate_runtime(SEED_GPUS["datacenter"], SEED_WORKLOADS["training"])["actual_time_sec"]
    2.33
    """
    exact = unrounded_runtime(gpu, workload, efficiency)
    return {name: value if isinstance(value, str) else round(value, DECIMALS[name]) for name, value in exact.items()}


def unrounded_runtime(gpu: GPUSpec, workload: WorkloadProfile, efficiency: float = 0.6) -> dict[str, Any]:
    """The same before rounding, which makes nothing of what takes a moment.

    >>> print(f"${unrounded_runtime(SEED_GPUS['datacenter'], SEED_WORKLOADS['inference'])['cost_usd']:.6f}")
    $0.000173
    """
    _refuse_nonsense(gpu, workload, efficiency)
    tflops = gpu.fp16_tflops if workload.precision == "fp16" else gpu.fp32_tflops
    achievable_tflops = tflops * efficiency
    compute_time_seconds = workload.total_flops / (achievable_tflops * TERA)
    memory_time_seconds = workload.memory_accessed_gb / gpu.memory_bandwidth_gbps
    actual_time = max(compute_time_seconds, memory_time_seconds)
    cost = (actual_time / HOUR) * gpu.cost_per_hour
    energy_kwh = (actual_time / HOUR) * (gpu.tdp_watts / KILO)
    return {
        "compute_time_sec": compute_time_seconds,
        "memory_time_sec": memory_time_seconds,
        "actual_time_sec": actual_time,
        "bottleneck": "compute" if compute_time_seconds > memory_time_seconds else "memory",
        "compute_utilization": compute_time_seconds / actual_time,
        "cost_usd": cost,
        "energy_kwh": energy_kwh,
    }


def training_hours(tokens: float, tokens_per_s: float) -> float:
    """Hours to train on so many tokens at a steady rate: tokens / rate / 3600.

    Source: GPU Requirements Assessment, "Training Performance" (100M tokens).

    >>> round(training_hours(100e6, 2500))
    11
    """
    refuse_unless(tokens > 0, "tokens", tokens, "a positive number of tokens")
    refuse_unless(tokens_per_s > 0, "tokens_per_s", tokens_per_s, "a positive rate")
    return tokens / tokens_per_s / HOUR


def weights_read_s(num_parameters: float, precision_bytes: float, bandwidth_gb_per_s: float) -> float:
    """Seconds to read all weights once: the floor of a decode step at any batch. [s]

    Source: GPU Infrastructure & Computational Requirements, "Real Constraints" (13B, FP16, 900 GB/s).

    >>> round(weights_read_s(13e9, 2, 900), 4)
    0.0289
    """
    refuse_unless(bandwidth_gb_per_s > 0, "bandwidth", bandwidth_gb_per_s, "gigabytes per second above zero")
    return num_parameters * precision_bytes / (bandwidth_gb_per_s * GIGA)


def _refuse_nonsense(gpu: GPUSpec, workload: WorkloadProfile, efficiency: float) -> None:
    refuse_unless(0 < efficiency <= 1, "efficiency", efficiency, "a share above 0 and at most 1")
    for name in ("fp32_tflops", "fp16_tflops", "memory_bandwidth_gbps"):
        refuse_unless(getattr(gpu, name) > 0, f"{name} of {gpu.name}", getattr(gpu, name), "a rate above zero")
    refuse_unless(workload.total_flops >= 0, "total_flops", workload.total_flops, "operations, zero or more")
    moved = workload.memory_accessed_gb
    refuse_unless(moved >= 0, "memory_accessed_gb", moved, "gigabytes, zero or more")
    refuse_unless(workload.total_flops + moved > 0, "the workload", 0, "operations or memory traffic")
