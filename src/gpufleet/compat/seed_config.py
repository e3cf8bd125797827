"""The classic JSON configs for the modern verbs: rows become machines with prices, workloads become requests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from gpufleet.api import ServeRequest
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.compat.classic.comparison import accelerator_of, architecture_of
from gpufleet.compat.classic.config import Config, load_config
from gpufleet.compat.classic.names import WorkloadType
from gpufleet.compat.classic.records import GpuInstance
from gpufleet.compat.classic.whole_machines import is_price_of_machine, machine_sold
from gpufleet.domain.fabric import Fabric
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.errors import DataMissing, UsageError
from gpufleet.provenance import Source
from gpufleet.records import dataclass
from gpufleet.units import GIGA

CLOUD, REGION, SOURCE = "seed-config", "configured", "seed-config"
LINK_WORDS = {"nvswitch": "nvswitch", "nvlink": "nvlink"}
DIRECTIONS = 2


@dataclass(frozen=True)
class SeedCatalog:
    """A catalog whose only machines are the rows of a config, and what is to be said about it."""

    catalog: Catalog
    notes: tuple[str, ...]


def seed_catalog(config_dir: str | os.PathLike[str], today: date, base: Catalog | None = None) -> SeedCatalog:
    """The rows of a classic config as machines of one cloud, at their printed prices on demand and on spot.

    GPUs come from the catalog by name; a row whose GPU is not there is left out, with a note.

    >>> from gpufleet.compat.classic.fragments import shipped_folder
    >>> len(seed_catalog(shipped_folder(), date(2026, 1, 1)).catalog.offers)
    18
    """
    config, tables = load_config(config_dir), load_catalog() if base is None else base
    machines = {row.key: machine_of(tables, row) for row in config.instances.values()}
    known = {row.key: row for row in config.instances.values() if machines[row.key] is not None}
    if not known:
        raise DataMissing("no GPU of the config is in the catalog", found=", ".join(machines))
    offers = tuple(
        offer for key, row in known.items() for offer in offers_of(row, gpus_priced(row, machines[key]), today)
    )
    source = Source(SOURCE, f"classic config {config.folder}", today)
    catalog = replace(
        tables,
        instances={(CLOUD, key): machine for key, machine in machines.items() if machine is not None},
        incomplete_instances={},
        offers=offers,
        availability=(),
        sources={**tables.sources, SOURCE: source},
    )
    return SeedCatalog(catalog, tuple(notes_on(config, machines)))


def machine_of(tables: Catalog, row: GpuInstance) -> Instance | None:
    """A row as a machine; its links as the row says, GB/s in both directions."""
    gpu = accelerator_of(tables, row)
    if gpu is None:
        return None
    named = (kind for word, kind in LINK_WORDS.items() if word in row.interconnect_type.casefold())
    kind = next(named, "pcie") if row.gpus_per_instance > 1 else "none"
    link_bytes_per_s = row.interconnect_bandwidth_gbps * GIGA / DIRECTIONS
    return Instance(
        cloud=CLOUD,
        name=row.key,
        accelerator=gpu.name,
        gpu_count=row.gpus_per_instance,
        vcpus=row.vcpus,
        memory_gib=None,
        fabric=Fabric(kind, link_bytes_per_s if kind != "none" else None, row.interconnect_type, "classic config"),
        network_gbit_per_s=None,
        local_ssd_gb=None,
        source=SOURCE,
    )


def gpus_priced(row: GpuInstance, machine: Instance | None) -> int:
    """How many times a machine costs the printed price: once where that is of the whole machine, else for each GPU."""
    sold = machine_sold(row, "" if machine is None else machine.accelerator)
    return 1 if is_price_of_machine(row, sold) else row.gpus_per_instance


def offers_of(row: GpuInstance, times_printed: int, today: date) -> Iterator[Offer]:
    """Both prices of a row."""
    prices = {PriceKind.ON_DEMAND: row.on_demand_cost_per_hour, PriceKind.SPOT: row.spot_cost_per_hour}
    for kind, printed_usd_per_hour in prices.items():
        price = printed_usd_per_hour * times_printed
        yield Offer(CLOUD, REGION, row.key, kind, price, PriceBasis.ESTIMATED, SOURCE, today)


def notes_on(config: Config, machines: dict[str, Instance | None]) -> Iterator[str]:
    """What was read how, and what was left out."""
    yield f"Prices and machines from {config.folder}: a machine costs its printed price for each of its GPUs."
    whole = [
        row.key for row in config.instances.values() if 1 == gpus_priced(row, machines[row.key]) < row.gpus_per_instance
    ]
    if whole:
        yield f"The printed price is that of the whole machine for {', '.join(whole)}, by the list prices of AWS."
    left_out = [f"{key} ({config.instance(key).gpu_type})" for key, machine in machines.items() if machine is None]
    if left_out:
        yield f"Left out, as the catalog has no such GPU: {', '.join(left_out)}."
    yield from config.notes


def seed_request(
    config_dir: str | os.PathLike[str], workload_id: str, rate: float, input_tokens: float, output_tokens: float
) -> ServeRequest:
    """An inference workload of a config as a question to `plan_serve`; rate and lengths are not in the config."""
    config = load_config(config_dir)
    scenario = config.workload(workload_id).scenario
    if scenario.workload_type != WorkloadType.INFERENCE.value:
        raise UsageError(f"{workload_id} is {scenario.workload_type}", expected="an inference workload")
    return ServeRequest(
        model=architecture_of(config.size(scenario.model_size)),
        rate=rate,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        precision=[scenario.precision.casefold()],
        pricing=[PriceKind.SPOT.value] if scenario.use_spot else None,
    )
