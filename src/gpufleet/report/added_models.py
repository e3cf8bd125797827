"""Models that were added from a hub as a page: what their files hold by number format, and where they lie."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet import units
from gpufleet.report.numbers import count, several, significant
from gpufleet.report.page import WARNING, Column, Page, Table
from gpufleet.results.added_models import AddedModelRow, AddedModels


def added_page(added: AddedModels) -> Page:
    """Models first, then the number formats of each."""
    rows = [row.model_dump() for row in added.models]
    formats = [{"id": row.id, **found.model_dump()} for row in added.models for found in row.formats]
    columns = [
        Column("id", "model"),
        Column("family", "family", priority=2),
        Column("num_parameters", "parameters", exact, "right"),
        Column("stored_bytes", "files", gigabytes, "right"),
        Column("commit", "revision", lambda commit: str(commit)[:8], priority=1),
        Column("folder", "folder", where="data"),
    ]
    tables = [Table(columns, rows)]
    if formats:
        parts = [
            Column("id", "model", priority=1),
            Column("part", "part"),
            Column("number_format", "stored in"),
            Column("num_parameters", "parameters", exact, "right"),
            Column("stored_bytes", "bytes", gigabytes, "right"),
        ]
        tables.append(Table(parts, formats, title="Number formats, by the headers of its files"))
    notes = [note for row in added.models for note in notes_of(row)]
    return Page(f"{several(len(rows), 'model')} added", tables, notes)


def notes_of(row: AddedModelRow) -> Iterator[str]:
    """What is to be known of a model, and what to type next."""
    if row.refusal:
        yield f"{WARNING}{row.id} is kept, and no question takes it yet: {row.refusal}"
    if not row.formats:
        yield f"{WARNING}the weights of {row.id} are not in safetensors: sizes are those of its config."
    yield from row.notes
    if not row.refusal:
        yield f"Every question takes it now: 'gpufleet fit {row.id} --gpus H100:1'."
    yield f"{row.id} of {row.day} lies in {row.folder}; remove that folder to forget it."


def exact(number: int | None) -> str:
    """A count to its last digit.

    >>> exact(8030261248), exact(None)
    ('8,030,261,248', 'unknown')
    """
    return count(number) if number is None else f"{number:,}"


def gigabytes(size_bytes: int | None) -> str:
    """Bytes as hubs show them.

    >>> gigabytes(16060522496)
    '16.1 GB'
    """
    return "unknown" if size_bytes is None else f"{significant(size_bytes / units.GB)} GB"
