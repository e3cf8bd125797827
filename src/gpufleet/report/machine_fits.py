"""What machines of one's own can serve, as a page."""

from __future__ import annotations

from gpufleet.report.numbers import count, plural
from gpufleet.report.page import Columns, Page, Table, column, data, number
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
    columns: Columns[ModelOnMachines] = [
        column("model", lambda row: row.model),
        number("params (B)", lambda row: f"{row.num_parameters / GIGA:,.1f}", where="text"),
        *data("num_parameters", "num_active_parameters"),
        column("weights", lambda row: row.weight_format + ("" if row.is_stored_format else "*"), where="text"),
        *data("weight_format"),
        column("per machine", lambda row: f"{row.copies_per_machine}x {row.layout}", where="text"),
        *data("layout", "copies_per_machine"),
        number("users", lambda row: row.users, show=count),
    ]
    lower = any(not row.is_stored_format for row in found.rows)
    notes = ["*: below the checkpoint's own format; what it costs in quality is for you to measure."] if lower else []
    return Table.of(found.rows, columns, "", notes, empty="No shipped model fits one machine.")
