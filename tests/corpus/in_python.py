"""Questions asked in Python: the function of `gpufleet` that a command line means, and its words as keywords."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gpufleet
from gpufleet.ask.side_by_side.words import names_model
from gpufleet.catalog.models import is_shipped_encoder
from gpufleet.cli.verb_words import Takes, questions
from gpufleet.inputs.model_config import is_encoder
from gpufleet.inputs.plan_file import holds_answer, is_service_plan

SHOWN = ("show", "explain")
"""Words of how an answer is shown; of an estimate they are part of the answer."""
ELSEWHERE = {"trace", "workload", "currency", "prices", "max_age", "as_of", "picture"}
FURTHER = {"flips", "why_not", "pareto", "verify", "token_price", "grid"}
"""Words of files and of money as it is shown, and what an answer is asked in Python once it is there."""
DRAWN = ("estimate", "plan/serve")
"""Questions whose pictures show what is part of the answer."""
Said = dict[str, Any]
Ask = Callable[[], Any]


def call_of(path: str, body: Mapping[str, Any]) -> Ask | None:
    """What asks a question of HTTP in Python, standing in the folder of its files; None where no function does."""
    subjects, said = parted(path, body)
    if path.startswith(("plan/", "mix", "regions", "compare")) and said.keys() & (ELSEWHERE | FURTHER):
        return None
    named = ASKED_AS.get(path)
    return None if named is None else named(subjects, said)


def parted(path: str, body: Mapping[str, Any]) -> tuple[list[Any], Said]:
    """What a question is about, and its other words as keywords."""
    subjects: list[Any] = []
    said: Said = {}
    for name, value in body.items():
        word = questions()[path].word(name)
        if word.flag is None:
            subjects.append([typed(each) for each in value] if word.is_list else typed(value))
        elif (path == "estimate" or name not in SHOWN) and (path in DRAWN or word.takes is not Takes.WRITTEN):
            said[name.replace("-", "_")] = typed(value)
    return subjects, said


def typed(value: Any) -> Any:
    """A value as Python's caller writes it: a file by its name, what is given several times with commas."""
    if isinstance(value, list):
        return ",".join(map(typed, value))
    return value["name"] if isinstance(value, dict) else value


def fit(subjects: list[Any], said: Said) -> Ask | None:
    if "all_models" in said or "owned" in said:
        return None
    function = gpufleet.fit_training if "method" in said else gpufleet.fit
    return lambda: function(*subjects, **said)


def estimate(subjects: list[Any], said: Said) -> Ask:
    is_explained = bool({"explain", "roofline", "picture"} & said.keys())
    said = {name: value for name, value in said.items() if name not in ("explain", "roofline", "picture")}
    return lambda: gpufleet.estimate(*subjects, **said, **({"explain": True} if is_explained else {}))


def of_kind(writer: Callable[..., Any], encoder: Callable[..., Any]) -> Callable[[list[Any], Said], Ask | None]:
    """A question whose function depends on the kind of the model; `today` of an encoder is a day in Python."""

    def ask(subjects: list[Any], said: Said) -> Ask | None:
        if not subjects:
            return None
        if not is_encoder(subjects[0], is_shipped_encoder):
            return lambda: writer(*subjects, **said)
        return None if "today" in said else lambda: encoder(*subjects, **said)

    return ask


def regions(subjects: list[Any], said: Said) -> Ask | None:
    if not subjects:
        return None
    is_job = subjects[0].endswith(".json") and holds_answer(subjects[0])
    return lambda: (gpufleet.plan_job_regions if is_job else gpufleet.plan_regions)(*subjects, **said)


def compare(subjects: list[Any], said: Said) -> Ask | None:
    (sides,) = subjects or ([],)
    if len(sides) < 2:
        return None
    if any(map(names_model, sides)):
        return lambda: gpufleet.compare_models(sides, **said)
    if all(side.endswith(".json") for side in sides):
        return lambda: gpufleet.compare_plans(*sides, **said)
    model = said.pop("model", None)
    return None if model is None else lambda: gpufleet.compare(model, *sides, **said)


def spot(subjects: list[Any], said: Said) -> Ask | None:
    if "replay" in said or "fleet" in said:
        return None
    is_service = bool(subjects) and is_service_plan(subjects[0])
    return lambda: (gpufleet.plan_spot_service if is_service else gpufleet.plan_spot)(*subjects, **said)


def schedule(subjects: list[Any], said: Said) -> Ask | None:
    if "job" in said:
        return None
    return lambda: (gpufleet.replay_schedule if "online" in said else gpufleet.plan_schedule)(*subjects, **said)


def alerts(subjects: list[Any], said: Said) -> Ask | None:
    if {"out", "output_tokens", "force", "diff"} & said.keys():
        return None
    return lambda: gpufleet.watch_plan(*subjects, **said)


def deploy(subjects: list[Any], said: Said) -> Ask | None:
    if {"out", "output_tokens", "force", "diff"} & said.keys():
        return None
    return lambda: gpufleet.deploy_plan(*subjects, **said)


def explain(subjects: list[Any], said: Said) -> Ask | None:
    if {"workload", "flips", "check"} & said.keys():
        return None
    return lambda: gpufleet.explain_plan(*subjects, **said)


def about_one(function: Callable[..., Any]) -> Callable[[list[Any], Said], Ask | None]:
    """A question about a model, which a workload file may name instead."""
    return lambda subjects, said: (lambda: function(*subjects, **said)) if subjects else None


def plainly(function: Callable[..., Any]) -> Callable[[list[Any], Said], Ask]:
    return lambda subjects, said: lambda: function(*subjects, **said)


ASKED_AS: Mapping[str, Callable[[list[Any], Said], Ask | None]] = {
    "alerts": alerts,
    "autoscale": plainly(gpufleet.autoscale),
    "compare": compare,
    "deploy": deploy,
    "encode": plainly(gpufleet.estimate_encoder),
    "estimate": estimate,
    "explain": explain,
    "fit": fit,
    "mix": about_one(gpufleet.plan_mix),
    "plan/batch": of_kind(gpufleet.plan_batch, gpufleet.plan_encoder_batch),
    "plan/finetune": about_one(gpufleet.plan_finetune),
    "plan/serve": of_kind(gpufleet.plan_serve, gpufleet.plan_encoder_serve),
    "plan/train": about_one(gpufleet.plan_train),
    "regions": regions,
    "schedule": schedule,
    "simulate": plainly(gpufleet.simulate_serving),
    "spot": spot,
}
