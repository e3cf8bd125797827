"""What `gpufleet catalog models add` brought: per model its revision, and what its files hold by number format."""

from __future__ import annotations

from datetime import date

from gpufleet.results.base import SCHEMA_VERSION, Result


class StoredFormatRow(Result):
    """All tensors of one part of a model in one number format, as the headers of its files say."""

    part: str
    number_format: str
    num_parameters: int
    stored_bytes: int


class AddedModelRow(Result):
    """One model: where it lies and what it holds; `refusal` says why no question takes it, where none does.

    `num_parameters` and `stored_bytes` are those of its files without layers that predict more tokens; None: its
    weights are not in safetensors.
    """

    id: str
    asked_revision: str
    commit: str
    day: date
    source: str
    folder: str
    family: str | None
    num_files: int
    num_parameters: int | None
    stored_bytes: int | None
    formats: list[StoredFormatRow]
    notes: list[str]
    refusal: str = ""


class AddedModels(Result):
    """Models that were added, in the order that they were asked for."""

    schema_version: str = SCHEMA_VERSION
    models: list[AddedModelRow]
