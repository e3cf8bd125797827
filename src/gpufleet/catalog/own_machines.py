"""Machines that a user owns, from owned.toml: each becomes an instance type and an offer by the hour."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from gpufleet.catalog.schema import (
    LINK_KINDS,
    Place,
    choice,
    day,
    number,
    refuse_unknown_keys,
    required_number,
    text,
    whole,
)
from gpufleet.domain.fabric import Fabric
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, OwnPower, PriceBasis, PriceKind
from gpufleet.errors import UsageError
from gpufleet.pricing.owned import owned_usd_per_hour
from gpufleet.units import DAY, GIGA, HOUR, HOURS_PER_YEAR

LEAST_USD_PER_GPU, LEAST_WATTS_PER_GPU, MOST_YEARS = 500.0, 20.0, 15.0
LEAST_USD_PER_KWH, MOST_USD_PER_KWH = 0.005, 3.0
OWN_CLOUD, HOME = "own", "home"
OWNED_KEYS = frozenset(
    {
        *("accelerator", "gpu_count", "num_machines", "region", "vcpus", "memory_gib", "local_ssd_gb"),
        *("link_kind", "link_gb_per_s_per_direction", "network_gbit_per_s"),
        *(
            "purchase_usd",
            "purchased",
            "years",
            "power_watts",
            "electricity_usd_per_kwh",
            "cooling_ratio",
            "other_usd_per_year",
        ),
        *("source_id", "as_of"),
    }
)


class OwnMachine(NamedTuple):
    """A machine as a type, and its price."""

    instance: Instance
    offer: Offer


def own_machine(place: Place, name: str, table: Mapping[str, Any], default_source: str, today: date) -> OwnMachine:
    """A table of owned.toml, as old as its machine is on `today`."""
    refuse_unknown_keys(place, table, OWNED_KEYS)
    source = text(place, "source_id", table.get("source_id", default_source))
    try:
        return OwnMachine(own_instance(place, name, table, source), own_offer(place, name, table, source, today))
    except ValueError as refusal:
        raise UsageError(f"{place}: {refusal}") from None


def stated(place: Place, column: str, table: Mapping[str, Any]) -> float:
    """A number that must be said, also where it is zero."""
    value = number(place, column, table.get(column))
    if value is None:
        raise UsageError(f"{place}: {column} is missing", expected="a number, 0 where it costs nothing")
    return value


def own_instance(place: Place, name: str, table: Mapping[str, Any], source: str) -> Instance:
    """The machine as an instance type of the cloud 'own'."""
    gpu_count = required_number(place, "gpu_count", table.get("gpu_count", 1))
    return Instance(
        cloud=OWN_CLOUD,
        name=name,
        accelerator=text(place, "accelerator", table.get("accelerator")),
        gpu_count=gpu_count,
        vcpus=whole(place, "vcpus", table.get("vcpus")),
        memory_gib=number(place, "memory_gib", table.get("memory_gib")),
        fabric=own_fabric(place, table, gpu_count),
        network_gbit_per_s=number(place, "network_gbit_per_s", table.get("network_gbit_per_s")),
        local_ssd_gb=number(place, "local_ssd_gb", table.get("local_ssd_gb")),
        source=source,
        evidence="stated by its owner",
    )


def own_fabric(place: Place, table: Mapping[str, Any], gpu_count: float) -> Fabric:
    """Links as stated; several GPUs need one, and for PCIe its rate."""
    kind = choice(place, "link_kind", table.get("link_kind", "none"), {kind: kind for kind in LINK_KINDS})
    gigabytes = number(place, "link_gb_per_s_per_direction", table.get("link_gb_per_s_per_direction"))
    if (kind == "none") != (gpu_count <= 1):
        expected = "a link such as pcie for several GPUs" if gpu_count > 1 else "none for a single GPU"
        raise UsageError(f"{place}: link_kind does not suit {gpu_count:g} GPUs", found=kind, expected=expected)
    if kind != "none" and not gigabytes:
        expected = "GB/s of one direction: 32 for 16 lanes of PCIe 4"
        raise UsageError(f"{place}: link_gb_per_s_per_direction is missing", expected=expected)
    return Fabric(kind, None if gigabytes is None else gigabytes * GIGA, kind, "stated by its owner")


def own_power(place: Place, table: Mapping[str, Any]) -> OwnPower:
    """What the machine draws, and what that costs."""
    cooling = required_number(place, "cooling_ratio", table.get("cooling_ratio", 1.0))
    if cooling < 1:
        raise UsageError(f"{place}: cooling_ratio is under 1", found=cooling, expected="the PUE, such as 1.3")
    watts = required_number(place, "power_watts", table.get("power_watts"))
    electricity = stated(place, "electricity_usd_per_kwh", table)
    gpus = required_number(place, "gpu_count", table.get("gpu_count", 1))
    if watts < LEAST_WATTS_PER_GPU * gpus:
        raise unlikely(
            place, "power_watts", watts, f"the watts of the whole machine, over {LEAST_WATTS_PER_GPU:g} a GPU"
        )
    if electricity and not LEAST_USD_PER_KWH <= electricity <= MOST_USD_PER_KWH:
        raise unlikely(place, "electricity_usd_per_kwh", electricity, "dollars, such as 0.30 (30 cents)")
    return OwnPower(watts, cooling, electricity)


def unlikely(place: Place, column: str, found: float, expected: str) -> UsageError:
    """A number that a slip of the unit explains, and nothing else does."""
    return UsageError(f"{place}: {column} cannot be meant", found=f"{found:g}", expected=expected)


def age_years(place: Place, table: Mapping[str, Any], today: date) -> float:
    """Years since the machine was bought; 0 where nobody says when."""
    if "purchased" not in table:
        return 0.0
    purchased = day(place, "purchased", table["purchased"])
    if purchased > today:
        raise UsageError(f"{place}: purchased lies in the future", found=purchased, expected=f"a day up to {today}")
    return (today - purchased).days * DAY / (HOURS_PER_YEAR * HOUR)


def own_price(place: Place, table: Mapping[str, Any], power: OwnPower, today: date) -> float:
    """The machine by the hour: what is left to write off, power with cooling, everything else."""
    purchase = stated(place, "purchase_usd", table)
    gpus = required_number(place, "gpu_count", table.get("gpu_count", 1))
    if 0 < purchase < LEAST_USD_PER_GPU * gpus:
        expected = f"dollars for the machine, over {LEAST_USD_PER_GPU:g} a GPU, or 0 (90000, no dot for thousands)"
        raise unlikely(place, "purchase_usd", purchase, expected)
    years = required_number(place, "years", table.get("years", None if purchase else 1))
    if years > MOST_YEARS:
        raise unlikely(place, "years", years, f"the years that a machine is written off in, up to {MOST_YEARS:g}")
    price = owned_usd_per_hour(
        power,
        purchase_usd=purchase,
        years=years,
        age_years=age_years(place, table, today),
        other_usd_per_year=number(place, "other_usd_per_year", table.get("other_usd_per_year")) or 0.0,
    )
    if not price:
        expected = "electricity, other_usd_per_year or a purchase that is not written off"
        raise UsageError(f"{place}: a machine that costs nothing cannot be ranked", expected=expected)
    return price


def own_offer(place: Place, name: str, table: Mapping[str, Any], source: str, today: date) -> Offer:
    """The machine as an offer, used or not."""
    power = own_power(place, table)
    return Offer(
        cloud=OWN_CLOUD,
        region=text(place, "region", table.get("region", HOME)),
        instance=name,
        price_kind=PriceKind.OWNED,
        price_per_instance_usd_per_hour=own_price(place, table, power, today),
        basis=PriceBasis.ESTIMATED,
        source=source,
        as_of=day(place, "as_of", table.get("as_of")),
        max_instances=whole(place, "num_machines", table.get("num_machines", 1)),
        own_power=power,
    )
