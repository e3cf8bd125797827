"""A rate that somebody measured of one copy of his own: whose it is, and the pace that it implies."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.api.configured import configured
from gpufleet.api.simulated_copies import CopyQuestion, engine_of
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.own_stacks import load_spreads
from gpufleet.catalog.query import resolve_gpu
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.own_stack import OwnStack
from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import gpus_said, parse_pool
from gpufleet.optimize.copies.decoder import Replicas, WriterQuestion, keep_runnable
from gpufleet.optimize.demand import Demand
from gpufleet.optimize.own_rate import EXPECTED, CopyRate, stack_at_rate, stack_of_plan
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.service import solve_serve
from gpufleet.performance.step import StepModel
from gpufleet.questions.fields import WriterRequest
from gpufleet.units import parse_rate


def parse_copy_rate(said: str) -> CopyRate:
    """A rate, after the copy that carried it where that is said.

    >>> parse_copy_rate("1.9/s"), parse_copy_rate("H100:2 TP2@114/min").requests_per_s
    (CopyRate(requests_per_s=1.9, copy=None), 1.9)
    """
    place, at, rate = said.rpartition("@")
    copy = parse_pool(place.strip(), "the copy of a rate") if at else None
    if copy is not None and copy.copies > 1:
        raise UsageError("a rate is of one copy", found=said, expected=EXPECTED)
    return CopyRate(parse_rate(rate.strip()), copy)


def stack_of_request(said: str, request: WriterRequest, question: WriterQuestion, tables: Catalog) -> OwnStack:
    """The pace that a rate implies, of the copies of a plan that it may be of."""
    rate, calibration = parse_copy_rate(said), calibration_of(tables)
    gpu = gpu_of(rate, request.gpus, tables)
    return stack_of_plan(rate, gpu, solve_serve(question, calibration), load_spreads(), calibration)


def gpu_of(rate: CopyRate, gpus: Sequence[str] | None, tables: Catalog) -> str:
    """Whose rate it is."""
    if rate.copy is not None:
        return resolve_gpu(tables, rate.copy.name).accelerator.name
    if len(gpus or ()) != 1:
        raise UsageError("--replica-rate does not say of which GPU it is", expected=EXPECTED)
    return resolve_gpu(tables, (gpus or ("",))[0]).accelerator.name


def stack_of_copy(
    said: str, copy: CopyQuestion, arch: Architecture, demand: Demand, tables: Catalog
) -> OwnStack | None:
    """The pace that a rate implies of a copy that is stated; None where it is of another one, or that does not fit."""
    rate, (name, number), engine = parse_copy_rate(said), gpus_said(copy.gpus), engine_of(copy, arch)
    parts = (number, copy.tp, copy.pp, copy.ep, copy.attention_dp)
    c = configured(tables, arch, name, engine, parts, copy.precision, copy.kv_precision, copy.instance).candidates
    gpu = c.palette.accelerators[int(c.accelerator[0])].name
    is_of = rate.copy is None or resolve_gpu(tables, rate.copy.name).accelerator.name == gpu
    space, kept = keep_runnable(arch, demand.mix, c, calibration_of(tables), Rejections())
    if not is_of or not len(rate.is_of(gpu, c)) or not kept.all():
        return None
    model = StepModel.build(arch, c, calibration_of(tables))
    alone = Replicas(demand, c, model, space.largest_batch, space.limited_by_engine, 1)
    return stack_at_rate(alone, 0, [0], rate.requests_per_s, load_spreads(), calibration_of(tables))
