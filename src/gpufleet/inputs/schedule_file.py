"""A schedule that was written with `-o json`, read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpufleet.domain.currency import CURRENCY_KEY
from gpufleet.errors import UsageError
from gpufleet.files import ABSURD_INTEGER, holds_absurd_integer, read_text_file
from gpufleet.inputs.json_text import parse_json
from gpufleet.inputs.schedule_laws import broken_laws
from gpufleet.results.base import SCHEMA_VERSION
from gpufleet.results.schedule import SchedulePlan
from gpufleet.units import MB

WHAT, LARGEST_BYTES = "a schedule", 200 * MB
EXPECTED = "what 'gpufleet schedule jobs.yaml -o json' writes"


def read_schedule(path: str | Path) -> SchedulePlan | None:
    """The schedule of a file; None where its name does not end in .json, or it holds jobs that are to be scheduled."""
    if Path(path).suffix.lower() != ".json":
        return None
    content = parse_json(read_text_file(path, WHAT, LARGEST_BYTES), f"{WHAT} {str(path)!r}", EXPECTED)
    if not isinstance(content, dict) or "schema_version" not in content:
        return None
    if content["schema_version"] != SCHEMA_VERSION:
        found = content["schema_version"]
        raise UsageError(f"{str(path)!r} is {WHAT} of another form", found=found, expected=SCHEMA_VERSION)
    return checked(path, content)


def checked(path: str | Path, content: dict[str, Any]) -> SchedulePlan:
    """The schedule of what a file holds."""
    content.pop(CURRENCY_KEY, None)
    try:
        plan = SchedulePlan.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{str(path)!r} is not {WHAT}: {place}: {first['msg']}", expected=EXPECTED) from error
    if holds_absurd_integer(plan.model_dump()):
        raise UsageError(f"{str(path)!r} is no schedule: {ABSURD_INTEGER}", expected=EXPECTED)
    if wrong := next(broken_laws(plan), None):
        raise UsageError(f"{str(path)!r} is no schedule: {wrong}", expected=EXPECTED)
    return plan
