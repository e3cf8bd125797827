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
from collections.abc import Collection, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet.errors import UnknownName, UsageError
from gpufleet.files import read_text_file
from gpufleet.questions.fields import BATCH, SERVE, words_of, words_of_kinds
from gpufleet.questions.training import TRAINED
from gpufleet.questions.words import Said, Word
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.inputs.yaml_mapping import Value

WHAT = "the workload file"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,30}")
IN_QUOTAS = "quotas in quotas.csv of your catalog folder (--catalog DIR); docs/prices.md has its columns"
IN_CATALOG = "the folder of your tables as --catalog DIR, or as 'catalog' in gpufleet.toml"
KEPT_ELSEWHERE = {"quota": IN_QUOTAS, "quotas": IN_QUOTAS, "max_instances": IN_QUOTAS, "catalog": IN_CATALOG}
MOST_CLASSES, MOST_MODELS = 8, 100


@dataclass(frozen=True)
class Words:
    """Words, unparsed."""

    words: Mapping[str, Said] = field(default_factory=dict)

    def text(self, word: str) -> str | None:
        """What is said of a word; None where nothing is."""
        return text_of(self.words, word)


@dataclass(frozen=True)
class ClassEntry(Words):
    """What a workload file says of one class of requests."""

    name: str = ""


@dataclass(frozen=True)
class WorkloadFile(Words):
    """What a workload file or a command line says, and what holds words of its own."""

    classes: tuple[ClassEntry, ...] | None = None
    models: tuple[WorkloadFile, ...] | None = None

    @property
    def model(self) -> str | None:
        """The model that is asked about."""
        return self.text("model")

    @property
    def names(self) -> frozenset[str]:
        """Everything that is said, by name."""
        held = {"classes": self.classes, "models": self.models}
        return frozenset(self.words) | {name for name, entries in held.items() if entries is not None}

    def over(self, other: WorkloadFile) -> WorkloadFile:
        """What is said here, else there."""
        classes = other.classes if self.classes is None else self.classes
        models = other.models if self.models is None else self.models
        return WorkloadFile({**other.words, **self.words}, classes, models)

    def only(self, words: Collection[str]) -> WorkloadFile:
        """The same with these words alone."""
        return replace(self, words={name: said for name, said in self.words.items() if name in words})

    def without(self, *words: str) -> WorkloadFile:
        """The same without these words."""
        return self.only(self.words.keys() - set(words))


def text_of(words: Mapping[str, Said], word: str) -> str | None:
    """What is said of a word that takes one text."""
    said = words.get(word)
    return said if said is None or isinstance(said, str) else ",".join(said)


WORDS = {name: row for name, row in words_of(*SERVE, *BATCH, *TRAINED).items() if row.is_in_files}
KEYS = (*WORDS, "classes", "models")
CLASS_KEYS = tuple(dict.fromkeys(("rate", "share", *words_of_kinds(), "trace")))
MODEL_KEYS = (*(n for n, row in words_of(*SERVE).items() if row.is_in_files and row.is_of_each_model), "classes")


def read_workload(path: str | Path) -> WorkloadFile:
    """The workload that a YAML file describes; a trace is looked for beside the file."""
    return beside(Path(path).parent, parse_workload(read_text_file(path, WHAT)))


def beside(folder: Path, written: WorkloadFile) -> WorkloadFile:
    """The same with the names of traces seen from where the file stands."""
    return replace(
        written,
        words=traced_from(folder, written.words),
        classes=written.classes and tuple(replace(c, words=traced_from(folder, c.words)) for c in written.classes),
        models=written.models and tuple(beside(folder, model) for model in written.models),
    )


def traced_from(folder: Path, words: Mapping[str, Said]) -> Mapping[str, Said]:
    """The same words with a trace found from a folder."""
    trace = text_of(words, "trace")
    return words if trace is None else {**words, "trace": str(folder / trace)}


def parse_workload(text: str) -> WorkloadFile:
    """The workload that a YAML text describes.

    >>> parse_workload("rate: 50/s\\nclouds: aws, gcp").words["clouds"]
    ('aws', 'gcp')
    """
    from gpufleet.inputs.yaml_mapping import parse_yaml_mapping

    return workload_entry(parse_yaml_mapping(text, WHAT), KEYS, "workload key")


def workload_entry(given: Mapping[str, Value], known: Collection[str], kind: str) -> WorkloadFile:
    """One workload, of a file or of one of its models."""
    refuse_unknown(given, known, kind)
    classes = class_entries(given["classes"]) if "classes" in given else None
    models = model_entries(given["models"]) if "models" in given else None
    return WorkloadFile(said_words(given), classes, models)


def refuse_unknown(given: Mapping[str, Value], known: Collection[str], kind: str) -> None:
    """A key that nobody reads would be a wish that is not heard."""
    for key in given:
        if key not in known:
            if key in KEPT_ELSEWHERE:
                raise UsageError(f"unknown {kind} {key!r}", expected=KEPT_ELSEWHERE[key])
            raise UnknownName(kind, key, known, hint=f"Keys: {', '.join(known)}.")


def said_words(given: Mapping[str, Value]) -> dict[str, Said]:
    """The words of a mapping: what is said of each."""
    return {
        key: said_of(key, value, WORDS.get(key)) for key, value in given.items() if key not in ("classes", "models")
    }


def said_of(key: str, value: Value, row: Word[Any] | None) -> Said:
    """What is said of one word: texts for a list, one text for anything else."""
    if row is None:
        return scalar(key, value)
    if row.kind.takes is list:
        return words(key, value)
    if row.joined_by and isinstance(value, list):
        return row.joined_by.join(words(key, value))
    if row.has_parts and isinstance(value, dict):
        return ",".join(f"{name}={scalar(f'{key}: {name}', part)}" for name, part in some(key, value).items())
    return scalar(key, value)


def class_entries(value: Value) -> tuple[ClassEntry, ...]:
    """The classes of a mapping from names to what is said of each."""
    if not isinstance(value, dict):
        raise UsageError(f"{WHAT}: 'classes' is not a mapping", expected="a name for each class, below it its keys")
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
    refuse_unknown(entry, CLASS_KEYS, f"key of class {name!r}:")
    return ClassEntry(said_words(entry), name)


def model_entries(value: Value) -> tuple[WorkloadFile, ...]:
    """The models of a list, each with keys of its own."""
    if not (isinstance(value, list) and value and all(isinstance(item, dict) for item in value)):
        raise UsageError(f"{WHAT}: 'models' is not a list of mappings", expected="'- model: NAME' with its keys below")
    if len(value) > MOST_MODELS:
        raise UsageError(f"{WHAT} has {len(value)} models", expected=f"at most {MOST_MODELS}")
    mappings = [item for item in value if isinstance(item, dict)]
    return tuple(workload_entry(item, MODEL_KEYS, "key of a model:") for item in mappings)


def refuse_said(written: WorkloadFile, known: Collection[str], verb: str) -> None:
    """Refuse what a file says and a verb does not hear."""
    said = [name for name in KEYS if name in written.names and name not in known]
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
