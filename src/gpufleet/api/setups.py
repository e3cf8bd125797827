"""A question narrowed to some GPUs or one machine type, as users name them: 'L40S:4', 'L40S', 'aws:g6e.12xlarge'."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.api.market import machines, offer_filter
from gpufleet.api.serve_questions import architecture_of, serve_question
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.query import resolve_gpu, resolve_instance
from gpufleet.catalog.what_if import asked_prices
from gpufleet.domain.instance import Instance
from gpufleet.errors import DataMissing, UnknownName
from gpufleet.inputs.gpu_request import parse_gpus
from gpufleet.optimize.copies.decoder import WriterQuestion
from gpufleet.questions.fields import ServeRequest
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Setup:
    """GPUs that a question is narrowed to: an accelerator, replicas of a size (None: any), one machine type or all."""

    asked: str
    gpu: str
    gpus_per_replica: int | None
    instance: Instance | None
    notes: tuple[str, ...] = ()


def parse_setup(text: str, tables: Catalog) -> Setup:
    """GPUs or a machine type, with the number of GPUs of a replica or alone (replicas of any size)."""
    if ":" not in text or text.rpartition(":")[2].strip().isdigit():
        request = parse_gpus(text)
        size = request.number if ":" in text else None
        try:
            gpu = resolve_gpu(tables, request.name)
        except UnknownName as unknown:
            return machine_setup(request.name, tables, unknown, size)
        return Setup(text, gpu.accelerator.name, size, None, tuple(filter(None, [gpu.note])))
    return machine_setup(text, tables, None)


def machine_setup(
    text: str, tables: Catalog, otherwise: UnknownName | None, gpus_per_replica: int | None = None
) -> Setup:
    """The machine type of that name; where there is none, the error about GPUs is the better one."""
    try:
        instance = resolve_instance(tables, text)
    except UnknownName:
        if otherwise is None:
            raise
        raise otherwise from None
    asked = text if gpus_per_replica is None else f"{text}:{gpus_per_replica}"
    return Setup(asked, instance.accelerator, gpus_per_replica, instance)


def whole_question(request: ServeRequest, tables: Catalog) -> WriterQuestion:
    """The question of a request; of all GPUs where those that it names have no price."""
    arch = architecture_of(request)
    try:
        return serve_question(request, arch, tables)[0]
    except DataMissing:
        return serve_question(replace(request, gpus=None), arch, tables)[0]


def narrowed(request: ServeRequest, whole: WriterQuestion, tables: Catalog, setup: Setup) -> tuple[WriterQuestion, str]:
    """The question for this setup alone, and the words of the request that would have left it out."""
    wanted = offer_filter(request, tables, {setup.gpu})
    matching = asked_prices(tables, wanted, request.price_change)
    offers = [o for o in matching if is_of(setup, tables.instance_of(o))]
    hosts = tuple(i for i in machines(tables, wanted) if is_of(setup, i))
    size = setup.gpus_per_replica
    choices = whole.model.choices if size is None else replace(whole.model.choices, gpus_per_replica=(size,))
    model = replace(whole.model, choices=choices)
    left_out = [] if any(i.accelerator == setup.gpu for i in whole.instances) else excluding_words(request)
    return replace(whole, model=model, instances=hosts, offers=tuple(offers), undated=()), ", ".join(left_out)


def is_of(setup: Setup, instance: Instance) -> bool:
    """Whether a machine type belongs to a setup; parts of a GPU do not."""
    return instance.gpu_count >= 1 and setup.instance in (None, instance)


def excluding_words(request: ServeRequest) -> list[str]:
    """The flags that narrow what may be rented."""
    return [f"--{name}" for name in ("gpus", "clouds") if getattr(request, name)]
