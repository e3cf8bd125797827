"""The classic arithmetic: memory, cost and relative speed of a setup, as the seeds compute them."""

from __future__ import annotations

import math

from gpufleet.compat.classic.config import Config
from gpufleet.compat.classic.names import WorkloadType
from gpufleet.compat.classic.records import GpuInstance, PrecisionFormat, SizeClass
from gpufleet.records import dataclass

ROUNDING = 9


@dataclass(frozen=True)
class Setup:
    """GPUs of one instance type for a number of hours a month, on demand or on spot capacity."""

    instance: GpuInstance
    gpu_count: int
    monthly_hours: float
    use_spot: bool = False

    @property
    def label(self) -> str:
        """How it is called: '2x P5'."""
        return f"{self.gpu_count}x {self.instance.key}"

    @property
    def memory_gb(self) -> float:
        """Memory of all GPUs."""
        return self.gpu_count * self.instance.gpu_memory_gb

    @property
    def machines(self) -> int:
        """Whole instances that hold these GPUs."""
        return math.ceil(self.gpu_count / self.instance.gpus_per_instance)

    @property
    def on_demand_usd(self) -> float:
        """USD a month on demand."""
        return monthly_cost_usd(self.instance.on_demand_cost_per_hour, self.gpu_count, self.monthly_hours)

    @property
    def spot_usd(self) -> float:
        """USD a month on spot capacity."""
        return monthly_cost_usd(self.instance.spot_cost_per_hour, self.gpu_count, self.monthly_hours)

    @property
    def monthly_usd(self) -> float:
        """USD a month as it is bought."""
        return self.spot_usd if self.use_spot else self.on_demand_usd

    @property
    def speed(self) -> float:
        """Relative speed, comparable between setups."""
        return relative_speed(self.instance, self.gpu_count)


def monthly_cost_usd(usd_per_hour: float, gpu_count: int, hours: float) -> float:
    """Printed price x number of GPUs x hours, as the seeds' table 'for 1 GPU @ 720 hours'. [USD]

    >>> monthly_cost_usd(50.0, 1, 720)
    36000.0
    """
    return usd_per_hour * gpu_count * hours


def monthly_saving_usd(today: Setup, option: Setup) -> float:
    """USD a month that `option` saves against `today`; negative where it costs more."""
    return today.monthly_usd - option.monthly_usd


def relative_speed(instance: GpuInstance, gpu_count: int) -> float:
    """TFLOPS x memory factor x number of GPUs, and x the interconnect multiplier where there are several.

    The memory factor makes it a roofline at 256 FLOP per byte. A ratio of two speeds means something, a speed alone
    does not.
    """
    link = instance.interconnect_multiplier if gpu_count > 1 else 1.0
    return instance.compute_tflops * instance.memory_bandwidth_factor * link * gpu_count


def model_size_gb(size: SizeClass, precision: PrecisionFormat) -> float:
    """Parameters x bytes; 1e9 parameters of one byte are 1 GB. Whole numbers stay whole."""
    exact = round(size.parameter_count_billion * precision.bytes_per_parameter, ROUNDING)
    return int(exact) if exact == int(exact) else exact


def overhead(config: Config, size: SizeClass, work: WorkloadType) -> float:
    """What the weights are multiplied by: for training and fine-tuning the size's own multiplier where it has one."""
    own = size.memory_overhead_multiplier
    if work is WorkloadType.INFERENCE or own is None:
        return config.overheads[work.value]
    return own


def memory_needed_gb(config: Config, size: SizeClass, precision: PrecisionFormat, work: WorkloadType) -> float:
    """Model size x overhead. [GB]"""
    return round(model_size_gb(size, precision) * overhead(config, size, work), ROUNDING)


def gpus_needed(needed_gb: float, instance: GpuInstance) -> int:
    """The smallest number of GPUs whose memory holds it."""
    return max(1, math.ceil(round(needed_gb / instance.gpu_memory_gb, ROUNDING)))
