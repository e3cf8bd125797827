"""What stands between an answer and its machines: how many can be had, what their hosts are, who was measured."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.catalog.device_notes import device_notes
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.own_machines import OWN_CLOUD
from gpufleet.catalog.provider_classes import UNKNOWN, class_of, easily_had_gpus
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
    """That so many GPUs of a type in a region are not had without asking, and whose row is."""
    if is_easily_had(answer, easily_had):
        return []
    row = next((i for i, d in enumerate(others, 2) if is_easily_had(d, easily_had)), None)
    instead = "no row needs so few that they are" if row is None else f"row {row} needs {had_words(others[row - 2])}"
    whose = class_of(answer.cloud)
    of_class = "" if easily_had is not None or whose == UNKNOWN else f" of a provider that is {whose}"
    return [
        f"{num_gpus(answer):,.0f}x {answer.gpu} in one region are seldom had without a reservation{of_class} "
        f"(--easily-had {most_had(answer, easily_had):g}): ask {answer.cloud} first, or spread them over regions; "
        f"{instead}"
    ]


def is_easily_had(d: RentedMachines, easily_had: int | None) -> bool:
    """Whether a provider of that class is expected to have the machines of a row at once; one's own are there."""
    return d.cloud == OWN_CLOUD or num_gpus(d) <= most_had(d, easily_had)


def most_had(d: RentedMachines, easily_had: int | None) -> float:
    """GPUs of one type that one may expect of the provider of a row, or that somebody says."""
    return easily_had_gpus()[class_of(d.cloud)].value if easily_had is None else easily_had


def had_words(d: RentedMachines) -> str:
    """The GPUs of a row, and whose they are."""
    return f"{num_gpus(d):,.0f} of {d.cloud}"


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
