"""A plan that was written with `-o json`, read again."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.errors import UsageError
from gpufleet.files import read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.results.base import SCHEMA_VERSION
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ServePlan
from gpufleet.units import MB

WHAT, LARGEST_BYTES = "a plan", 20 * MB
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
    """The plan of a JSON file, of one model or of several."""
    text = read_text_file(path, WHAT, LARGEST_BYTES)
    content = parse_json(text, f"{WHAT} {str(path)!r}", EXPECTED)
    if not isinstance(content, dict) or "schema_version" not in content:
        raise UsageError(f"{str(path)!r} is not {WHAT}", expected=EXPECTED)
    if content["schema_version"] != SCHEMA_VERSION:
        found = content["schema_version"]
        raise UsageError(f"{str(path)!r} is {WHAT} of another form", found=found, expected=SCHEMA_VERSION)
    refuse_other_answers(path, content)
    try:
        content.pop(CURRENCY_KEY, None)
        return (FleetPlan if "plans" in content else ServePlan).model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{str(path)!r} is not {WHAT}: {place}: {first['msg']}", expected=EXPECTED) from error


def refuse_other_answers(path: str | Path, content: dict[str, object]) -> None:
    """Refuse what other verbs wrote, by the fields that only they write."""
    found = next((answer for answer, names in OTHER_ANSWERS.items() if names <= set(content)), None)
    if found is not None:
        what, reader = found
        hint = f"Plan its question again and compare the two by hand; Python reads it: gpufleet.{reader}."
        raise UsageError(f"{str(path)!r} holds {what}, which cannot be planned again", expected=EXPECTED, hint=hint)
