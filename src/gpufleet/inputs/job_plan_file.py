"""A plan of a job that was written with `-o json`: of training, or of a batch job of any model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.errors import UsageError
from gpufleet.files import is_file, read_start, read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.inputs.plan_file import LARGEST_BYTES
from gpufleet.inputs.plan_laws import refuse_contradictions, refuse_edited, seal_notes
from gpufleet.results.encoders import EncoderBatchPlan
from gpufleet.results.job import BatchPlan
from gpufleet.results.training import TrainingPlan

WHAT = "a plan of a job"
OF_JOBS = "what 'gpufleet plan train', 'plan finetune' or 'plan batch' writes with -o json"
PLAN_AGAIN = "Plan the job again, with -o json."
EXPECTED = f"{OF_JOBS}, or 'plan serve'"
ANSWERED = b'"schema_version"'
OF_TRAINING, OF_ENCODERS = "num_trained_parameters", "inputs_per_request"
OF_SERVICES = ({"rate_requests_per_s", "objectives"}, {"plans"})


def holds_answer(path: str) -> bool:
    """Whether a name is that of a file with an answer of ours, whole or cut off, and so no model's config."""
    return is_file(path) and ANSWERED in read_start(path, WHAT, LARGEST_BYTES)


def is_service_plan(path: str | Path, expected: str = EXPECTED) -> bool:
    """Whether a JSON file holds the plan of a service; what holds no plan at all is left to its reader."""
    content = parse_json(read_text_file(path, WHAT, LARGEST_BYTES), f"{WHAT} {str(path)!r}", expected)
    return isinstance(content, dict) and any(names <= set(content) for names in OF_SERVICES)


def kind_of(content: Mapping[str, object]) -> type[TrainingPlan | BatchPlan | EncoderBatchPlan]:
    """Which kind of plan of a job says such words."""
    if OF_TRAINING in content:
        return TrainingPlan
    return EncoderBatchPlan if OF_ENCODERS in content else BatchPlan


def read_job_plan(path: str | Path, expected: str = EXPECTED) -> TrainingPlan | BatchPlan | EncoderBatchPlan:
    """The plan of a JSON file."""
    text = read_text_file(path, WHAT, LARGEST_BYTES)
    content = parse_json(text, f"{WHAT} {str(path)!r}", expected)
    if not isinstance(content, dict) or "deadline_s" not in content:
        raise UsageError(f"{str(path)!r} is not {WHAT}", expected=expected)
    content.pop(CURRENCY_KEY, None)
    refuse_edited(str(path), content, PLAN_AGAIN)
    try:
        plan = kind_of(content).model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{str(path)!r} is not {WHAT}: {place}: {first['msg']}", expected=expected) from error
    refuse_contradictions(str(path), plan, PLAN_AGAIN)
    return plan.model_copy(update={"notes": [*plan.notes, *seal_notes(str(path), content)]})
