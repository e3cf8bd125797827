"""A plan that was written with `-o json`, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.inputs.plan_laws import refuse_contradictions, refuse_edited, seal_notes
from gpufleet.results.base import SCHEMA_VERSION
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import PlanBasis, ServePlan
from gpufleet.units import MB

WHAT, LARGEST_BYTES = "a plan", 20 * MB
PLAN_AGAIN = "--edited plans its question again."
EXPECTED = "what 'gpufleet plan serve ... -o json' writes of models that write"
OTHER_ANSWERS = {
    ("the plan of a training run", "TrainingPlan"): {"deadline_s", "num_trained_parameters"},
    ("a fit of training", "TrainingFit"): {"largest", "num_trained_parameters"},
    ("the plan of an encoder's batch job", "EncoderBatchPlan"): {"deadline_s", "unit"},
    ("the plan of a batch job", "BatchPlan"): {"deadline_s"},
    ("the plan of an encoder's service", "EncoderServePlan"): {"rate_requests_per_s", "unit"},
    ("the estimate of an encoder", "EncoderEstimate"): {"unit", "latency_s"},
}


def read_plan(path: str | Path) -> ServePlan | FleetPlan:
    """The plan of a JSON file, of one model or of several; one that was edited is refused."""
    content = content_of_plan(path)
    refuse_edited(str(path), content, PLAN_AGAIN)
    try:
        plan = (FleetPlan if "plans" in content else ServePlan).model_validate(content)
    except ValidationError as error:
        raise not_a_plan(path, error) from error
    refuse_contradictions(str(path), plan, PLAN_AGAIN)
    return plan.model_copy(update={"notes": [*plan.notes, *seal_notes(str(path), content)]})


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
        raise not_a_plan(path, error) from error
    except (TypeError, KeyError) as error:
        raise UsageError(f"{str(path)!r} does not say what it was asked", hint="Plan again, with -o json.") from error


def not_a_plan(path: str | Path, error: ValidationError) -> UsageError:
    """What the first field that cannot be read is."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return UsageError(f"{str(path)!r} is not {WHAT}: {place}: {first['msg']}", expected=EXPECTED)


def content_of_plan(path: str | Path) -> dict[str, Any]:
    """What the file of a plan holds, of which nothing is checked but that it is one."""
    text = read_text_file(path, WHAT, LARGEST_BYTES)
    content = parse_json(text, f"{WHAT} {str(path)!r}", EXPECTED)
    if not isinstance(content, dict) or "schema_version" not in content:
        raise UsageError(f"{str(path)!r} is not {WHAT}", expected=EXPECTED)
    if content["schema_version"] != SCHEMA_VERSION:
        found = content["schema_version"]
        raise UsageError(f"{str(path)!r} is {WHAT} of another form", found=found, expected=SCHEMA_VERSION)
    refuse_other_answers(path, content)
    content.pop(CURRENCY_KEY, None)
    return content


def refuse_other_answers(path: str | Path, content: dict[str, object]) -> None:
    """Refuse what other verbs wrote, by the fields that only they write."""
    found = next((answer for answer, names in OTHER_ANSWERS.items() if names <= set(content)), None)
    if found is not None:
        what, reader = found
        hint = f"Plan its question again and compare the two by hand; Python reads it: gpufleet.{reader}."
        raise UsageError(f"{str(path)!r} holds {what}, which cannot be planned again", expected=EXPECTED, hint=hint)
