"""The table of verbs, questions and shapes of answers: a row each. Rows hold names; a test resolves them.

The command line, its help and completion, Python's functions, their stub and their page, the server's routes and forms,
the assistant's tools, what an answer can show of itself and the public names come from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Verb(NamedTuple):
    """A word after `gpufleet`, the module of its `app`, and what it is for in one line."""

    name: str
    module: str
    purpose: str


class Question(NamedTuple):
    """One question: its function in Python, the module of it, the verb that asks it, the shapes of its answer.

    `request` is where the words that the function takes as `said` are.
    """

    function: str
    home: str
    verb: str
    shapes: tuple[str, ...]
    request: str = ""


class Shape(NamedTuple):
    """What an answer is: its class, the module of it, the page that shows it, and that of its rows for a table."""

    name: str
    home: str
    page: str
    rows: str = ""


VERBS = (
    Verb("demo", "gpufleet.cli.demo", "One real question answered step by step, with what to type next"),
    Verb("plan", "gpufleet.cli.plan", "Which machines serve a workload, where and for how much"),
    Verb("mix", "gpufleet.cli.mix", "Machines of several types, and which requests each gets"),
    Verb("regions", "gpufleet.cli.regions", "Where services and jobs run: price, network, residency, carbon"),
    Verb("autoscale", "gpufleet.cli.autoscale", "Which auto-scaling law costs least under a week's traffic"),
    Verb("spot", "gpufleet.cli.spot", "A job done in time on machines that may be taken away"),
    Verb("schedule", "gpufleet.cli.schedule", "When and where jobs run that share GPUs and have deadlines"),
    Verb("compare", "gpufleet.cli.compare", "Models, sets of GPUs or plans side by side: cost, latency, who wins"),
    Verb("explain", "gpufleet.cli.explain", "Makes an old plan again from its file and says what changed"),
    Verb("deploy", "gpufleet.cli.deploy", "Files that start a plan on Kubernetes, EKS, ECS or one machine"),
    Verb("alerts", "gpufleet.cli.alerts", "Rules and dashboards that watch what a plan promises"),
    Verb("fit", "gpufleet.cli.fit", "Whether a model fits GPUs, for how many users, and what would help"),
    Verb("estimate", "gpufleet.cli.estimate", "Latency and throughput of a model on given GPUs"),
    Verb("simulate", "gpufleet.cli.simulate", "Requests replayed one by one: percentiles, queues, what bursts do"),
    Verb("encode", "gpufleet.cli.encode", "Estimates of encoders: text, images, speech (BERT, ViT, Whisper)"),
    Verb("rules", "gpufleet.cli.rules", "Rules of thumb, each compared with our model's own answer"),
    Verb("catalog", "gpufleet.cli.catalog", "GPUs, instance types, models and prices, with sources and dates"),
    Verb("accuracy", "gpufleet.cli.accuracy", "How far predictions are from measurements, published or your own"),
    Verb("calibrate", "gpufleet.cli.calibrate", "Your own runs as factors on what is predicted of your engine"),
    Verb("serve", "gpufleet.web.serve", "These questions over HTTP: forms for people, JSON for programs"),
    Verb("config", "gpufleet.cli.config", "Your preferences, and where each of them is set"),
    Verb("mcp", "gpufleet.mcp.verb", "The questions as tools of an assistant, over standard input"),
    Verb("doctor", "gpufleet.cli.doctor", "What this installation has, how old it is, and what is missing"),
)

NOT_ASKED = ("demo", "config", "doctor", "serve", "mcp", "catalog update")
"""Verbs about this machine, and those that fetch: no questions for a server or an assistant."""

EXAMPLES = (
    "gpufleet plan serve llama-3.3-70b --rate 50/s --in 1000 --out 300",
    "gpufleet fit llama-3.3-70b --gpus L40S:4 --context 8k",
    "gpufleet catalog gpus --min-memory 80GiB",
)

SUCH_AS = {
    "plan serve": "gpufleet plan serve llama-3.3-70b --rate 50/s --in 1000 --out 300",
    "plan batch": "gpufleet plan batch llama-3.1-8b --requests 10M --in 1000 --out 200 --deadline 24h",
    "plan train": "gpufleet plan train llama-3.1-8b --tokens 20B --deadline 30d",
    "plan finetune": "gpufleet plan finetune llama-3.1-8b --method lora --tokens 50M --deadline 24h",
    "compare": "gpufleet compare H100:8 L40S:8 --model llama-3.1-8b --rate 5/s --in 1000 --out 300",
    "fit": "gpufleet fit llama-3.3-70b --gpus L40S:4",
    "estimate": "gpufleet estimate llama-3.1-8b --gpus L40S:1 --in 1000 --out 200 --rate 1/s",
    "simulate": "gpufleet simulate llama-3.1-8b --gpus H100:1 --rate 5/s --in 1000 --out 200",
    "mix": "gpufleet mix llama-3.1-8b --rate 50/s --in 1000 --out 200",
    "regions": "gpufleet regions llama-3.1-8b --rate 50/s --in 1000 --out 200 --users eu=60%,us=40%",
    "spot": "gpufleet spot --work 48h --deadline 72h --machine aws:g5.xlarge",
    "schedule": "gpufleet schedule examples/jobs/lab-week.yaml --at-once",
    "encode": "gpufleet encode bge-base-en-v1.5 --gpus L4 --in 256",
    "accuracy": "gpufleet accuracy measurements/param_counts.csv",
    "calibrate": "gpufleet calibrate examples/benchmarks/qwen3-0.6b-h100.csv",
}
"""A command that works, for each verb that needs words."""

QUESTIONS = (
    Question("autoscale", "api.autoscaling", "autoscale", ("AutoscaleResult",), "questions.autoscale:AutoscaleRequest"),
    Question("calibrate_stack", "accuracy.own_stack.find", "calibrate", ("StackCalibration",)),
    Question("compare", "api.comparisons", "compare", ("Comparison",)),
    Question(
        "compare_models", "ask.side_by_side.find", "compare", ("ModelComparison",), "questions.fields:ServeRequest"
    ),
    Question("compare_plans", "api.comparisons", "compare", ("Comparison", "FleetComparison")),
    Question("deploy_plan", "ask.deploy.find", "deploy", ("DeployedPlan",)),
    Question("estimate", "api.estimates", "estimate", ("ServingEstimate",), "questions.estimate:EstimateRequest"),
    Question("estimate_encoder", "api.encoders", "encode", ("EncoderEstimate",), "questions.encode:EncodeRequest"),
    Question("estimate_training", "api.training_estimates", "plan train", ("TrainingEstimate",)),
    Question("explain_plan", "api.plan_changes", "explain", ("PlanChanges", "FleetChanges")),
    Question("fit", "api.fits", "fit", ("FitResult",), "questions.fit:FitRequest"),
    Question("fit_training", "api.training_fits", "fit", ("TrainingFit",), "questions.fit:TrainingFitRequest"),
    Question("plan_batch", "api.batches", "plan batch", ("BatchPlan",), "questions.fields:BatchRequest"),
    Question(
        "plan_encoder_batch",
        "api.encoder_batches",
        "plan batch",
        ("EncoderBatchPlan",),
        "questions.fields:EncoderBatchRequest",
    ),
    Question(
        "plan_encoder_serve",
        "api.encoder_services",
        "plan serve",
        ("EncoderServePlan",),
        "questions.fields:EncoderServeRequest",
    ),
    Question("plan_finetune", "api.training", "plan finetune", ("TrainingPlan",), "questions.training:FinetuneRequest"),
    Question("plan_fleet", "api.fleets", "plan serve", ("FleetPlan",)),
    Question(
        "plan_job_regions", "api.job_regions", "regions", ("JobRegionPlan",), "questions.regions:JobRegionRequest"
    ),
    Question("plan_mix", "api.mixes", "mix", ("FleetMix",), "questions.mix:MixRequest"),
    Question("plan_regions", "api.regions", "regions", ("RegionPlan",), "questions.regions:RegionRequest"),
    Question("plan_schedule", "api.schedule", "schedule", ("SchedulePlan",), "questions.schedule:ScheduleRequest"),
    Question("plan_serve", "api.plans", "plan serve", ("ServePlan",), "questions.fields:ServeRequest"),
    Question("plan_spot", "ask.spot.job", "spot", ("SpotPlan",), "ask.spot.words:SpotRequest"),
    Question("plan_spot_service", "ask.spot.service", "spot", ("SpotServicePlan",), "ask.spot.words:SpotRequest"),
    Question("plan_train", "api.training", "plan train", ("TrainingPlan",), "questions.training:TrainRequest"),
    Question(
        "replay_schedule", "api.online_schedule", "schedule", ("OnlineSchedule",), "questions.schedule:ScheduleRequest"
    ),
    Question(
        "simulate_serving", "api.simulations", "simulate", ("Simulation",), "questions.simulation:SimulationRequest"
    ),
    Question("watch_plan", "ask.alerts.find", "alerts", ("AlertFiles",)),
)

SHAPES = {
    shape.name: shape
    for shape in (
        Shape("AlertFiles", "ask.alerts.shape", "ask.alerts.page:alerts_page"),
        Shape("AutoscaleResult", "results.autoscale", "report.autoscale:autoscale_page"),
        Shape("BatchPlan", "results.job", "report.decoder_job:batch_page", "report.decoder_job:batch_rows"),
        Shape("Comparison", "results.comparison", "report.comparison:comparison_page"),
        Shape("DeployedPlan", "ask.deploy.shape", "ask.deploy.page:deployed_page"),
        Shape(
            "EncoderBatchPlan",
            "results.encoders",
            "report.encoder_job:batch_page",
            "report.encoder_job:batch_rows",
        ),
        Shape(
            "EncoderEstimate",
            "results.encoders",
            "report.encoder:encoder_page",
            "report.encoder:encoder_rows_page",
        ),
        Shape(
            "EncoderServePlan",
            "results.encoders",
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
        Shape("OnlineSchedule", "results.schedule", "report.online_schedule:online_page"),
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
        Shape("StackCalibration", "accuracy.own_stack.shape", "accuracy.own_stack.page:stack_page"),
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
