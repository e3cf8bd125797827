"""What is written down of a model that was added from a hub: which revision, on which day, and what its files hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Any

from gpufleet.architecture.stored_tensors import StoredPart
from gpufleet.records import dataclass

FORM = 1
FILE = "checkpoint.json"
ROOT_VARIABLE = "GPUFLEET_MODELS"


@dataclass(frozen=True)
class KeptCheckpoint:
    """A revision of a model on a hub; `parts` are empty where its weights are not in safetensors.

    `asked_revision` is the branch, tag or commit that was asked for, `commit` what it was on `day`.
    """

    id: str
    asked_revision: str
    commit: str
    day: date
    source: str
    num_files: int
    parts: tuple[StoredPart, ...]

    def as_mapping(self) -> dict[str, Any]:
        """What is written."""
        return {"form": FORM, **asdict(self), "day": self.day.isoformat(), "parts": [asdict(p) for p in self.parts]}


def kept_checkpoint(written: Mapping[str, Any]) -> KeptCheckpoint:
    """What was written; anything else is a ValueError, KeyError or TypeError."""
    if written["form"] != FORM:
        raise ValueError("it was written by another version of gpufleet")
    words = {name: written[name] for name in ("id", "asked_revision", "commit", "source")}
    if not all(isinstance(word, str) for word in words.values()):
        raise ValueError("a word of it is no text")
    parts = tuple(StoredPart(**part) for part in written["parts"])
    if any(n < 0 for p in parts for n in (p.num_parameters, p.stored_bytes, p.loaded_bytes)):
        raise ValueError("a size of it is negative")
    return KeptCheckpoint(
        **words, day=date.fromisoformat(written["day"]), num_files=int(written["num_files"]), parts=parts
    )
