"""What machines of one's own can serve, as a page."""

from __future__ import annotations

from gpufleet.report.numbers import count, plural
from gpufleet.report.page import Column, Page, Row, Table
from gpufleet.results.machine_fits import MachineFits, ModelOnMachines
from gpufleet.units import GIGA


def machine_fits_page(found: MachineFits) -> Page:
    """Every model that fits, the largest first, with the users that all machines hold."""
    return Page(headline(found), [models_table(found)], [f"{note.rstrip('.')}." for note in found.notes])


def headline(found: MachineFits) -> str:
    """How many models fit which machines."""
    machines = f"{plural(found.num_machines, 'machine')} with {found.gpus_per_machine}x {found.gpu}"
    return (
        f"{count(len(found.rows))} of {count(found.num_models)} models fit {machines}, with {found.engine}; users of "
        f"{count(found.context_tokens)} tokens."
    )


def models_table(found: MachineFits) -> Table:
    """A row for each model."""
    columns = [
        Column("model", "model"),
        Column("billions", "params (B)", align="right", where="text"),
        Column("num_parameters", "num_parameters", where="data"),
        Column("num_active_parameters", "num_active_parameters", where="data"),
        Column("weights", "weights", where="text"),
        Column("weight_format", "weight_format", where="data"),
        Column("shape", "per machine", where="text"),
        Column("layout", "layout", where="data"),
        Column("copies_per_machine", "copies_per_machine", where="data"),
        Column("users", "users", count, "right"),
    ]
    lower = any(not row.is_stored_format for row in found.rows)
    notes = ["*: below the checkpoint's own format; what it costs in quality is for you to measure."] if lower else []
    return Table(columns, [row_of(row) for row in found.rows], "", notes, empty="No shipped model fits one machine.")


def row_of(row: ModelOnMachines) -> Row:
    """One model."""
    return {
        **row.model_dump(),
        "billions": f"{row.num_parameters / GIGA:,.1f}",
        "weights": row.weight_format + ("" if row.is_stored_format else "*"),
        "shape": f"{row.copies_per_machine}x {row.layout}",
    }
