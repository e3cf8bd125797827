"""The one facade: load, call, return an answer. Each question has a module of its own, loaded when it is asked.

Answers are read back from their JSON by their own classes: `BatchPlan.model_validate_json(text)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpufleet.api.autoscaling import autoscale
    from gpufleet.api.batches import BatchRequest, plan_batch
    from gpufleet.api.comparisons import compare, compare_plans
    from gpufleet.api.encoder_batches import EncoderBatchRequest, plan_encoder_batch
    from gpufleet.api.encoder_services import EncoderServeRequest, plan_encoder_serve
    from gpufleet.api.encoders import estimate_encoder
    from gpufleet.api.estimates import estimate
    from gpufleet.api.fits import fit
    from gpufleet.api.fleets import plan_fleet
    from gpufleet.api.job_regions import plan_job_regions
    from gpufleet.api.mixes import plan_mix
    from gpufleet.api.online_schedule import replay_schedule
    from gpufleet.api.plan_changes import explain_plan
    from gpufleet.api.plans import plan_serve
    from gpufleet.api.regions import plan_regions
    from gpufleet.api.requests import RequestKind, ServeRequest
    from gpufleet.api.schedule import plan_schedule
    from gpufleet.api.simulations import simulate_serving
    from gpufleet.api.spot import plan_spot
    from gpufleet.api.spot_service import plan_spot_service
    from gpufleet.api.training import FinetuneRequest, TrainRequest, plan_finetune, plan_train
    from gpufleet.api.training_estimates import estimate_training
    from gpufleet.api.training_fits import fit_training
    from gpufleet.domain.rate_curve import RateCurve
    from gpufleet.questions.mix import MixRequest
    from gpufleet.questions.regions import JobRegionRequest, RegionRequest
    from gpufleet.results.autoscale import AutoscaleResult
    from gpufleet.results.batch import BatchPlan
    from gpufleet.results.comparison import Comparison, FleetComparison
    from gpufleet.results.encoder_batch import EncoderBatchPlan
    from gpufleet.results.encoder_estimate import EncoderEstimate
    from gpufleet.results.encoder_service import EncoderServePlan
    from gpufleet.results.estimate import ServingEstimate
    from gpufleet.results.fit import FitResult
    from gpufleet.results.fleet import FleetPlan
    from gpufleet.results.mix import FleetMix
    from gpufleet.results.online_schedule import OnlineSchedule
    from gpufleet.results.plan import ServePlan
    from gpufleet.results.plan_changes import FleetChanges, PlanChanges
    from gpufleet.results.regions import JobRegionPlan, RegionPlan
    from gpufleet.results.schedule import SchedulePlan
    from gpufleet.results.simulation import Simulation
    from gpufleet.results.spot import SpotPlan
    from gpufleet.results.spot_service import SpotServicePlan
    from gpufleet.results.training import TrainingEstimate, TrainingFit, TrainingPlan

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

HOMES = {
    "AutoscaleResult": "results.autoscale",
    "BatchPlan": "results.batch",
    "BatchRequest": "api.batches",
    "Comparison": "results.comparison",
    "EncoderBatchPlan": "results.encoder_batch",
    "EncoderBatchRequest": "api.encoder_batches",
    "EncoderEstimate": "results.encoder_estimate",
    "EncoderServePlan": "results.encoder_service",
    "EncoderServeRequest": "api.encoder_services",
    "FinetuneRequest": "api.training",
    "FitResult": "results.fit",
    "FleetChanges": "results.plan_changes",
    "FleetComparison": "results.comparison",
    "FleetMix": "results.mix",
    "FleetPlan": "results.fleet",
    "JobRegionPlan": "results.regions",
    "JobRegionRequest": "questions.regions",
    "MixRequest": "questions.mix",
    "OnlineSchedule": "results.online_schedule",
    "PlanChanges": "results.plan_changes",
    "RateCurve": "domain.rate_curve",
    "RegionPlan": "results.regions",
    "RegionRequest": "questions.regions",
    "RequestKind": "api.requests",
    "SchedulePlan": "results.schedule",
    "ServePlan": "results.plan",
    "ServeRequest": "api.requests",
    "ServingEstimate": "results.estimate",
    "Simulation": "results.simulation",
    "SpotPlan": "results.spot",
    "SpotServicePlan": "results.spot_service",
    "TrainRequest": "api.training",
    "TrainingEstimate": "results.training",
    "TrainingFit": "results.training",
    "TrainingPlan": "results.training",
    "autoscale": "api.autoscaling",
    "compare": "api.comparisons",
    "compare_plans": "api.comparisons",
    "estimate": "api.estimates",
    "estimate_encoder": "api.encoders",
    "estimate_training": "api.training_estimates",
    "explain_plan": "api.plan_changes",
    "fit": "api.fits",
    "fit_training": "api.training_fits",
    "plan_batch": "api.batches",
    "plan_encoder_batch": "api.encoder_batches",
    "plan_encoder_serve": "api.encoder_services",
    "plan_finetune": "api.training",
    "plan_fleet": "api.fleets",
    "plan_job_regions": "api.job_regions",
    "plan_mix": "api.mixes",
    "plan_regions": "api.regions",
    "plan_schedule": "api.schedule",
    "plan_serve": "api.plans",
    "plan_spot": "api.spot",
    "plan_spot_service": "api.spot_service",
    "plan_train": "api.training",
    "replay_schedule": "api.online_schedule",
    "simulate_serving": "api.simulations",
}


def __getattr__(name: str) -> Any:
    """Public names, loaded when they are first used."""
    if name not in HOMES:
        raise AttributeError(f"module 'gpufleet.api' has no attribute {name!r}")
    return getattr(import_module(f"gpufleet.{HOMES[name]}"), name)
