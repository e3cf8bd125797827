"""What is to be said of the machines of an answer: their prices, how many can be had, their hosts, who was measured.

Of prices: that they end, that nobody lists them, that they are in doubt. What ends within the month is warned of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta

from gpufleet.catalog.device_notes import device_notes
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.own_machines import OWN_CLOUD
from gpufleet.catalog.price_drift import drift_of_provider, moved_between, price_drifts
from gpufleet.catalog.provider_classes import UNKNOWN, class_of, easily_had_gpus
from gpufleet.domain.offer import PriceKind
from gpufleet.provenance import Grade
from gpufleet.results.rented import OfferedMachines, RentedMachines
from gpufleet.units import HOURS_PER_MONTH

MONTH = timedelta(hours=HOURS_PER_MONTH)
TOLD_RATIO = 1.02
PROVIDERS = {
    "hyperscaler": "large clouds",
    "established": "established providers",
    "small": "small providers",
    "marketplace": "marketplaces",
    "unknown": "providers",
}
SAME_PRICE_RATIO = 1.01


def said_of_prices(
    rented: Sequence[RentedMachines], tables: Catalog, beside: Iterable[OfferedMachines | None] = ()
) -> list[str]:
    """What is to be said of the prices of an answer, and of what else it names."""
    return [
        *doubts_of(rented, beside),
        *aged_notes(rented, tables.now),
        *ending_soon(rented, tables.now),
        *unlisted_notes(rented, tables),
    ]


def aged_notes(rented: Iterable[RentedMachines], now: date | None) -> Iterator[str]:
    """What one likely pays by now where that is more than the price of its day, and how prices of such age moved."""
    drifts = price_drifts()
    for d in rented:
        if now is None or d.price_age_ratio < TOLD_RATIO or d.price_as_of is None:
            continue
        drift, days = drift_of_provider(drifts, d.cloud, PriceKind(d.price_kind)), (now - d.price_as_of).days
        if drift is not None:
            low, high = (f"{ratio - 1:+.0%}" for ratio in moved_between(drift, days))
            likely = d.usd_per_hour * d.price_age_ratio
            yield (
                f"The price of {d.cloud} {d.instance} is {days} days old; those of {PROVIDERS[class_of(d.cloud)]} "
                f"moved {low} to {high} in such a time: likely ${likely:,.2f}/h by now"
            )


def doubts_of(rented: Iterable[OfferedMachines], beside: Iterable[OfferedMachines | None] = ()) -> list[str]:
    """A warning for each price in doubt that an answer rests on, and a note for those that it only names."""
    warned = dict.fromkeys(doubt_words(d) for d in rented if d.price_doubt)
    named = dict.fromkeys(doubt_words(d) for d in beside if d is not None and d.price_doubt)
    return [*(f"Warning: {words}" for words in warned), *(words for words in named if words not in warned)]


def doubts_of_file(answer: RentedMachines, tables: Catalog) -> list[str]:
    """A warning where the machines of a plan file are in doubt: when it was written, or in the tables of today."""
    offer = (answer.cloud, answer.region, answer.instance, answer.price_kind)
    alike = (o for o in tables.offers if (o.cloud, o.region, o.instance, o.price_kind.value) == offer)
    doubts = dict.fromkeys([answer.price_doubt, *(o.doubt for o in alike)])
    told = "; ".join(doubt for doubt in doubts if doubt)
    return doubts_of([answer.model_copy(update={"price_doubt": told})])


def doubt_words(d: OfferedMachines) -> str:
    """Which price is in doubt, and why."""
    return f"{d.cloud} {d.instance} ({d.region}, {d.price_kind.replace('_', ' ')}) is in doubt: {d.price_doubt}"


def unlisted_notes(rented: Iterable[RentedMachines], tables: Catalog) -> Iterator[str]:
    """Machines at a price of the user's own that the cloud is not known to sell in that region."""
    for d in rented:
        day = tables.unlisted.get((d.cloud, d.region, d.instance))
        if day is not None:
            yield f"{d.cloud} does not list {d.instance} in {d.region} in the table of {day}; only your own price does"


def ending_soon(rented: Iterable[OfferedMachines], day: date | None) -> Iterator[str]:
    """A warning for each price that ends within the month (730 hours) that a monthly cost is of."""
    for d in rented:
        if day is not None and d.price_until is not None and d.price_until - day <= MONTH:
            left = (d.price_until - day).days
            days = "today is its last day" if left == 0 else f"{left} day{'s' * (left != 1)} from {day}"
            yield (
                f"Warning: the price of {d.instance_count}x {d.cloud} {d.instance} ends on {d.price_until} ({days}): "
                "this answer does not include what comes after it"
            )


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
    instead = "no row needs so few that they are"
    if row is not None:
        instead = f"row {row} needs {num_gpus(others[row - 2]):,.0f} of {others[row - 2].cloud}"
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
