"""Rows of the configs: instances, size classes, precisions, workloads."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.compat.classic.names import Goal, ModelSize, WorkloadType
from gpufleet.units import HOURS_PER_MONTH_SEEDS

DEFAULT_HOURS, DEFAULT_PRECISION = int(HOURS_PER_MONTH_SEEDS), "fp16"


@dataclass(frozen=True)
class GpuInstance:
    """One row of gpu_instances.json; prices are USD per GPU and hour, memory is per GPU, `key` is its name.

    `stands_for` is the instance type behind the row, `filled_from_facts` names fields that the seed does not print.
    """

    key: str
    name: str
    family: str
    gpu_type: str
    vcpus: int
    gpu_memory_gb: float
    gpus_per_instance: int
    compute_tflops: float
    interconnect_type: str
    interconnect_bandwidth_gbps: float
    on_demand_cost_per_hour: float
    spot_cost_per_hour: float
    memory_bandwidth_factor: float
    interconnect_multiplier: float
    description: str
    stands_for: str = ""
    filled_from_facts: tuple[str, ...] = ()


@dataclass(frozen=True)
class SizeClass:
    """One row of model_sizes; `catalog_model` names the real model that stands for it."""

    key: str
    name: str
    description: str
    parameter_count_billion: float
    memory_overhead_multiplier: float | None = None
    typical_use_cases: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    catalog_model: str = ""
    filled_from_facts: tuple[str, ...] = ()
    custom: bool = False


@dataclass(frozen=True)
class PrecisionFormat:
    """One row of precision_formats."""

    key: str
    name: str
    bytes_per_parameter: float
    description: str = ""


@dataclass(frozen=True)
class Scenario:
    """A question in the words of `generate_migration_report`."""

    current_instance: str
    current_gpu_count: int
    workload_type: WorkloadType | str
    model_size: ModelSize | str
    monthly_hours: float = DEFAULT_HOURS
    use_spot: bool = False
    precision: str = DEFAULT_PRECISION
    goal: Goal | str | None = None
    requests_per_s: float | None = None


@dataclass(frozen=True)
class Workload:
    """One row of workloads.json."""

    key: str
    name: str
    scenario: Scenario
    description: str = ""
    expected_outcome: str = ""
    tags: tuple[str, ...] = ()
    custom: bool = False
