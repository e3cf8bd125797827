"""The table of questions: a row each, and a row for each shape of an answer. Rows hold names; a test resolves them.

Python's functions, their stub, what an answer can show of itself and the public names come from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Question(NamedTuple):
    """One question: its function in Python, the module of it, the verb that asks it, and the shapes of its answer."""

    function: str
    home: str
    verb: str
    shapes: tuple[str, ...]


class Shape(NamedTuple):
    """What an answer is: its class, the module of it, the page that shows it, and that of its rows for a table."""

    name: str
    home: str
    page: str
    rows: str = ""


QUESTIONS = (
    Question("autoscale", "api.autoscaling", "autoscale", ("AutoscaleResult",)),
    Question("compare", "api.comparisons", "compare", ("Comparison",)),
    Question("compare_models", "ask.side_by_side.find", "compare", ("ModelComparison",)),
    Question("compare_plans", "api.comparisons", "compare", ("Comparison", "FleetComparison")),
    Question("estimate", "api.estimates", "estimate", ("ServingEstimate",)),
    Question("estimate_encoder", "api.encoders", "encode", ("EncoderEstimate",)),
    Question("estimate_training", "api.training_estimates", "plan train", ("TrainingEstimate",)),
    Question("explain_plan", "api.plan_changes", "explain", ("PlanChanges", "FleetChanges")),
    Question("fit", "api.fits", "fit", ("FitResult",)),
    Question("fit_training", "api.training_fits", "fit", ("TrainingFit",)),
    Question("plan_batch", "api.batches", "plan batch", ("BatchPlan",)),
    Question("plan_encoder_batch", "api.encoder_batches", "plan batch", ("EncoderBatchPlan",)),
    Question("plan_encoder_serve", "api.encoder_services", "plan serve", ("EncoderServePlan",)),
    Question("plan_finetune", "api.training", "plan finetune", ("TrainingPlan",)),
    Question("plan_fleet", "api.fleets", "plan serve", ("FleetPlan",)),
    Question("plan_job_regions", "api.job_regions", "regions", ("JobRegionPlan",)),
    Question("plan_mix", "api.mixes", "mix", ("FleetMix",)),
    Question("plan_regions", "api.regions", "regions", ("RegionPlan",)),
    Question("plan_schedule", "api.schedule", "schedule", ("SchedulePlan",)),
    Question("plan_serve", "api.plans", "plan serve", ("ServePlan",)),
    Question("plan_spot", "ask.spot.job", "spot", ("SpotPlan",)),
    Question("plan_spot_service", "ask.spot.service", "spot", ("SpotServicePlan",)),
    Question("plan_train", "api.training", "plan train", ("TrainingPlan",)),
    Question("replay_schedule", "api.online_schedule", "schedule", ("OnlineSchedule",)),
    Question("simulate_serving", "api.simulations", "simulate", ("Simulation",)),
)

SHAPES = {
    shape.name: shape
    for shape in (
        Shape("AutoscaleResult", "results.autoscale", "report.autoscale:autoscale_page"),
        Shape("BatchPlan", "results.batch", "report.decoder_job:batch_page", "report.decoder_job:batch_rows"),
        Shape("Comparison", "results.comparison", "report.comparison:comparison_page"),
        Shape(
            "EncoderBatchPlan",
            "results.encoder_batch",
            "report.encoder_job:batch_page",
            "report.encoder_job:batch_rows",
        ),
        Shape(
            "EncoderEstimate",
            "results.encoder_estimate",
            "report.encoder:encoder_page",
            "report.encoder:encoder_rows_page",
        ),
        Shape(
            "EncoderServePlan",
            "results.encoder_service",
            "report.encoder_service:serve_page",
            "report.encoder_service:serve_rows",
        ),
        Shape("FitResult", "results.fit", "report.fit:fit_page"),
        Shape("FleetChanges", "results.plan_changes", "report.plan_changes:fleet_changes_page"),
        Shape("FleetComparison", "results.comparison", "report.comparison:fleet_comparison_page"),
        Shape("FleetMix", "results.mix", "report.fleet_mix:fleet_mix_page"),
        Shape("FleetPlan", "results.fleet", "report.fleet_plan:fleet_page", "report.fleet_plan:fleet_rows_page"),
        Shape("JobRegionPlan", "results.regions", "report.job_regions:job_regions_page"),
        Shape("ModelComparison", "ask.side_by_side.shape", "ask.side_by_side.page:models_page"),
        Shape("OnlineSchedule", "results.online_schedule", "report.online_schedule:online_page"),
        Shape("PlanChanges", "results.plan_changes", "report.plan_changes:changes_page"),
        Shape("RegionPlan", "results.regions", "report.regions:regions_page"),
        Shape("SchedulePlan", "results.schedule", "report.schedule:schedule_page"),
        Shape("ServePlan", "results.plan", "report.plan:plan_page", "report.plan:plan_rows_page"),
        Shape(
            "ServingEstimate", "results.estimate", "report.estimate:estimate_page", "report.estimate:estimate_rows_page"
        ),
        Shape(
            "Simulation",
            "results.simulation",
            "report.simulation:simulation_page",
            "report.simulation:simulation_rows_page",
        ),
        Shape("SpotPlan", "ask.spot.job_shape", "ask.spot.job_page:spot_page"),
        Shape("SpotServicePlan", "ask.spot.service_shape", "ask.spot.service_page:spot_service_page"),
        Shape("TrainingEstimate", "results.training", "report.training_fit:training_estimate_page"),
        Shape("TrainingFit", "results.training", "report.training_fit:training_fit_page"),
        Shape("TrainingPlan", "results.training", "report.training:training_page", "report.training:training_rows"),
    )
}

REQUESTS = {
    "BatchRequest": "api.batches",
    "EncoderBatchRequest": "api.encoder_batches",
    "EncoderServeRequest": "api.encoder_services",
    "FinetuneRequest": "api.training",
    "JobRegionRequest": "questions.regions",
    "MixRequest": "questions.mix",
    "RateCurve": "domain.rate_curve",
    "RegionRequest": "questions.regions",
    "RequestKind": "questions.fields",
    "ServeRequest": "questions.fields",
    "TrainRequest": "api.training",
}
"""What questions are asked with, and the modules of it."""

HOMES = {
    **REQUESTS,
    **{shape.name: shape.home for shape in SHAPES.values()},
    **{question.function: question.home for question in QUESTIONS},
}
"""The module of every public name."""


def resolved(place: str) -> Any:
    """What a row names: 'report.fit:fit_page'."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"gpufleet.{module}"), name)
