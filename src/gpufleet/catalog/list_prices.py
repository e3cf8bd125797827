"""List prices of the shipped tables, read with the standard library alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from gpufleet.files import entries_of, read_text_file, told_once
from gpufleet.units import MB

LARGEST_TABLE_BYTES = 100 * MB
SHIPPED = Path(__file__).parent.parent / "data"


class MachinePrice(NamedTuple):
    """A machine, its GPUs, and its cheapest list price on demand: where, and of which day."""

    name: str
    accelerator: str
    gpu_count: float
    usd_per_hour: float
    region: str
    as_of: str


@lru_cache(maxsize=8)
def accelerators_of(cloud: str) -> dict[str, tuple[str, float]]:
    """GPU and number of GPUs of each machine of a cloud whose number is known."""
    tables = [path for path in entries_of(SHIPPED / "instances") if path.name == f"{cloud}.csv"]
    rows = (row for path in tables for row in rows_of(path))
    return {row["name"]: (row["accelerator"], float(row["gpu_count"])) for row in rows if row["gpu_count"]}


@lru_cache(maxsize=8)
def list_prices(cloud: str) -> dict[str, MachinePrice]:
    """The cheapest list price on demand of each machine; of several days in one region, the newest.

    >>> list_prices("aws")["p5.48xlarge"].gpu_count
    8.0
    """
    newest: dict[tuple[str, str], MachinePrice] = {}
    for path in entries_of(SHIPPED / "offers" / cloud):
        for price in prices_in(path, accelerators_of(cloud)):
            known = newest.get((price.name, price.region))
            if known is None or known.as_of <= price.as_of:
                newest[price.name, price.region] = price
    dearest_first = sorted(newest.values(), key=lambda price: (-price.usd_per_hour, price.region))
    return {price.name: price for price in dearest_first}


def prices_in(path: Path, machines: dict[str, tuple[str, float]]) -> Iterator[MachinePrice]:
    """The list prices on demand of one file."""
    for row in rows_of(path):
        name = row["instance_type"]
        if row["price_kind"] == "on_demand" and row["basis"] == "list" and name in machines:
            price = float(row["price_per_instance_usd_per_hour"])
            yield MachinePrice(name, *machines[name], price, row["region"], row["as_of"])


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table, with what its header says of all of them."""
    header, *rows = csv.reader(read_text_file(path, "a shipped table", LARGEST_TABLE_BYTES).splitlines())
    names, same = told_once(header)
    return ({**dict(zip(names, row, strict=True)), **same} for row in rows)
