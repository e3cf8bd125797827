"""Plans that were written with `-o json`, read again: of services, and of jobs of training or of any model.

What a plan says of itself twice has to agree: a file in which the two differ was edited, or was never ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.errors import UsageError
from gpufleet.files import is_file, read_start
from gpufleet.inputs.json_text import read_json
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.results.base import SCHEMA_VERSION
from gpufleet.results.encoders import EncoderBatchPlan
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.job import BatchPlan, JobPlan, RentedJob
from gpufleet.results.mix import FleetMix
from gpufleet.results.plan import PlanBasis, ServePlan, ServicePlan
from gpufleet.results.rented import RentedMachines
from gpufleet.results.seal import SEAL, Sealed, unlike_its_seal
from gpufleet.results.training import TrainingDeployment, TrainingPlan
from gpufleet.units import MB

WHAT, LARGEST_BYTES = "a plan", 20 * MB
PLAN_AGAIN = "--edited plans its question again."
EXPECTED = "what 'gpufleet plan serve ... -o json' writes of models that write"
SCALING, EXPECTED_OF_SCALING = "an answer of autoscale", "what 'gpufleet autoscale ... -o json' writes"
JOB, PLAN_JOB_AGAIN = "a plan of a job", "Plan the job again, with -o json."
OF_JOBS = "what 'gpufleet plan train', 'plan finetune' or 'plan batch' writes with -o json"
OF_ANY = f"{OF_JOBS}, or 'plan serve'"
MIX, OF_MIX, MIX_AGAIN = "a mix", "what 'gpufleet mix -o json' writes", "Plan the mix again, with -o json."
OF_MIXES = {"services", "routes", "copies"}
ANSWERED = b'"schema_version"'
OF_A_JOB = frozenset({"deadline_s", "deployments", "startup_s"})
OF_TRAINING, OF_ENCODERS = "num_trained_parameters", "inputs_per_request"
OF_SERVICES = ({"rate_requests_per_s", "objectives"}, {"plans"})
OF_SCALING, SCALE_AGAIN = frozenset({"plays", "recommendation", "machine"}), "Run autoscale again, with -o json."
OTHER_ANSWERS = {
    ("laws of scaling", "AutoscaleResult"): OF_SCALING,
    ("a mix of machines", "FleetMix"): OF_MIXES,
    ("the plan of a training run", "TrainingPlan"): {"deadline_s", "num_trained_parameters"},
    ("a fit of training", "TrainingFit"): {"largest", "num_trained_parameters"},
    ("the plan of an encoder's batch job", "EncoderBatchPlan"): {"deadline_s", "unit"},
    ("the plan of a batch job", "BatchPlan"): {"deadline_s"},
    ("the plan of an encoder's service", "EncoderServePlan"): {"rate_requests_per_s", "unit"},
    ("the estimate of an encoder", "EncoderEstimate"): {"unit", "latency_s"},
}
WITHOUT_SEAL = "does not say whether it was edited: an older release wrote it, or other than with -o json"
CLOSE_RATIO, MOST_NAMED = 1e-6, 3
AT_LEAST_ONE = ("instance_count", "replicas", "gpus_per_replica", "gpus_per_instance")
NOT_NEGATIVE = ("price_per_instance_usd_per_hour", "usd_per_hour", "idle_gpus", "batch", "largest_batch")
Planned = ServePlan | FleetPlan | JobPlan
P = TypeVar("P", bound=Planned)
A = TypeVar("A", bound=Sealed)


def read_plan(path: str | Path, hint: str = PLAN_AGAIN) -> ServePlan | FleetPlan:
    """The plan of a JSON file, of one model or of several; one that was edited is refused."""
    return plan_of(path, content_of_plan(path), hint)


def read_plan_to_rent(path: str | Path, hint: str) -> ServePlan | FleetPlan:
    """The same for whoever starts or watches what it rents: other answers are said to be none that is rented so."""
    content = read_json(path, WHAT, LARGEST_BYTES, EXPECTED)
    found = other_answer(content) if isinstance(content, dict) else None
    if found is not None:
        raise UsageError(f"{str(path)!r} holds {found[0]}: no plan of a service", expected=EXPECTED)
    return read_plan(path, hint)


def plan_of(path: str | Path, content: dict[str, Any], hint: str) -> ServePlan | FleetPlan:
    """The plan that a file holds."""
    kind: type[ServePlan | FleetPlan] = FleetPlan if "plans" in content else ServePlan
    return unedited(path, content, kind, WHAT, EXPECTED, hint)


def is_mix(path: str | Path) -> bool:
    """Whether a JSON file holds a mix; what holds no answer at all is left to its reader."""
    content = read_json(path, WHAT, LARGEST_BYTES, EXPECTED)
    return isinstance(content, dict) and set(content) >= OF_MIXES


def read_mix(path: str | Path) -> FleetMix:
    """The mix of a JSON file; one that was edited, or has no seal, is refused."""
    return sealed(path, FleetMix, MIX, OF_MIX, MIX_AGAIN)


def holds_scaling(path: str | Path) -> bool:
    """Whether a file holds laws of scaling; what holds none is left to its reader."""
    content = read_json(path, WHAT, LARGEST_BYTES, EXPECTED)
    return isinstance(content, dict) and content.keys() >= OF_SCALING


def read_scaling(path: str | Path) -> AutoscaleResult:
    """Laws of scaling that `autoscale -o json` wrote, with their plan; a file that was edited is refused."""
    found = sealed(path, AutoscaleResult, SCALING, EXPECTED_OF_SCALING, SCALE_AGAIN)
    if found.plan is not None:
        refuse_contradictions(str(path), found.plan, SCALE_AGAIN)
    return found


def sealed(path: str | Path, kind: type[A], what: str, expected: str, hint: str) -> A:
    """The answer of a JSON file that says of itself that nobody edited it."""
    content = read_json(path, what, LARGEST_BYTES, expected)
    if not isinstance(content, dict) or "schema_version" not in content:
        raise UsageError(f"{str(path)!r} is not {what}", expected=expected)
    of_this_form(path, what, content)
    if SEAL not in content:
        raise UsageError(f"{what}, {str(path)!r}, {WITHOUT_SEAL}", hint=hint)
    content.pop(CURRENCY_KEY, None)
    refuse_edited(str(path), content, hint)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise not_valid(path, what, error, expected) from error


def holds_job(path: str | Path) -> bool:
    """Whether a file holds the plan of a job; what holds none is left to its reader."""
    content = read_json(path, WHAT, LARGEST_BYTES, EXPECTED)
    return isinstance(content, dict) and content.keys() >= OF_A_JOB


def read_job_plan(path: str | Path, expected: str = OF_ANY) -> TrainingPlan | BatchPlan | EncoderBatchPlan:
    """The plan of a job in a JSON file; one that was edited is refused."""
    content = read_json(path, JOB, LARGEST_BYTES, expected)
    if not isinstance(content, dict) or "deadline_s" not in content:
        raise UsageError(f"{str(path)!r} is not {JOB}", expected=expected)
    return unedited(path, content, kind_of_job(content), JOB, expected, PLAN_JOB_AGAIN)


def kind_of_job(content: Mapping[str, object]) -> type[TrainingPlan | BatchPlan | EncoderBatchPlan]:
    """Which kind of plan of a job says such words."""
    if OF_TRAINING in content:
        return TrainingPlan
    return EncoderBatchPlan if OF_ENCODERS in content else BatchPlan


def unedited(path: str | Path, content: dict[str, Any], kind: type[P], what: str, expected: str, hint: str) -> P:
    """The plan that a file holds, refused where it is not as it was written, or contradicts itself."""
    content.pop(CURRENCY_KEY, None)
    refuse_edited(str(path), content, hint)
    try:
        plan = kind.model_validate(content)
    except ValidationError as error:
        raise not_valid(path, what, error, expected) from error
    refuse_contradictions(str(path), plan, hint)
    return cast(P, plan.model_copy(update={"notes": [*plan.notes, *seal_notes(str(path), content)]}))


def read_questions(path: str | Path) -> tuple[list[PlanBasis], float | None, bool]:
    """What the plan of a file was asked, whatever else it says: each model's question, the budget of several."""
    content = content_of_plan(path)
    is_fleet = "plans" in content
    plans = content["plans"] if is_fleet else [content]
    try:
        if is_fleet and content.get("encoder_plans"):
            raise UsageError(f"{str(path)!r} holds plans of encoders, which do not say what they were asked")
        bases = [PlanBasis.model_validate(plan["basis"]) for plan in plans]
        return bases, TypeAdapter(float | None).validate_python(content.get("budget_usd_per_hour")), is_fleet
    except ValidationError as error:
        raise not_valid(path, WHAT, error, EXPECTED) from error
    except (TypeError, KeyError) as error:
        raise UsageError(f"{str(path)!r} does not say what it was asked", hint="Plan again, with -o json.") from error


def content_of_plan(path: str | Path) -> dict[str, Any]:
    """What the file of a plan holds, of which nothing is checked but that it is one."""
    content = read_json(path, WHAT, LARGEST_BYTES, EXPECTED)
    if not isinstance(content, dict) or "schema_version" not in content:
        raise UsageError(f"{str(path)!r} is not {WHAT}", expected=EXPECTED)
    refuse_other_answers(path, of_this_form(path, WHAT, content))
    content.pop(CURRENCY_KEY, None)
    return content


def of_this_form(path: str | Path, what: str, content: dict[str, Any]) -> dict[str, Any]:
    """An answer that a file holds, refused where another version of its form wrote it."""
    if content["schema_version"] != SCHEMA_VERSION:
        found = content["schema_version"]
        raise UsageError(f"{str(path)!r} is {what} of another form", found=found, expected=SCHEMA_VERSION)
    return content


def not_valid(path: str | Path, what: str, error: ValidationError, expected: str) -> UsageError:
    """What the first field of a file is that cannot be read."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return UsageError(f"{str(path)!r} is not {what}: {place}: {first['msg']}", expected=expected)


def refuse_other_answers(path: str | Path, content: dict[str, object]) -> None:
    """Refuse what other verbs wrote, by the fields that only they write."""
    found = other_answer(content)
    if found is not None:
        what, reader = found
        hint = f"Plan its question again and compare the two by hand; Python reads it: gpufleet.{reader}."
        raise UsageError(f"{str(path)!r} holds {what}, which cannot be planned again", expected=EXPECTED, hint=hint)


def other_answer(content: Mapping[str, object]) -> tuple[str, str] | None:
    """What another verb wrote, in words and as Python calls it; None of the plan of a service."""
    return next((answer for answer, names in OTHER_ANSWERS.items() if names <= set(content)), None)


def holds_answer(path: str) -> bool:
    """Whether a name is that of a file with an answer of ours, whole or cut off, and so no model's config."""
    return is_file(path) and ANSWERED in read_start(path, JOB, LARGEST_BYTES)


def is_service_plan(path: str | Path, expected: str = OF_ANY) -> bool:
    """Whether a JSON file holds the plan of a service; what holds no plan at all is left to its reader."""
    content = read_json(path, JOB, LARGEST_BYTES, expected)
    return isinstance(content, dict) and any(names <= set(content) for names in OF_SERVICES)


def refuse_edited(path: str, content: Mapping[str, Any], hint: str) -> None:
    """Refuse a file that is not what its seal says, before anything is made of what it holds."""
    if SEAL in content and (places := unlike_its_seal(content)):
        more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
        named = f"{', '.join(places[:MOST_NAMED])}{more}"
        raise UsageError(f"the plan {path!r} was edited: {named} is not what was written with the rest", hint=hint)


def refuse_contradictions(path: str, plan: Planned, hint: str) -> None:
    """Refuse a plan whose figures contradict each other, sealed or not."""
    if told := next(contradictions(plan), None):
        raise UsageError(f"the plan {path!r} contradicts itself: {told}", hint=hint)


def seal_notes(path: str, content: Mapping[str, Any]) -> list[str]:
    """What a page says of a file without a seal."""
    return [] if SEAL in content else [f"Warning: the plan {path!r} {WITHOUT_SEAL}."]


def contradictions(plan: Planned) -> Iterator[str]:
    """What of a plan cannot be true beside the rest of it."""
    for one in plan.every_plan if isinstance(plan, FleetPlan) else (plan,):
        for number, rented in enumerate(one.deployments, 1):
            told = f"answer {number} of {one.model}"
            yield from (f"{told}: {wrong}" for wrong in wrong_of(rented))
            if isinstance(one, ServePlan):
                yield from (f"{told}: {wrong}" for wrong in beside_its_prices(one, rented))
        if isinstance(one, ServicePlan) and not one.rate_requests_per_s > 0:
            yield f"{one.model} is asked for {one.rate_requests_per_s:g} requests/s"


def wrong_of(rented: RentedMachines) -> Iterator[str]:
    """Figures of machines that nobody has, and a cost that is not price times machines."""
    for name in AT_LEAST_ONE:
        if not getattr(rented, name) > 0:
            yield f"{name} is {getattr(rented, name):g}"
    for name in NOT_NEGATIVE:
        if not getattr(rented, name, 0.0) >= 0:
            yield f"{name} is {getattr(rented, name):g}"
    ranks = getattr(rented, "ranks", None)
    if ranks is not None and min(ranks.model_dump().values()) < 1:
        yield f"a replica has {min(ranks.model_dump().values())} ranks of a kind"
    if isinstance(rented, (RentedJob, TrainingDeployment)):
        return
    if is_all_the_time(rented) and not near(rented.usd_per_hour, hourly_usd(rented)):
        yield (
            f"{rented.instance_count} machines at ${rented.price_per_instance_usd_per_hour:g}/h are not "
            f"${rented.usd_per_hour:g}/h"
        )


def is_all_the_time(rented: RentedMachines) -> bool:
    """Whether all machines are paid for, by one price, at every hour."""
    return getattr(rented, "quiet_instance_count", None) is None and not getattr(rented, "steady_instance_count", 0)


def hourly_usd(rented: RentedMachines) -> float:
    """Price times machines   [USD/h]."""
    return rented.instance_count * rented.price_per_instance_usd_per_hour


def beside_its_prices(plan: ServePlan, rented: RentedMachines) -> Iterator[str]:
    """A price that is not what the plan says that it rests on."""
    known = [] if plan.basis is None else plan.basis.prices
    offer = (rented.cloud, rented.region, rented.instance, rented.price_kind)
    prices = [p.usd_per_hour for p in known if (p.cloud, p.region, p.instance, p.price_kind) == offer]
    if prices and not any(near(rented.price_per_instance_usd_per_hour, usd) for usd in prices):
        said, known_usd = rented.price_per_instance_usd_per_hour, prices[0]
        yield f"${said:g}/h for {rented.instance}, where the plan rests on ${known_usd:g}/h"


def near(one: float, other: float) -> bool:
    """Whether two figures are one, but for the last digits."""
    return math.isclose(one, other, rel_tol=CLOSE_RATIO, abs_tol=CLOSE_RATIO)
