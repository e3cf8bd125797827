"""How fast are copies that only prefill with copies that only decode, under one load."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.answers.pools import pools_estimate
from gpufleet.api.configured import configured, link_words, understood
from gpufleet.api.remarks import beyond_context
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.machine_links import gpus_of_machine, is_of, network_between
from gpufleet.catalog.query import resolve_gpu, resolve_instance
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.workload import Workload
from gpufleet.errors import GpufleetError, UsageError, named
from gpufleet.inputs.gpu_request import PoolRequest, parse_pool
from gpufleet.optimize.estimate import Load
from gpufleet.optimize.links import usual_link
from gpufleet.optimize.pools import DECODE, PREFILL, PoolOfCopies, PoolsQuestion, solve_pools
from gpufleet.performance.serving import Client
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.estimate import ServingEstimate
from gpufleet.units import GBIT

ASKED_LOADS = ("closed_loop", "open_loop")
OWN_ROWS = ("gpus", "link")


@dataclass(frozen=True)
class AskedPools:
    """Both pools as they were asked for."""

    prefill: PoolRequest
    decode: PoolRequest


@dataclass(frozen=True, eq=False)
class PoolSetup:
    """A pool as candidates of one row, its GPU, and what is to be said about how it was read."""

    pool: PoolOfCopies
    gpu: Accelerator
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]


def asked_pools(prefill: str | PoolRequest | None, decode: str | PoolRequest | None) -> AskedPools:
    """Both pools, read; one without the other is refused."""
    if prefill is None or decode is None:
        found = "decode alone" if prefill is None else "prefill alone"
        raise UsageError("prefill and decode come together", found=found, expected="both pools, or GPUs for one copy")
    pools = [
        text if isinstance(text, PoolRequest) else parse_pool(text, f"the {name} pool")
        for name, text in ((PREFILL, prefill), (DECODE, decode))
    ]
    return AskedPools(*pools)


def pool_setup(
    tables: Catalog,
    arch: Architecture,
    engine: EngineProfile,
    name: str,
    asked: PoolRequest,
    formats: tuple[str | None, str | None],
    instance: str | None,
) -> PoolSetup:
    """The copies of a pool, read and checked; what is wrong with them is said with the name of the pool."""
    if (asked.max_batch, asked.max_step_tokens) != (None, None):
        start, steps = engine.start, asked.max_step_tokens or engine.start.max_step_tokens
        engine = engine.started_with(
            replace(start, max_batch=asked.max_batch or start.max_batch, max_step_tokens=steps)
        )
    with named(f"{name} pool"):
        gpu = resolve_gpu(tables, asked.name).accelerator
        own = instance if instance is not None and is_of(tables, instance, gpu) else None
        parts = (asked.number, asked.tp, asked.pp or 1, asked.ep, asked.attention_dp or 1)
        try:
            copy = configured(tables, arch, asked.name, engine, parts, *formats, own)
        except GpufleetError as error:
            error.hint = error.hint and error.hint.replace("'--gpus ", "'")
            raise
    pool = PoolOfCopies(copy.candidates, asked.copies)
    shown = [row.model_copy(update={"value": pool.label}) if row.name == "gpus" else row for row in copy.inputs]
    return PoolSetup(pool, gpu, tuple(shown), copy.notes)


def estimate_pools(
    tables: Catalog,
    arch: Architecture,
    engine: EngineProfile,
    asked: AskedPools,
    formats: tuple[str | None, str | None],
    workload: Workload,
    load: Load,
    client: Client,
    instance: str | None,
) -> ServingEstimate:
    """Latency and throughput of both pools together, with ranges; `formats`: of the weights and of the KV cache."""
    if load.scenario not in ASKED_LOADS:
        raise UsageError(
            "prefill and decode apart are estimated under clients or arrivals",
            found=load.scenario.replace("_", " "),
            expected="--concurrency N or --rate N/TIME",
        )
    prefill = pool_setup(tables, arch, engine, PREFILL, asked.prefill, formats, instance)
    decode = pool_setup(tables, arch, engine, DECODE, asked.decode, formats, instance)
    if instance is not None and not any(is_of(tables, instance, setup.gpu) for setup in (prefill, decode)):
        machine = resolve_instance(tables, instance)
        raise UsageError(
            f"{machine.cloud} {machine.name} has the GPU of neither pool",
            found=machine.accelerator,
            expected=f"{prefill.gpu.name} or {decode.gpu.name}",
        )
    link, link_bytes_per_s = link_between(tables, prefill, decode, instance)
    question = PoolsQuestion(arch, prefill.pool, decode.pool, workload, load, client, link_bytes_per_s)
    solution = solve_pools(question, calibration_of(tables))
    notes = [*dict.fromkeys((*prefill.notes, *decode.notes)), *beyond_context(arch, question.mix.longest_tokens)]
    return pools_estimate(question, solution, link, asked_inputs(question, prefill, decode, link, instance), notes)


def asked_inputs(
    question: PoolsQuestion, prefill: PoolSetup, decode: PoolSetup, link: str, instance: str | None
) -> list[Input]:
    """Every input as it was read, each pool under its name."""
    rows = [row for row in prefill.inputs if row.name not in OWN_ROWS]
    pools = [
        Input(name=f"{name} pool", value=setup.pool.label, origin="given")
        for name, setup in ((PREFILL, prefill), (DECODE, decode))
    ]
    between = Input(name="link between pools", value=link, origin="given" if instance else "default")
    return [*rows, *pools, between, *understood(question.workload, question.load)]


def link_between(tables: Catalog, prefill: PoolSetup, decode: PoolSetup, instance: str | None) -> tuple[str, float]:
    """The link over which keys and values are handed on, in words and bytes/s of a GPU in one direction.

    Pools of one GPU type that have room in one machine use its own link, others the slower of their networks.
    """
    total, gpu = prefill.pool.num_gpus + decode.pool.num_gpus, prefill.gpu
    machine = None if instance is None else resolve_instance(tables, instance)
    if prefill.gpu.name == decode.gpu.name and total <= gpus_of_machine(tables, gpu, instance):
        if machine is None:
            is_pcie, rate = usual_link(gpu, total)
        else:
            is_pcie, rate = not machine.fabric.is_switched, machine.fabric.bytes_per_s or 0.0
        if rate:
            return f"in one machine, {link_words(is_pcie, rate)}", rate
    networks = [network_between(tables, setup.gpu, instance) for setup in (prefill, decode)]
    slowest = min(networks, key=lambda network: network.bytes_per_s.expected)
    rate, told = slowest.bytes_per_s.expected, "" if slowest.is_known else ", assumed"
    return f"between machines, {rate / GBIT:,.4g} Gbit/s a GPU{told}", rate
