"""What stands between an answer and its machines: how many can be had, what their hosts are, who was measured."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.device_notes import device_notes
from gpufleet.catalog.load import Catalog
from gpufleet.provenance import Grade
from gpufleet.results.rented import OfferedMachines, RentedMachines

SAME_PRICE_RATIO = 1.01


def supply_notes(rows: Sequence[RentedMachines], tables: Catalog, easily_had: int | None) -> list[str]:
    """Notes on the answer, the first of the rows."""
    return [*capacity_notes(rows, tables, easily_had), *(surer_note(rows[0], rows[1:]) if rows else [])]


def capacity_notes(rows: Sequence[RentedMachines], tables: Catalog, easily_had: int | None) -> list[str]:
    """Whether the answer's machines are had, and what their hosts are."""
    if not rows:
        return []
    [answer, *others] = rows
    of_device = device_notes(tables.accelerators[answer.gpu]) if answer.gpu in tables.accelerators else []
    return [*capacity_note(answer, others, easily_had), *of_device]


def capacity_note(answer: RentedMachines, others: Sequence[RentedMachines], easily_had: int | None) -> list[str]:
    """That so many GPUs of a type in a region are not had without asking, and who needs fewer."""
    most = load_habits().easily_had_gpus.value if easily_had is None else easily_had
    if num_gpus(answer) <= most or answer.cloud == "own":
        return []
    fewer = next((i for i, d in enumerate(others, 2) if num_gpus(d) <= most), None)
    instead = "no row needs fewer" if fewer is None else f"row {fewer} needs {num_gpus(others[fewer - 2]):,.0f}"
    return [
        f"{num_gpus(answer):,.0f}x {answer.gpu} in one region are seldom had without a reservation "
        f"(--easily-had {most:g}): ask {answer.cloud} first, or spread them over regions; {instead}"
    ]


def num_gpus(d: OfferedMachines) -> float:
    """GPUs that are rented."""
    return d.instance_count * d.gpus_per_instance


def surer_note(answer: RentedMachines, others: Sequence[RentedMachines]) -> list[str]:
    """That a row at the same price was measured, where the answer was not."""
    surer = (
        i
        for i, d in enumerate(others, 2)
        if d.grade == Grade.MEASURED.label and price_of(d) <= price_of(answer) * SAME_PRICE_RATIO
    )
    row = None if answer.grade == Grade.MEASURED.label else next(surer, None)
    if row is None:
        return []
    d = others[row - 2]
    return [f"Row {row} costs the same and its GPU was measured: {d.instance_count}x {d.cloud} {d.instance}"]


def price_of(d: RentedMachines) -> float:
    """What all machines of a row cost by the hour."""
    return d.instance_count * d.price_per_instance_usd_per_hour
