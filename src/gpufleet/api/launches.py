"""What is typed to start one replica of an answer: the answer's own layout and limits in an engine's words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypedDict, TypeVar

import numpy as np

from gpufleet.catalog.engine_flags import engine_flags
from gpufleet.catalog.engine_images import engine_images
from gpufleet.catalog.models import folded_name, hub_id, names_of_hub_id
from gpufleet.deploy.launch import NO_CHECKPOINT, Replica, launch, written_fraction
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.speculation import DRAFT_MODEL, EAGLE3
from gpufleet.files import is_folder
from gpufleet.inputs.model_config import checkpoint_of
from gpufleet.optimize.told_limits import fractions_of, longest_taken, of_free, stated_fraction, step_tokens
from gpufleet.results.base import Launch, Result
from gpufleet.units import PERCENT

if TYPE_CHECKING:
    from gpufleet.optimize.copies.decoder import Decoder, Replicas, WriterQuestion, WriterSolution
    from gpufleet.optimize.demand import Demand
    from gpufleet.optimize.estimate import EstimateQuestion, EstimateSolution
    from gpufleet.optimize.fit import FitReport
    from gpufleet.optimize.job import BatchQuestion, BatchSolution
    from gpufleet.optimize.market import PricedPlacement

Model = str | PathLike[str] | Architecture
Row = TypeVar("Row", bound=Result)


def serve_launches(
    model: Model, question: WriterQuestion, solution: WriterSolution, priced: Sequence[PricedPlacement]
) -> list[Launch | None]:
    """How one replica of each of these placements is started."""
    placements, most = [p.placement for p in priced], solution.found.curves.largest_batch
    return launches(
        model,
        question.model.arch,
        solution.copies,
        [p.row for p in placements],
        [float(most[p.row]) for p in placements],
        [round(p.replicas / p.instance_count) for p in placements],
    )


def tenant_launch(model: Model, question: WriterQuestion, solution: WriterSolution, row: int) -> Launch | None:
    """How one replica that shares machines with other models is started."""
    most = float(solution.found.curves.largest_batch[row])
    return launches(model, question.model.arch, solution.copies, [row], [most], [None])[0]


def batch_launches(
    model: Model, question: BatchQuestion[Decoder], solution: BatchSolution[Replicas], count: int
) -> list[Launch | None]:
    """How one replica of each of the first `count` deployments of a job is started."""
    placed = solution.ranked[:count]
    return launches(
        model,
        question.service.model.arch,
        solution.copies,
        [p.row for p in placed],
        [float(solution.rates.best_batch[p.row]) for p in placed],
        [round(p.replicas / p.machines) for p in placed],
    )


def launches(
    model: Model,
    arch: Architecture,
    copies: Replicas,
    rows: Sequence[int],
    sequences: Sequence[float],
    replicas_per_machine: Sequence[int | None],
) -> list[Launch | None]:
    """How replicas of a search are started, each with at most so many sequences."""
    demand = copies.demand
    fractions = fractions_of(arch, copies.candidates.take(np.array(rows, dtype=np.int64)), demand.mix)
    longest = [longest_taken(arch, demand.mix, float(copies.largest_batch[row])) for row in rows]
    return [
        with_refused(
            demand, tokens, launch(replica_of(model, arch, copies.candidates, row, fraction, tokens, most, on))
        )
        for row, fraction, tokens, most, on in zip(
            rows, map(float, fractions), longest, sequences, replicas_per_machine, strict=True
        )
    ]


def with_refused(demand: Demand, longest_tokens: float, started: Launch | None) -> Launch | None:
    """The same with a note on requests that are longer than what the engine is told to take."""
    share = demand.mix.beyond_longest_ratio
    if started is None or not share or longest_tokens > demand.mix.longest_tokens:
        return started
    refused = (
        f"About {share * PERCENT:.2g}% of the requests ({share * demand.workload.rate_requests_per_s:.2g}/s), longer "
        f"than {longest_tokens:,.0f} tokens in and out, are refused; state the longest: "
        "--in mean=1200,p95=4000,max=32k"
    )
    return started.model_copy(update={"notes": [*started.notes, refused]})


def estimate_launch(model: Model, question: EstimateQuestion, solution: EstimateSolution) -> Launch | None:
    """How the estimated copy is started; a full queue at the batch that serves most."""
    longest = longest_taken(question.arch, question.mix, solution.largest_batch)
    fraction = stated_fraction(question.candidates, 0, float(np.atleast_1d(solution.budgets.memory_fraction)[0]))
    is_full = question.load.scenario == "full_queue" and solution.serving is not None
    most = float(solution.serving.batch[0]) if is_full and solution.serving else solution.largest_batch
    return launch(replica_of(model, question.arch, question.candidates, 0, fraction, longest, most, None))


def fit_launch(model: Model, report: FitReport, most_sequences: int | None) -> Launch | None:
    """How the copy that fits is started; the number of sequences only where one was asked for."""
    q, chosen = report.question, report.chosen
    if chosen is None or not chosen.fits:
        return None
    longest = q.arch.max_model_len or math.ceil(q.context_tokens)
    fraction = of_free(q.engine, float(chosen.budget.memory_fraction))
    return launch(
        Replica(
            model=q.arch.name,
            **checkpoint(model),
            engine=q.engine,
            layout=chosen.layout,
            stored=q.arch.weights,
            weights=q.weights,
            kv=q.kv,
            longest_request_tokens=longest,
            step_tokens=step_tokens(q.engine, q.accelerator, longest),
            memory_fraction=written_fraction(fraction),
            vendor=q.accelerator.vendor,
            generation=q.accelerator.generation,
            host_architecture=q.accelerator.host_architecture,
            sequences=most_sequences if q.batch is None else math.ceil(q.batch),
            flags=engine_flags(q.engine.name, q.engine.version),
            images=engine_images(q.engine.name),
            draft_checkpoint=draft_checkpoint(q.engine, q.arch),
        )
    )


def replica_of(
    model: Model,
    arch: Architecture,
    candidates: Candidates,
    row: int,
    memory_fraction: float,
    longest_tokens: float,
    most_sequences: float,
    replicas_per_machine: int | None,
) -> Replica:
    """One candidate of a search as a running copy."""
    c, palette = candidates, candidates.palette
    engine, gpu = palette.engines[c.engine[row]], palette.accelerators[c.accelerator[row]]
    return Replica(
        model=arch.name,
        **checkpoint(model),
        engine=engine,
        layout=Layout(int(c.tp[row]), int(c.pp[row]), int(c.ep[row]), int(c.attention_dp[row])),
        stored=arch.weights,
        weights=palette.weight_formats[c.weight_format[row]],
        kv=palette.kv_precisions[c.kv_precision[row]],
        longest_request_tokens=math.ceil(longest_tokens),
        step_tokens=step_tokens(engine, gpu, longest_tokens),
        memory_fraction=written_fraction(memory_fraction),
        vendor=gpu.vendor,
        generation=gpu.generation,
        host_architecture=gpu.host_architecture,
        sequences=max(math.floor(most_sequences), 1),
        replicas_per_machine=replicas_per_machine,
        flags=engine_flags(engine.name, engine.version),
        images=engine_images(engine.name),
        draft_checkpoint=draft_checkpoint(engine, arch),
    )


def draft_checkpoint(engine: EngineProfile, arch: Architecture) -> str | None:
    """What a draft is loaded from: a model by its hub id, or a head of which nobody said where it lies."""
    how = engine.drafts
    if how is None or how.method not in (EAGLE3, DRAFT_MODEL):
        return None
    named = checkpoint_of(how.draft_model, hub_id) if how.draft_model else None
    return named or f"{NO_CHECKPOINT}/{how.draft_model or f'{arch.name}-{EAGLE3}'}"


class Checkpoint(TypedDict):
    """Where the weights of a replica are, and whether the question named their shape alone."""

    checkpoint: str | None
    stands_for_shape: bool


def checkpoint(model: Model) -> Checkpoint:
    """The hub id or folder of a model, where one is known."""
    found = None if isinstance(model, Architecture) else checkpoint_of(str(model), hub_id)
    return {"checkpoint": found, "stands_for_shape": found is not None and stands_for_shape(str(model), found)}


def stands_for_shape(asked: str, hub: str) -> bool:
    """Whether a hub id is not what was asked for, but has its shape; folders are what they are."""
    return folded_name(asked) not in names_of_hub_id(hub) and not is_folder(hub)


def launched(rows: Sequence[Row], launches: Sequence[Launch | None]) -> list[Row]:
    """Deployments with how they are started."""
    return [row.model_copy(update={"launch": how}) for row, how in zip(rows, launches, strict=True)]
