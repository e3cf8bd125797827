"""Whether the printed price of a row is that of one GPU or of the whole machine, by the shipped list prices."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from gpufleet.catalog.list_prices import MachinePrice, accelerators_of, list_prices
from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.compat.classic.lines import plural, usd
from gpufleet.compat.classic.records import GpuInstance

CLOUD = "aws"


def machine_sold(row: GpuInstance, accelerator: str = "") -> MachinePrice | None:
    """The machine behind a row with its list price, else the cheapest with the same GPUs; None where no price is known.

    `accelerator` names the GPU in the catalog, for rows that stand for no machine.
    """
    prices = list_prices(CLOUD)
    if row.stands_for in prices:
        return prices[row.stands_for]
    gpu, _ = accelerators_of(CLOUD).get(row.stands_for, (accelerator, 0.0))
    alike = [price for price in prices.values() if (price.accelerator, price.gpu_count) == (gpu, row.gpus_per_instance)]
    return min(alike, key=lambda price: price.usd_per_hour, default=None)


def is_price_of_machine(row: GpuInstance, machine: MachinePrice | None) -> bool | None:
    """Whether the printed price is nearer to that of the machine than to its share for one GPU; None: unknown.

    'Nearer' is by ratio. A machine with one GPU has one price.
    """
    if machine is None or row.gpus_per_instance == 1:
        return None
    return row.on_demand_cost_per_hour > machine.usd_per_hour / math.sqrt(machine.gpu_count)


def whole_machine_lines(rows: Iterable[GpuInstance], told: Collection[str]) -> Iterator[str]:
    """Which rows print the price of a whole machine, and a sentence with the figures for those that are `told`."""
    whole = {row.key: row for row in rows if is_price_of_machine(row, machine_sold(row))}
    for key, row in whole.items():
        machine = machine_sold(row)
        if key in told and machine is not None:
            each = machine.usd_per_hour / machine.gpu_count
            yield (
                f"${row.on_demand_cost_per_hour:,.2f} for {key} is the price of a whole machine, not of one GPU: "
                f"{said(machine)}, ${each:,.2f} a GPU."
            )
    if whole:
        yield f"What a move from or to {', '.join(whole)} saves below is not real: all of them print such prices."


def listed_lines(setup: Setup) -> Iterator[str]:
    """What the cheapest single machine with the GPUs of a setup lists at, where there is one with a price."""
    behind = machine_sold(setup.instance)
    prices = list_prices(CLOUD).values() if behind is not None else ()
    holding = [p for p in prices if behind and p.accelerator == behind.accelerator and p.gpu_count >= setup.gpu_count]
    if holding:
        machine = min(holding, key=lambda price: price.usd_per_hour)
        month = usd(machine.usd_per_hour * setup.monthly_hours)
        yield f"{month} a month on demand today: {said(machine)}"


def said(machine: MachinePrice) -> str:
    """A machine and its list price."""
    price = f"${machine.usd_per_hour:,.2f}/h in {machine.region}, list price of {machine.as_of}"
    return f"{machine.name} with {plural(machine.gpu_count, 'GPU')} costs {price}"
