"""gpufleet: which GPUs, how many, in what layout, where, at what latency, throughput and cost.

>>> import gpufleet
>>> gpufleet.fit("llama-3.3-70b", "L40S:4", "8k").verdict
'fits'
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gpufleet.api import (
        AutoscaleResult,
        BatchPlan,
        BatchRequest,
        Comparison,
        EncoderBatchPlan,
        EncoderBatchRequest,
        EncoderEstimate,
        EncoderServePlan,
        EncoderServeRequest,
        FinetuneRequest,
        FitResult,
        FleetChanges,
        FleetComparison,
        FleetMix,
        FleetPlan,
        JobRegionPlan,
        JobRegionRequest,
        MixRequest,
        OnlineSchedule,
        PlanChanges,
        RateCurve,
        RegionPlan,
        RegionRequest,
        RequestKind,
        SchedulePlan,
        ServePlan,
        ServeRequest,
        ServingEstimate,
        Simulation,
        SpotPlan,
        SpotServicePlan,
        TrainingEstimate,
        TrainingFit,
        TrainingPlan,
        TrainRequest,
        autoscale,
        compare,
        compare_plans,
        estimate,
        estimate_encoder,
        estimate_training,
        explain_plan,
        fit,
        fit_training,
        plan_batch,
        plan_encoder_batch,
        plan_encoder_serve,
        plan_finetune,
        plan_fleet,
        plan_job_regions,
        plan_mix,
        plan_regions,
        plan_schedule,
        plan_serve,
        plan_spot,
        plan_spot_service,
        plan_train,
        replay_schedule,
        simulate_serving,
    )

__all__ = [
    "AutoscaleResult",
    "BatchPlan",
    "BatchRequest",
    "Comparison",
    "EncoderBatchPlan",
    "EncoderBatchRequest",
    "EncoderEstimate",
    "EncoderServePlan",
    "EncoderServeRequest",
    "FinetuneRequest",
    "FitResult",
    "FleetChanges",
    "FleetComparison",
    "FleetMix",
    "FleetPlan",
    "JobRegionPlan",
    "JobRegionRequest",
    "MixRequest",
    "OnlineSchedule",
    "PlanChanges",
    "RateCurve",
    "RegionPlan",
    "RegionRequest",
    "RequestKind",
    "SchedulePlan",
    "ServePlan",
    "ServeRequest",
    "ServingEstimate",
    "Simulation",
    "SpotPlan",
    "SpotServicePlan",
    "TrainRequest",
    "TrainingEstimate",
    "TrainingFit",
    "TrainingPlan",
    "autoscale",
    "compare",
    "compare_plans",
    "estimate",
    "estimate_encoder",
    "estimate_training",
    "explain_plan",
    "fit",
    "fit_training",
    "plan_batch",
    "plan_encoder_batch",
    "plan_encoder_serve",
    "plan_finetune",
    "plan_fleet",
    "plan_job_regions",
    "plan_mix",
    "plan_regions",
    "plan_schedule",
    "plan_serve",
    "plan_spot",
    "plan_spot_service",
    "plan_train",
    "replay_schedule",
    "simulate_serving",
]


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Public names, loaded when they are first used: `import gpufleet` alone stays light."""
    if name not in __all__:
        raise AttributeError(f"module 'gpufleet' has no attribute {name!r}")
    from gpufleet import api

    return getattr(api, name)
