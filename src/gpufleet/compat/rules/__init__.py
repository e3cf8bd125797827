"""The seeds' calculators: their arithmetic and signatures, standard library alone. `answers` sets our model beside."""

from gpufleet.compat.rules.gpus import (
    PRECISION_BYTES,
    SIZE_CATEGORIES,
    TRAINING_MULTIPLIER,
    SizeCategory,
    gpus_for_inference,
    gpus_for_training,
    precision_bytes,
    size_category,
    whole_gpus,
)
from gpufleet.compat.rules.memory import calculate_memory_requirements
from gpufleet.compat.rules.right_size import RIGHT_SIZES, RightSize, right_size
from gpufleet.compat.rules.runtime import (
    SEED_GPUS,
    SEED_WORKLOADS,
    TRAINING_RUNS,
    GPUSpec,
    TrainingRun,
    WorkloadProfile,
    estimate_runtime,
    training_hours,
    weights_read_s,
)
from gpufleet.compat.rules.savings import (
    ENVIRONMENTS,
    Environment,
    cost_after,
    hours_between,
    monthly_cost,
    off_hours_ratio,
    saving_ratio,
)
from gpufleet.compat.rules.scaling import ParallelismStrategy, calculate_multi_gpu_efficiency

__all__ = [
    "ENVIRONMENTS",
    "PRECISION_BYTES",
    "RIGHT_SIZES",
    "SEED_GPUS",
    "SEED_WORKLOADS",
    "SIZE_CATEGORIES",
    "TRAINING_MULTIPLIER",
    "TRAINING_RUNS",
    "Environment",
    "GPUSpec",
    "ParallelismStrategy",
    "RightSize",
    "SizeCategory",
    "TrainingRun",
    "WorkloadProfile",
    "calculate_memory_requirements",
    "calculate_multi_gpu_efficiency",
    "cost_after",
    "estimate_runtime",
    "gpus_for_inference",
    "gpus_for_training",
    "hours_between",
    "monthly_cost",
    "off_hours_ratio",
    "precision_bytes",
    "right_size",
    "saving_ratio",
    "size_category",
    "training_hours",
    "weights_read_s",
    "whole_gpus",
]
