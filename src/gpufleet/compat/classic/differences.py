"""Where the figures of a report differ from the catalog's: prices, peaks, links, memory, rules of thumb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpufleet.catalog.load import Catalog
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.compat.classic.names import WorkloadType
from gpufleet.compat.classic.options import Question
from gpufleet.compat.classic.records import GpuInstance
from gpufleet.compat.classic.whole_machines import is_price_of_machine, machine_sold
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import PriceKind
from gpufleet.units import GB, PERCENT, TERA

NEAR_RATIO, NEAR_PRICE_RATIO = 0.05, 0.02
SPOT_SAVING_LOW, SPOT_SAVING_HIGH = 60, 70
LINK_WORDS = ("nvlink", "nvswitch")


def differences(
    tables: Catalog, question: Question, rows: Sequence[GpuInstance], gpus: Mapping[str, Accelerator | None]
) -> list[str]:
    """At most one line for each row, and one on the rule of memory."""
    lines = [row_line(tables, row, gpus[row.key]) for row in rows]
    return [line for line in lines if line] + [memory_rule(question)]


def row_line(tables: Catalog, row: GpuInstance, gpu: Accelerator | None) -> str:
    """How a row of gpu_instances.json differs from what is sold."""
    machine = tables.instances.get(("aws", row.stands_for))
    parts = [*price_parts(tables, row, machine), *link_parts(row, machine), *gpu_parts(row, gpu), *spot_parts(row)]
    return f"{row.key} differs from today: {'; '.join(parts)}." if parts else ""


def price_parts(tables: Catalog, row: GpuInstance, machine: Instance | None) -> Iterator[str]:
    """The printed price per GPU beside that of the machine behind it."""
    if machine is None:
        return
    wanted = OfferFilter(clouds={"aws"}, instances={machine.name}, price_kinds={PriceKind.ON_DEMAND})
    prices = [offer.price_per_instance_usd_per_hour for offer in matching_offers(tables, wanted)]
    if not prices:
        yield f"${row.on_demand_cost_per_hour:,.2f} per GPU here, the price of {machine.name} today is unknown"
        return
    each = min(prices) / machine.gpu_count
    if abs(row.on_demand_cost_per_hour / each - 1) > NEAR_PRICE_RATIO:
        whole = f"{machine.name} with {machine.gpu_count:g} GPUs costs ${min(prices):,.2f}/h, ${each:,.2f} a GPU"
        is_of_machine = is_price_of_machine(row, machine_sold(row))
        here = "here is the price of a whole machine:" if is_of_machine else "per GPU here,"
        yield f"${row.on_demand_cost_per_hour:,.2f} {here} {whole}"


def link_parts(row: GpuInstance, machine: Instance | None) -> Iterator[str]:
    """A link that the machine does not have."""
    claims_link = any(word in row.interconnect_type.casefold() for word in LINK_WORDS)
    if machine is not None and claims_link and not machine.fabric.is_switched:
        yield f"no {row.interconnect_type}, its GPUs talk over PCIe"


def gpu_parts(row: GpuInstance, gpu: Accelerator | None) -> Iterator[str]:
    """Peaks with sparsity, and memory that the driver does not report."""
    if gpu is None:
        return
    dense = gpu.peak_flop_per_s.get("fp16", 0.0) / TERA
    if dense and abs(row.compute_tflops / dense - 1) > NEAR_RATIO:
        yield f"{row.compute_tflops:,.0f} TFLOPS are with sparsity, {dense:,.0f} dense"
    memory_gb = gpu.memory_bytes / GB
    if row.gpu_memory_gb > memory_gb and abs(row.gpu_memory_gb / memory_gb - 1) > NEAR_RATIO:
        yield f"{row.gpu_memory_gb:g} GB here, {memory_gb:.0f} GB usable at most"


def spot_parts(row: GpuInstance) -> Iterator[str]:
    """A discount outside of what the guide says of all of them."""
    saving = (1 - row.spot_cost_per_hour / row.on_demand_cost_per_hour) * PERCENT
    if not SPOT_SAVING_LOW <= round(saving) <= SPOT_SAVING_HIGH:
        yield f"spot saves {saving:.0f}% by its own row, not {SPOT_SAVING_LOW}-{SPOT_SAVING_HIGH}%"


def memory_rule(question: Question) -> str:
    """Why the rule of thumb for memory is not what a model takes."""
    factor = f"x {question.overhead:.3g} for {question.work.title}"
    if question.work is WorkloadType.INFERENCE:
        return (
            f"{factor} ignores architecture, context and users; 'gpufleet fit' counts the KV cache of each "
            "user, and how many fit."
        )
    return (
        f"{factor} leaves too little for gradients and optimizer states: mixed-precision Adam takes x 8 of "
        "the FP16 size (another seed says x 6); adapters alone take far less."
    )
