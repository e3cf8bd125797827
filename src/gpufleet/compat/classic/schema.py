"""What each field of a config must be; a fault names the file, line, column and the nearest right name."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from gpufleet.compat.classic.faults import OWN_FOLDER, Faults
from gpufleet.compat.classic.json_text import Value
from gpufleet.errors import UsageError, nearest_names
from gpufleet.units import TABLE_NUMBERS

HOURS_OF_A_LONG_MONTH = 744
MOST_GPUS = 10_000
MOST_REQUESTS_PER_S = 1_000_000
LONGEST_TEXT = 500
NOTE_PREFIX = "_"


class Field(NamedTuple):
    """How a field is read, and whether it may be left out."""

    read: Callable[[Value, str], Any]
    required: bool = True


def fault(value: Value, field: str, expected: str) -> UsageError:
    """The error of a value that a field does not take."""
    found = "an object" if value.is_object else "a list" if isinstance(value.content, list) else value.content
    return UsageError(f"{value.place}: {field} cannot be this", found=found, expected=expected)


def text(value: Value, field: str) -> str:
    """A text that says something."""
    if not isinstance(value.content, str) or not value.content.strip() or len(value.content) > LONGEST_TEXT:
        raise fault(value, field, f"a text in double quotes, up to {LONGEST_TEXT} characters")
    return value.content.strip()


def any_text(value: Value, field: str) -> str:
    """A text that may be empty."""
    return "" if value.content == "" else text(value, field)


def flag(value: Value, field: str) -> bool:
    """true or false."""
    if not isinstance(value.content, bool):
        raise fault(value, field, "true or false")
    return value.content


def number(above: float, most: float) -> Callable[[Value, str], float]:
    """A number above `above`, at most `most`, and nothing or more than a billionth; whole ones stay whole."""

    def read(value: Value, field: str) -> float:
        found = value.content
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found)
        if not (is_number and above < found <= most) or 0 < abs(found) < TABLE_NUMBERS.least:
            raise fault(value, field, f"a number above {above:g}, up to {most:g}")
        return int(found) if found == int(found) else float(found)

    return read


def whole(most: int) -> Callable[[Value, str], int]:
    """A whole number from 1 to `most`."""

    def read(value: Value, field: str) -> int:
        found = value.content
        is_whole = isinstance(found, (int, float)) and not isinstance(found, bool) and found == found // 1
        if not (is_whole and 1 <= found <= most):
            raise fault(value, field, f"a whole number from 1 to {most}")
        return int(found)

    return read


def texts(value: Value, field: str) -> tuple[str, ...]:
    """A list of texts."""
    if not isinstance(value.content, list):
        raise fault(value, field, 'a list of texts such as ["inference", "research"]')
    return tuple(text(item, f"an item of {field}") for item in value.content)


def record(value: Value, what: str, fields: Mapping[str, Field], rows: Collection[str] = ()) -> dict[str, Any]:
    """The fields of one of the `rows`; unknown names, missing ones and wrong values are refused, all at once."""
    given, faults = entries(value, what), Faults()
    for key, entry in given.items():
        if key not in fields:
            faults.add(unknown_field(entry, what, fields))
    missing = [name for name, field in fields.items() if field.required and name not in given]
    if missing:
        faults.add(missing_fields(value, what, missing, given, [name for name in rows if name != value.key]))
    known = [(key, entry, fields[key].read) for key, entry in given.items() if key in fields]
    read = {key: faults.reading(partial(reader, entry, f"{what}: {entry.key}")) for key, entry, reader in known}
    faults.refuse(f"{value.place}: {what}")
    return read


def missing_fields(
    value: Value, what: str, fields: Sequence[str], given: Collection[str], others: Collection[str]
) -> UsageError:
    """The error of a row that lacks fields, with the rows that may have been meant."""
    near = nearest_names(value.key, others, count=2)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(
        f"{value.place}: {what} lacks {', '.join(map(repr, fields))}",
        found=", ".join(sorted(given)) or "no field",
        hint=f"{meant}A new row names every field; single fields suffice where a row of that name is there already. "
        f"{OWN_FOLDER}",
    )


def entries(value: Value, what: str) -> dict[str, Value]:
    """The parts of an object; names that begin with '_' are notes, and null means absent."""
    if not value.is_object:
        raise fault(value, what, "an object { ... }")
    parts: dict[str, Value] = value.content
    return {k: v for k, v in parts.items() if not k.startswith(NOTE_PREFIX) and v.content is not None}


def unknown_field(entry: Value, what: str, known: Collection[str]) -> UsageError:
    """The error of a name that no field has, with the nearest ones."""
    near = nearest_names(entry.key, known, count=2)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known)}."
    return UsageError(f"{entry.place}: {what} has no field {entry.key!r}", hint=hint)


PRICE = number(0, 100_000)
INSTANCE: Mapping[str, Field] = {
    "name": Field(text),
    "family": Field(text),
    "gpu_type": Field(text),
    "vcpus": Field(whole(MOST_GPUS)),
    "gpu_memory_gb": Field(number(0, 100_000)),
    "gpus_per_instance": Field(whole(MOST_GPUS)),
    "compute_tflops": Field(number(0, 10_000_000)),
    "interconnect_type": Field(text),
    "interconnect_bandwidth_gbps": Field(number(-1, 1_000_000)),
    "on_demand_cost_per_hour": Field(PRICE),
    "spot_cost_per_hour": Field(PRICE),
    "memory_bandwidth_factor": Field(number(0, 10)),
    "interconnect_multiplier": Field(number(0, 10)),
    "description": Field(any_text),
    "stands_for": Field(any_text, required=False),
    "filled_from_facts": Field(texts, required=False),
}
SIZE: Mapping[str, Field] = {
    "name": Field(text),
    "description": Field(any_text),
    "parameter_count_billion": Field(number(0, 1_000_000)),
    "memory_overhead_multiplier": Field(number(0, 100), required=False),
    "typical_use_cases": Field(texts, required=False),
    "examples": Field(texts, required=False),
    "catalog_model": Field(any_text, required=False),
    "filled_from_facts": Field(texts, required=False),
    "custom": Field(flag, required=False),
}
PRECISION: Mapping[str, Field] = {
    "name": Field(text),
    "bytes_per_parameter": Field(number(0, 16)),
    "description": Field(any_text, required=False),
}
SCENARIO: Mapping[str, Field] = {
    "current_instance": Field(text),
    "current_gpu_count": Field(whole(MOST_GPUS)),
    "workload_type": Field(text),
    "model_size": Field(text),
    "monthly_hours": Field(number(0, HOURS_OF_A_LONG_MONTH), required=False),
    "use_spot": Field(flag, required=False),
    "precision": Field(text, required=False),
    "goal": Field(text, required=False),
    "requests_per_s": Field(number(0, MOST_REQUESTS_PER_S), required=False),
}
WORKLOAD: Mapping[str, Field] = {
    "name": Field(text),
    "scenario": Field(lambda value, field: record(value, field, SCENARIO)),
    "description": Field(any_text, required=False),
    "expected_outcome": Field(any_text, required=False),
    "tags": Field(texts, required=False),
    "custom": Field(flag, required=False),
}
