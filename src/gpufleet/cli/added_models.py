"""What `gpufleet catalog models add` does: each model asked of the hub, kept, read as a question would, and shown."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.architecture.kept_checkpoint import KeptCheckpoint
from gpufleet.architecture.stored_tensors import PREDICTION
from gpufleet.catalog.current_date import current_date
from gpufleet.catalog.hub import LOCK, AskedModel, Hub, add_model, asked_model, visit_of
from gpufleet.catalog.models import is_shipped_encoder, shipped_architecture, shipped_encoder
from gpufleet.catalog.update_lock import only_update
from gpufleet.cli.catalog_refresh import connection, tell
from gpufleet.cli.interrupts import interrupts_raised
from gpufleet.errors import DataMissing, GpufleetError, UsageError
from gpufleet.inputs.model_config import is_encoder, models_root, read_encoder, read_model
from gpufleet.report.added_models import added_page
from gpufleet.report.page import Page
from gpufleet.results.added_models import AddedModelRow, AddedModels, StoredFormatRow

if TYPE_CHECKING:
    import httpx

ADD = "add"


def add_answer(words: Sequence[str], flags: Sequence[str] = ()) -> tuple[AddedModels, Page]:
    """Every model that is named behind 'add', one after the other; `flags` are those of the listing."""
    action, *ids = words
    if action != ADD:
        hint = f"'gpufleet catalog models --search {action}' finds a shipped one, '--show {action}' explains it."
        raise UsageError("a word that 'catalog models' does not know", found=action, expected="add ORG/NAME", hint=hint)
    if flags:
        raise UsageError(f"{', '.join(flags)} is of the listing of models, not of '{ADD}'")
    if not ids:
        raise UsageError("no model to add", expected="'gpufleet catalog models add ORG/NAME'")
    asked, root = [asked_model(each) for each in ids], models_root()
    with interrupts_raised(), connection() as client, only_update(root, of=LOCK):
        result = AddedModels(models=[added(each, client, root) for each in asked])
    return result, added_page(result)


def added(asked: AskedModel, client: httpx.Client, root: Path) -> AddedModelRow:
    """One model as it was brought, and whether questions take it."""
    tell(f"{asked.spoken}: asked")
    hub = Hub.of(os.environ)
    visit = visit_of(asked, hub, client, root, current_date(), time.monotonic, sleep=time.sleep)
    try:
        kept, folder = add_model(visit)
    except OSError as error:
        raise DataMissing(f"{root} cannot be written", found=error.strerror or str(error)) from None
    return row_of(kept, folder)


def row_of(kept: KeptCheckpoint, folder: Path) -> AddedModelRow:
    """What was kept of a model, and how it is read."""
    family, notes, refusal = reading_of(f"{kept.id}@{kept.commit}")
    loaded = [part for part in kept.parts if part.part != PREDICTION]
    return AddedModelRow(
        id=kept.id,
        asked_revision=kept.asked_revision,
        commit=kept.commit,
        day=kept.day,
        source=kept.source,
        folder=str(folder),
        family=family,
        num_files=kept.num_files,
        num_parameters=sum(part.num_parameters for part in loaded) if loaded else None,
        stored_bytes=sum(part.stored_bytes for part in loaded) if loaded else None,
        formats=[
            StoredFormatRow(
                part=part.part,
                number_format=part.number_format,
                num_parameters=part.num_parameters,
                stored_bytes=part.stored_bytes,
            )
            for part in kept.parts
        ],
        notes=notes,
        refusal=refusal,
    )


def reading_of(name: str) -> tuple[str | None, list[str], str]:
    """The family of an added model, what is said of its reading, and why no question takes it where none does."""
    try:
        if is_encoder(name, is_shipped_encoder):
            encoder = read_encoder(name, shipped_encoder)
            return encoder.family, list(encoder.notes), ""
        arch = read_model(name, shipped_architecture)
        return arch.family, list(arch.notes), ""
    except GpufleetError as error:
        return None, [], str(error)
