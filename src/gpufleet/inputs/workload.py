"""A workload file: the flags of `gpufleet plan serve`, written down.

    model: llama-3.3-70b
    rate: 50/s
    in: 1000
    out: 300
    slo: ttft.p95<500ms,tpot.p95<40ms,latency.p95<12s
    clouds: [aws, gcp]

Every key is optional here; a verb says what it needs. Values stay as typed, so that a flag and a file are read by
the same parser. Lists may be YAML lists or words separated by commas.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from gpufleet.errors import UnknownName, UsageError
from gpufleet.inputs.text_file import read_text_file
from gpufleet.inputs.yaml_mapping import Value, parse_yaml_mapping

WHAT = "the workload file"
KEY_OF_FIELD = {"input": "in", "output": "out"}


@dataclass(frozen=True)
class WorkloadFile:
    """What a workload file says, unparsed; None where it is silent."""

    model: str | None = None
    engine: str | None = None
    rate: str | None = None
    input: str | None = None
    output: str | None = None
    slo: str | None = None
    precision: tuple[str, ...] | None = None
    clouds: tuple[str, ...] | None = None
    regions: tuple[str, ...] | None = None
    gpus: tuple[str, ...] | None = None
    pricing: tuple[str, ...] | None = None
    headroom: str | None = None
    min_replicas: str | None = None


FIELD_OF_KEY = {KEY_OF_FIELD.get(f.name, f.name): f.name for f in fields(WorkloadFile)}
LIST_KEYS = frozenset({"precision", "clouds", "regions", "gpus", "pricing"})


def read_workload(path: str | Path) -> WorkloadFile:
    """The workload that a YAML file describes."""
    return parse_workload(read_text_file(path, WHAT))


def parse_workload(text: str) -> WorkloadFile:
    """The workload that a YAML text describes.

    >>> parse_workload("rate: 50/s\\nclouds: aws, gcp").clouds
    ('aws', 'gcp')
    """
    given = parse_yaml_mapping(text, WHAT)
    for key in given:
        if key not in FIELD_OF_KEY:
            raise UnknownName("workload key", key, FIELD_OF_KEY, hint=f"Keys: {', '.join(FIELD_OF_KEY)}.")
    return WorkloadFile(**{FIELD_OF_KEY[key]: field_value(key, value) for key, value in given.items()})  # type: ignore[arg-type]


def field_value(key: str, value: Value) -> str | tuple[str, ...]:
    """One field: words for a list, the text for anything else."""
    if key in LIST_KEYS:
        return words(key, value)
    if key == "slo" and isinstance(value, list):
        return ",".join(words(key, value))
    return scalar(key, value)


def words(key: str, value: Value) -> tuple[str, ...]:
    """The items of a YAML list, or of a text with commas."""
    items = value if isinstance(value, list) else scalar(key, value).split(",")
    if not items:
        raise no_value(key)
    return tuple(scalar(key, item).strip() for item in items)


def scalar(key: str, value: Value) -> str:
    """A single, non-empty value."""
    if not isinstance(value, str):
        raise UsageError(f"{WHAT}: {key!r} has several values", found=value, expected="one value")
    if not value.strip():
        raise no_value(key)
    return value


def no_value(key: str) -> UsageError:
    """A key that says nothing is a slip, not the default."""
    return UsageError(f"{WHAT}: {key!r} has no value", expected="a value, or the key left out")
