# made from the table of questions: python -m tools.stub
from gpufleet.api.autoscaling import autoscale as autoscale
from gpufleet.api.batches import BatchRequest as BatchRequest
from gpufleet.api.batches import plan_batch as plan_batch
from gpufleet.api.comparisons import compare as compare
from gpufleet.api.comparisons import compare_plans as compare_plans
from gpufleet.api.encoder_batches import EncoderBatchRequest as EncoderBatchRequest
from gpufleet.api.encoder_batches import plan_encoder_batch as plan_encoder_batch
from gpufleet.api.encoder_services import EncoderServeRequest as EncoderServeRequest
from gpufleet.api.encoder_services import plan_encoder_serve as plan_encoder_serve
from gpufleet.api.encoders import estimate_encoder as estimate_encoder
from gpufleet.api.estimates import estimate as estimate
from gpufleet.api.fits import fit as fit
from gpufleet.api.fleets import plan_fleet as plan_fleet
from gpufleet.api.job_regions import plan_job_regions as plan_job_regions
from gpufleet.api.mixes import plan_mix as plan_mix
from gpufleet.api.online_schedule import replay_schedule as replay_schedule
from gpufleet.api.plan_changes import explain_plan as explain_plan
from gpufleet.api.plans import plan_serve as plan_serve
from gpufleet.api.regions import plan_regions as plan_regions
from gpufleet.api.schedule import plan_schedule as plan_schedule
from gpufleet.api.simulations import simulate_serving as simulate_serving
from gpufleet.api.training import FinetuneRequest as FinetuneRequest
from gpufleet.api.training import TrainRequest as TrainRequest
from gpufleet.api.training import plan_finetune as plan_finetune
from gpufleet.api.training import plan_train as plan_train
from gpufleet.api.training_estimates import estimate_training as estimate_training
from gpufleet.api.training_fits import fit_training as fit_training
from gpufleet.ask.side_by_side.find import compare_models as compare_models
from gpufleet.ask.side_by_side.shape import ModelComparison as ModelComparison
from gpufleet.ask.spot.job import plan_spot as plan_spot
from gpufleet.ask.spot.job_shape import SpotPlan as SpotPlan
from gpufleet.ask.spot.service import plan_spot_service as plan_spot_service
from gpufleet.ask.spot.service_shape import SpotServicePlan as SpotServicePlan
from gpufleet.domain.rate_curve import RateCurve as RateCurve
from gpufleet.questions.fields import RequestKind as RequestKind
from gpufleet.questions.fields import ServeRequest as ServeRequest
from gpufleet.questions.mix import MixRequest as MixRequest
from gpufleet.questions.regions import JobRegionRequest as JobRegionRequest
from gpufleet.questions.regions import RegionRequest as RegionRequest
from gpufleet.results.autoscale import AutoscaleResult as AutoscaleResult
from gpufleet.results.batch import BatchPlan as BatchPlan
from gpufleet.results.comparison import Comparison as Comparison
from gpufleet.results.comparison import FleetComparison as FleetComparison
from gpufleet.results.encoder_batch import EncoderBatchPlan as EncoderBatchPlan
from gpufleet.results.encoder_estimate import EncoderEstimate as EncoderEstimate
from gpufleet.results.encoder_service import EncoderServePlan as EncoderServePlan
from gpufleet.results.estimate import ServingEstimate as ServingEstimate
from gpufleet.results.fit import FitResult as FitResult
from gpufleet.results.fleet import FleetPlan as FleetPlan
from gpufleet.results.mix import FleetMix as FleetMix
from gpufleet.results.online_schedule import OnlineSchedule as OnlineSchedule
from gpufleet.results.plan import ServePlan as ServePlan
from gpufleet.results.plan_changes import FleetChanges as FleetChanges
from gpufleet.results.plan_changes import PlanChanges as PlanChanges
from gpufleet.results.regions import JobRegionPlan as JobRegionPlan
from gpufleet.results.regions import RegionPlan as RegionPlan
from gpufleet.results.schedule import SchedulePlan as SchedulePlan
from gpufleet.results.simulation import Simulation as Simulation
from gpufleet.results.training import TrainingEstimate as TrainingEstimate
from gpufleet.results.training import TrainingFit as TrainingFit
from gpufleet.results.training import TrainingPlan as TrainingPlan

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
    "ModelComparison",
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
    "compare_models",
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
