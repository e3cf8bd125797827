# made from the table of questions: python -m tools.stub
from gpufleet import AlertFiles as AlertFiles
from gpufleet import AutoscaleResult as AutoscaleResult
from gpufleet import BatchPlan as BatchPlan
from gpufleet import BatchRequest as BatchRequest
from gpufleet import Comparison as Comparison
from gpufleet import DeployedPlan as DeployedPlan
from gpufleet import EncoderBatchPlan as EncoderBatchPlan
from gpufleet import EncoderBatchRequest as EncoderBatchRequest
from gpufleet import EncoderEstimate as EncoderEstimate
from gpufleet import EncoderServePlan as EncoderServePlan
from gpufleet import EncoderServeRequest as EncoderServeRequest
from gpufleet import FinetuneRequest as FinetuneRequest
from gpufleet import FitResult as FitResult
from gpufleet import FleetChanges as FleetChanges
from gpufleet import FleetComparison as FleetComparison
from gpufleet import FleetMix as FleetMix
from gpufleet import FleetPlan as FleetPlan
from gpufleet import JobRegionPlan as JobRegionPlan
from gpufleet import JobRegionRequest as JobRegionRequest
from gpufleet import MixRequest as MixRequest
from gpufleet import ModelComparison as ModelComparison
from gpufleet import OnlineSchedule as OnlineSchedule
from gpufleet import PlanChanges as PlanChanges
from gpufleet import RateCurve as RateCurve
from gpufleet import RegionPlan as RegionPlan
from gpufleet import RegionRequest as RegionRequest
from gpufleet import RequestKind as RequestKind
from gpufleet import SchedulePlan as SchedulePlan
from gpufleet import ServePlan as ServePlan
from gpufleet import ServeRequest as ServeRequest
from gpufleet import ServingEstimate as ServingEstimate
from gpufleet import Simulation as Simulation
from gpufleet import SpotPlan as SpotPlan
from gpufleet import SpotServicePlan as SpotServicePlan
from gpufleet import StackCalibration as StackCalibration
from gpufleet import TrainRequest as TrainRequest
from gpufleet import TrainingEstimate as TrainingEstimate
from gpufleet import TrainingFit as TrainingFit
from gpufleet import TrainingPlan as TrainingPlan
from gpufleet import autoscale as autoscale
from gpufleet import calibrate_stack as calibrate_stack
from gpufleet import compare as compare
from gpufleet import compare_models as compare_models
from gpufleet import compare_plans as compare_plans
from gpufleet import deploy_plan as deploy_plan
from gpufleet import estimate as estimate
from gpufleet import estimate_encoder as estimate_encoder
from gpufleet import estimate_training as estimate_training
from gpufleet import explain_plan as explain_plan
from gpufleet import fit as fit
from gpufleet import fit_training as fit_training
from gpufleet import plan_batch as plan_batch
from gpufleet import plan_encoder_batch as plan_encoder_batch
from gpufleet import plan_encoder_serve as plan_encoder_serve
from gpufleet import plan_finetune as plan_finetune
from gpufleet import plan_fleet as plan_fleet
from gpufleet import plan_job_regions as plan_job_regions
from gpufleet import plan_mix as plan_mix
from gpufleet import plan_regions as plan_regions
from gpufleet import plan_schedule as plan_schedule
from gpufleet import plan_serve as plan_serve
from gpufleet import plan_spot as plan_spot
from gpufleet import plan_spot_service as plan_spot_service
from gpufleet import plan_train as plan_train
from gpufleet import replay_schedule as replay_schedule
from gpufleet import simulate_serving as simulate_serving
from gpufleet import watch_plan as watch_plan

__all__ = [
    "AlertFiles",
    "AutoscaleResult",
    "BatchPlan",
    "BatchRequest",
    "Comparison",
    "DeployedPlan",
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
    "StackCalibration",
    "TrainRequest",
    "TrainingEstimate",
    "TrainingFit",
    "TrainingPlan",
    "autoscale",
    "calibrate_stack",
    "compare",
    "compare_models",
    "compare_plans",
    "deploy_plan",
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
    "watch_plan",
]
