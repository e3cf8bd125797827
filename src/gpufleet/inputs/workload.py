"""A workload file: the flags of `gpufleet plan serve` or `plan batch`, written down, and what is too long for a flag.

    model: llama-3.3-70b
    rate: 50/s
    in: {mean: 1000, p95: 4000}
    out: 300
    slo: ttft.p95<500ms,tpot.p95<40ms,latency.p95<12s
    clouds: [aws, gcp]

`classes` names kinds of requests of one service, `models` several models that are planned together; what stands
beside them holds for all of them. Every key is optional here; a verb says what it needs. Values stay as typed, so that
a flag and a file are read by the same parser. Lists may be YAML lists or words separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.errors import UnknownName, UsageError
from gpufleet.files import read_text_file
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.inputs.yaml_mapping import Value

WHAT = "the workload file"
KEY_OF_FIELD = {"input": "in", "output": "out"}
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")
IN_QUOTAS = "quotas in quotas.csv of your catalog folder (--catalog DIR); docs/prices.md has its columns"
IN_CATALOG = "the folder of your tables as --catalog DIR, or as 'catalog' in gpufleet.toml"
KEPT_ELSEWHERE = {"quota": IN_QUOTAS, "quotas": IN_QUOTAS, "max_instances": IN_QUOTAS, "catalog": IN_CATALOG}
MOST_CLASSES, MOST_MODELS = 8, 20


@dataclass(frozen=True)
class ClassEntry:
    """What a workload file says of one class of requests, unparsed; None where it is silent."""

    name: str
    rate: str | None = None
    share: str | None = None
    input: str | None = None
    output: str | None = None
    slo: str | None = None
    prefix_cache: str | None = None
    prefix_kv: str | None = None
    trace: str | None = None


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
    trace: str | None = None
    prefix_cache: str | None = None
    prefix_kv: str | None = None
    spare_machines: str | None = None
    zones: str | None = None
    off_peak: str | None = None
    peak_hours: str | None = None
    budget: str | None = None
    max_spot: str | None = None
    confidence: str | None = None
    today: str | None = None
    requests: str | None = None
    deadline: str | None = None
    startup: str | None = None
    every: str | None = None
    audio: str | None = None
    beams: str | None = None
    currency: str | None = None
    classes: tuple[ClassEntry, ...] | None = None
    models: tuple[WorkloadFile, ...] | None = None


def keys_of(entry: type, *left_out: str) -> dict[str, str]:
    """Which field each key of a file fills."""
    return {KEY_OF_FIELD.get(f.name, f.name): f.name for f in fields(entry) if f.name not in left_out}


FIELD_OF_KEY = keys_of(WorkloadFile)
JOB_FIELDS = ("requests", "deadline", "startup", "every")
ENCODER_FIELDS = ("audio", "beams")
FIELD_OF_MODEL_KEY = keys_of(WorkloadFile, "models", "budget", "currency", "today", *JOB_FIELDS)
FIELD_OF_CLASS_KEY = keys_of(ClassEntry, "name")
LIST_KEYS = frozenset({"precision", "clouds", "regions", "gpus", "pricing"})
TOKEN_KEYS = frozenset({"in", "out"})


def read_workload(path: str | Path) -> WorkloadFile:
    """The workload that a YAML file describes; a trace is looked for beside the file."""
    return beside(Path(path).parent, parse_workload(read_text_file(path, WHAT)))


def beside(folder: Path, written: WorkloadFile) -> WorkloadFile:
    """The same with the names of traces seen from where the file stands."""
    return replace(
        written,
        trace=at(folder, written.trace),
        classes=written.classes and tuple(replace(c, trace=at(folder, c.trace)) for c in written.classes),
        models=written.models and tuple(beside(folder, model) for model in written.models),
    )


def at(folder: Path, name: str | None) -> str | None:
    """A file's name seen from a folder."""
    return None if name is None else str(folder / name)


def parse_workload(text: str) -> WorkloadFile:
    """The workload that a YAML text describes.

    >>> parse_workload("rate: 50/s\\nclouds: aws, gcp").clouds
    ('aws', 'gcp')
    """
    from gpufleet.inputs.yaml_mapping import parse_yaml_mapping

    return workload_entry(parse_yaml_mapping(text, WHAT), FIELD_OF_KEY, "workload key")


def workload_entry(given: Mapping[str, Value], field_of_key: Mapping[str, str], kind: str) -> WorkloadFile:
    """One workload, of a file or of one of its models."""
    refuse_unknown(given, field_of_key, kind)
    return WorkloadFile(**{field_of_key[key]: field_value(key, value) for key, value in given.items()})  # type: ignore[arg-type]


def refuse_unknown(given: Mapping[str, Value], known: Mapping[str, str], kind: str) -> None:
    """A key that nobody reads would be a wish that is not heard."""
    for key in given:
        if key not in known:
            if key in KEPT_ELSEWHERE:
                raise UsageError(f"unknown {kind} {key!r}", expected=KEPT_ELSEWHERE[key])
            raise UnknownName(kind, key, known, hint=f"Keys: {', '.join(known)}.")


def field_value(key: str, value: Value) -> object:
    """One field: entries for classes and models, words for a list, the text for anything else."""
    if key == "classes":
        return class_entries(value)
    if key == "models":
        return model_entries(value)
    if key in LIST_KEYS:
        return words(key, value)
    if key == "slo" and isinstance(value, list):
        return ",".join(words(key, value))
    if key == "today" and isinstance(value, list):
        return ", ".join(words(key, value))
    if key in TOKEN_KEYS and isinstance(value, dict):
        return ",".join(f"{name}={scalar(f'{key}: {name}', tokens)}" for name, tokens in some(key, value).items())
    return scalar(key, value)


def class_entries(value: Value) -> tuple[ClassEntry, ...]:
    """The classes of a mapping from names to what is said of each."""
    if not isinstance(value, dict):
        raise UsageError(f"{WHAT}: 'classes' is no mapping", expected="a name for each class, below it its keys")
    if len(some("classes", value)) > MOST_CLASSES:
        raise UsageError(f"{WHAT} has {len(value)} classes", expected=f"at most {MOST_CLASSES}")
    return tuple(class_entry(name, entry) for name, entry in value.items())


def class_entry(name: str, entry: Value) -> ClassEntry:
    """One class."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{WHAT}: not a name of a class", found=name, expected="up to 31 of a-z, 0-9, _ and -, such as 'chat'"
        )
    if not isinstance(entry, dict):
        raise UsageError(f"{WHAT}: class {name!r} says nothing", expected="its keys, such as 'share: 80%'")
    refuse_unknown(entry, FIELD_OF_CLASS_KEY, f"key of class {name!r}:")
    return ClassEntry(name, **{FIELD_OF_CLASS_KEY[k]: field_value(k, v) for k, v in entry.items()})  # type: ignore[arg-type]


def model_entries(value: Value) -> tuple[WorkloadFile, ...]:
    """The models of a list, each with keys of its own."""
    if not (isinstance(value, list) and value and all(isinstance(item, dict) for item in value)):
        raise UsageError(f"{WHAT}: 'models' is no list of mappings", expected="'- model: NAME' with its keys below")
    if len(value) > MOST_MODELS:
        raise UsageError(f"{WHAT} has {len(value)} models", expected=f"at most {MOST_MODELS}")
    mappings = [item for item in value if isinstance(item, dict)]
    return tuple(workload_entry(item, FIELD_OF_MODEL_KEY, "key of a model:") for item in mappings)


def refuse_said(written: WorkloadFile, names: Iterable[str], verb: str) -> None:
    """Refuse what a file says and a verb does not hear."""
    said = [KEY_OF_FIELD.get(name, name) for name in names if getattr(written, name) is not None]
    if said:
        raise UsageError(f"{WHAT} says {', '.join(said)}, which {verb!r} does not read", expected="it left out")


def some(key: str, value: dict[str, Value]) -> dict[str, Value]:
    """A mapping with anything in it."""
    if not value:
        raise no_value(key)
    return value


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
