"""A copy of a model on GPUs, in the words of an estimate, as the simulator plays it."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.api.configured import as_said, configured, started_engine, told_engine
from gpufleet.api.speculating import drafting, with_draft
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.engine_starts import started_for, started_of
from gpufleet.catalog.engines import named_version, usual_engine
from gpufleet.catalog.kept_code import KEPT_IN as KEPT_IN
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.requests import Requests
from gpufleet.errors import OutOfMemory
from gpufleet.inputs.gpu_request import gpus_said
from gpufleet.inputs.model_config import model_asked
from gpufleet.optimize.simulated import Held, held_by, short_by_bytes, simulated_copy
from gpufleet.performance.serving import Client
from gpufleet.questions.estimate import CopyQuestion as CopyQuestion
from gpufleet.questions.fields import SPECULATED, STARTED, WriterRequest
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.plan import Deployment
from gpufleet.simulate.cluster import Copy
from gpufleet.units import GIB


@dataclass(frozen=True, eq=False)
class FoundCopy:
    """The copy, and how its names were read."""

    copy: Copy
    gpus: str
    arch: Architecture
    candidates: Candidates
    inputs: tuple[Input, ...]
    notes: tuple[str, ...]


def copy_of(
    asked: CopyQuestion, requests: Requests, client: Client | None = None, catalog: Catalog | None = None
) -> FoundCopy:
    """The copy for some requests: its tables reach as far as they do; OutOfMemory where none fits."""
    tables = load_catalog() if catalog is None else catalog
    a = asked
    arch = with_draft(started_for(model_asked(a.model, shipped_architecture), started_of(a)), a)
    name, number = gpus_said(a.gpus)
    profile = engine_of(a, arch)
    parts = (number, a.tp, a.pp, a.ep, a.attention_dp)
    replica = configured(tables, arch, name, profile, parts, a.precision, a.kv_precision, a.instance)
    held: Held = held_by(requests)
    missing = short_by_bytes(arch, replica.candidates, held)
    if missing > 0:
        raise OutOfMemory(
            f"{arch.name} does not fit {number}x {name}",
            found=f"short by {missing / GIB:.1f} GiB per GPU",
            hint=f"'gpufleet fit {arch.name} --gpus {name}:{number}' shows what would.",
        )
    copy = simulated_copy(arch, replica.candidates, calibration_of(tables), held, client)
    inputs = tuple(as_said(replica.inputs, asked))
    return FoundCopy(copy, f"{name}:{number}", arch, replica.candidates, inputs, replica.notes)


def engine_of(asked: CopyQuestion, arch: Architecture) -> EngineProfile:
    """The engine of a copy as it was started."""
    engine, version = named_version(asked.engine, asked.engine_version)
    started = started_engine(usual_engine(arch) if engine is None else engine, version, started_of(asked))
    return drafting(told_engine(started, asked), arch, asked)


def copy_in(answer: Deployment, asked: CopyQuestion, request: WriterRequest | None = None) -> CopyQuestion:
    """A copy as a deployment has it; its engine is started as its plan was asked, where nothing else is said."""
    planned = {} if request is None else {name: getattr(request, name) for name in STARTED}
    if answer.drafts is None:
        planned = {name: value for name, value in planned.items() if name not in SPECULATED}
    started = {name: value for name, value in planned.items() if value is not None and getattr(asked, name) is None}
    ranks = answer.ranks
    assert ranks is not None, "plans of models that write say their ranks"
    return replace(
        asked,
        gpus=(answer.gpu, answer.gpus_per_replica),
        tp=ranks.tp,
        pp=ranks.pp,
        ep=ranks.ep,
        attention_dp=ranks.attention_dp,
        precision=answer.weight_format,
        kv_precision=answer.kv_precision,
        engine=answer.engine,
        instance=f"{answer.cloud}:{answer.instance}",
        **started,
    )
