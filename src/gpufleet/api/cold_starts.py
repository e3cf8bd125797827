"""How long one more replica takes to start."""

from __future__ import annotations

import math
from os import PathLike

from gpufleet.answers.figures import cold_start_result
from gpufleet.api.configured import runnable_format
from gpufleet.architecture.parameters import weights_bytes
from gpufleet.catalog.cold_starts import load_cold_starts
from gpufleet.catalog.engines import find_engine, usual_engine
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.network import network_of
from gpufleet.catalog.query import resolve_gpu, resolve_instance
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.cold_start import ColdStart, Compiled, ReplicaToStart, Storage
from gpufleet.domain.instance import Instance
from gpufleet.errors import UnknownName, UsageError
from gpufleet.inputs.gpu_request import GpuRequest, parse_gpus
from gpufleet.inputs.model_config import model_asked
from gpufleet.optimize.links import usual_machine
from gpufleet.performance.cold_start import cold_start
from gpufleet.results.base import Input
from gpufleet.results.cold_start import ColdStartResult
from gpufleet.units import BYTES

STORAGE_OF_NEW_MACHINE, STORAGE_OF_RUNNING_MACHINE = "object-store", "local-nvme"


def cold_start_of(
    model: str | PathLike[str] | Architecture,
    gpus: str,
    engine: str | None = None,
    instance: str | None = None,
    *,
    storage: str | None = None,
    warm_node: bool = False,
    compiled: str | None = None,
    precision: str | None = None,
    image_bytes: float | None = None,
    catalog: Catalog | None = None,
) -> ColdStartResult:
    """Seconds until one more replica answers, by stage, with ranges, grades and sources.

    `warm_node`: the machine runs and holds the image. Without `storage` weights come from an object store to a new
    machine, from its own disks to one that runs. `compiled`: cached, fresh or none; without it, cached where the
    machine runs. Waiting for a machine that cannot be had is no part of it.

    >>> [stage.name for stage in cold_start_of("llama-3-8b", "A10G", warm_node=True).stages]
    ['process', 'weights', 'compilation', 'warm-up']
    """
    tables = load_catalog() if catalog is None else catalog
    arch = model_asked(model, shipped_architecture)
    asked, profile = parse_gpus(gpus), find_engine(usual_engine(arch) if engine is None else engine)
    gpu = resolve_gpu(tables, asked.name).accelerator
    machine = None if instance is None else machine_of(tables, instance, gpu)
    weights = runnable_format(arch, profile, gpu, precision)
    where = storage_named(storage or (STORAGE_OF_RUNNING_MACHINE if warm_node else STORAGE_OF_NEW_MACHINE))
    replica = ReplicaToStart(
        weights_bytes=float(weights_bytes(arch, weights)),
        num_layers=arch.num_layers,
        num_devices=asked.number,
        num_machines=machines_for(asked.number, machine, gpu),
        warm_node=warm_node,
        compiled=compiled_named(compiled, warm_node),
        line_bytes_per_s=None if machine is None else network_of(machine).bytes_per_s,
        image_bytes=checked_image_bytes(image_bytes),
    )
    return cold_start_result(
        start_of(replica, profile.name, where),
        model=arch.name,
        gpus=f"{asked.number}x {gpu.name}",
        engine=profile.title,
        storage=where.title,
        weights_bytes=replica.weights_bytes,
        inputs=understood(replica, asked, instance, storage, compiled),
    )


def start_of(replica: ReplicaToStart, engine: str, storage: Storage) -> ColdStart:
    """The stages of one replica's start by the shipped facts; an engine that nobody described has a wide prior."""
    facts = load_cold_starts()
    return cold_start(replica, facts.engine(engine), storage, facts.node)


def storage_named(name: str) -> Storage:
    """Where weights lie, by its name."""
    storages = load_cold_starts().storages
    try:
        return storages[name.strip().casefold()]
    except KeyError:
        raise UnknownName("storage", name, storages, hint=f"Known: {', '.join(storages)}.") from None


def compiled_named(word: str | None, warm_node: bool) -> Compiled:
    """Whether compiled code is at hand; unless said, on a machine that runs."""
    if word is None:
        return Compiled.CACHED if warm_node else Compiled.FRESH
    try:
        return Compiled(word)
    except ValueError:
        expected = ", ".join(each.value for each in Compiled)
        raise UsageError("cannot read how the engine compiles", found=word, expected=f"one of {expected}") from None


def machine_of(tables: Catalog, instance: str, gpu: Accelerator) -> Instance:
    """The named machine type, which must hold GPUs of this kind."""
    machine = resolve_instance(tables, instance)
    if machine.accelerator != gpu.name:
        found = f"{machine.gpu_count:g}x {machine.accelerator}"
        raise UsageError(f"{machine.cloud} {machine.name} holds no {gpu.name}", found=found)
    return machine


def machines_for(num_gpus: int, machine: Instance | None, gpu: Accelerator) -> int:
    """How many machines a replica is spread over; where none is named, of the usual size."""
    per_machine = usual_machine(gpu) if machine is None else machine.gpu_count
    return math.ceil(num_gpus / max(per_machine, 1))


def checked_image_bytes(image_bytes: float | None) -> float | None:
    """A size of an image that can be meant."""
    if image_bytes is not None:
        BYTES.refuse_outside(image_bytes, "the size of the image", image_bytes)
    return image_bytes


def understood(
    replica: ReplicaToStart, asked: GpuRequest, instance: str | None, storage: str | None, compiled: str | None
) -> list[Input]:
    """What was asked, as it was read."""
    rows = [
        ("GPUs", f"{asked.name}:{asked.number}", True),
        ("machines", f"{replica.num_machines} x {instance or 'usual'}", instance is not None),
        ("machine runs", "yes" if replica.warm_node else "no", True),
        ("weights from", storage or "object store, or the disks of a machine that runs", storage is not None),
        ("compiled code", replica.compiled.value, compiled is not None),
    ]
    return [Input(name=name, value=value, origin="given" if said else "default") for name, value, said in rows]
