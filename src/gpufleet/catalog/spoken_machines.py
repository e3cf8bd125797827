"""Machines that somebody has, said in one line: '2 x 8 RTX-4090', '4 x A100-80GB at 0.12/kWh'."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.current_date import current_date
from gpufleet.catalog.own_machines import OwnMachine, own_machine
from gpufleet.catalog.own_terms import OWN_SOURCE, OWN_TITLE
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.schema import Place
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.accelerator import Accelerator
from gpufleet.errors import DataMissing, UsageError
from gpufleet.optimize.links import usual_link
from gpufleet.provenance import Source
from gpufleet.units import GIGA

EXAMPLE = "'2 x 8 RTX-4090' (machines x GPUs of each), '4 x A100-80GB' (one machine), 'at 0.12/kWh' after it"
COUNT = r"(?:(\d{1,5})\s*(?:[x×]\s*|\s))?"
SPOKEN = re.compile(rf"{COUNT}{COUNT}([A-Za-z][^@]*?)(?:\s+at\s+\$?(\d+(?:\.\d+)?)\s*/\s*kWh)?", re.IGNORECASE)
MOST_MACHINES, MOST_GPUS = 10_000, 72


class SpokenMachines(NamedTuple):
    """So many machines with so many GPUs, and what their electricity costs where it was said   [USD/kWh]."""

    machines: int
    gpus: int
    gpu: str
    usd_per_kwh: float | None


def parse_spoken(text: str) -> SpokenMachines:
    """What was said of one's own machines; a single count is that of the GPUs of one machine.

    >>> parse_spoken("2 x 8 RTX-4090"), parse_spoken("4 x A100-80GB at 0.12/kWh").usd_per_kwh
    (SpokenMachines(machines=2, gpus=8, gpu='RTX-4090', usd_per_kwh=None), 0.12)
    """
    match = SPOKEN.fullmatch(text.strip())
    if match is None:
        raise UsageError("cannot read machines of your own", found=text, expected=EXAMPLE)
    first, second, gpu, price = match.groups()
    machines, gpus = (int(first), int(second)) if second else (1, int(first or 1))
    if not (1 <= machines <= MOST_MACHINES and 1 <= gpus <= MOST_GPUS):
        expected = f"1 to {MOST_MACHINES:,} machines with 1 to {MOST_GPUS} GPUs each"
        raise UsageError("no such number of machines or GPUs", found=text, expected=expected)
    return SpokenMachines(machines, gpus, gpu.strip(), None if price is None else float(price))


@lru_cache(maxsize=16)
def with_owned(tables: Catalog, owned: tuple[str, ...]) -> Catalog:
    """The tables with machines of one's own, each an instance type and an offer by the hour."""
    if not owned:
        return tables
    machines = [spoken_machine(text, number, tables) for number, text in enumerate(owned, 1)]
    return replace(
        tables,
        instances={**tables.instances, **{(m.instance.cloud, m.instance.name): m.instance for m in machines}},
        offers=(*tables.offers, *(m.offer for m in machines)),
        sources={**tables.sources, OWN_SOURCE: Source(OWN_SOURCE, OWN_TITLE)},
    )


def spoken_machine(text: str, number: int, tables: Catalog) -> OwnMachine:
    """The machine that a line describes, bought and paid for: it costs its electricity."""
    said = parse_spoken(text)
    gpu = resolve_gpu(tables, said.gpu).accelerator
    name = f"{said.gpus}x_{gpu.name}" + (f"_{number}" if number > 1 else "")
    return own_machine(Place("--owned", text), name, described(said, gpu), OWN_SOURCE, current_date())


def described(said: SpokenMachines, gpu: Accelerator) -> Mapping[str, Any]:
    """The same as a table of owned.toml: board power of the GPUs, links of their kind."""
    if gpu.board_power_watts is None:
        raise DataMissing(
            f"the board power of {gpu.name} is not known", hint="owned.toml (--catalog) says what a machine draws."
        )
    usd_per_kwh = load_habits().electricity_usd_per_kwh.value if said.usd_per_kwh is None else said.usd_per_kwh
    return {
        "accelerator": gpu.name,
        "gpu_count": said.gpus,
        "num_machines": said.machines,
        "purchase_usd": 0,
        "power_watts": gpu.board_power_watts * said.gpus,
        "electricity_usd_per_kwh": usd_per_kwh,
        "as_of": str(current_date()),
        **links(gpu, said.gpus),
    }


def links(gpu: Accelerator, num_gpus: int) -> dict[str, Any]:
    """The usual link between so many GPUs."""
    if num_gpus == 1:
        return {}
    is_pcie, bytes_per_s = usual_link(gpu, num_gpus)
    return {"link_kind": "pcie" if is_pcie else "nvswitch", "link_gb_per_s_per_direction": bytes_per_s / GIGA}


def owned_notes(owned: Sequence[str]) -> list[str]:
    """What was taken of machines of which one line says everything."""
    if not owned:
        return []
    unsaid = [text for text in owned if parse_spoken(text).usd_per_kwh is None]
    price = load_habits().electricity_usd_per_kwh.value
    at = f" at ${price:.2f}/kWh (say 'at 0.12/kWh')" if unsaid else ""
    said = f"Your own machines cost the electricity of their GPUs' board power{at}"
    return [f"{said}; hosts, cooling and purchase are left out"]
