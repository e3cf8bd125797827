"""What is typed to start one copy of a model that is not a decoder, as an answer assumes it."""

from __future__ import annotations

import os
from os import PathLike

from gpufleet.api.launches import checkpoint
from gpufleet.deploy.encoders import EncoderReplica, encoder_launch
from gpufleet.domain.encoder import EncoderModel
from gpufleet.optimize.copies.encoder import EncoderCopies, EncoderServeSolution
from gpufleet.optimize.encoder import EncoderQuestion
from gpufleet.optimize.job import BatchSolution
from gpufleet.results.base import Launch

Model = str | PathLike[str] | EncoderModel


def copy_launch(
    model: Model, q: EncoderQuestion, batch: float, *, per_machine: int | None = None, is_service: bool = False
) -> Launch | None:
    """How a copy is started that takes so many inputs a pass."""
    known = None if isinstance(model, EncoderModel) else checkpoint(os.fspath(model))
    replica = EncoderReplica(
        model=q.model,
        tower=q.tower,
        checkpoint=known and known["checkpoint"],
        stands_for_shape=known is not None and known["stands_for_shape"],
        runtime=q.runtime,
        gpu=q.gpu,
        weights=q.weights.name,
        batch=batch,
        tokens=q.size.tokens,
        beams=q.size.beams,
        is_service=is_service,
        replicas_per_machine=per_machine,
    )
    return encoder_launch(replica)


def service_launches(model: Model, solution: EncoderServeSolution, count: int) -> list[Launch | None]:
    """How a copy of each of the first `count` deployments of a service is started."""
    copies, placements = solution.copies.all, [p.placement for p in solution.ranked[:count]]
    return [
        copy_launch(
            model,
            copies[p.row].question,
            copies[p.row].full_batch,
            per_machine=round(p.replicas / p.instance_count),
            is_service=True,
        )
        for p in placements
    ]


def job_launches(model: Model, solution: BatchSolution[EncoderCopies], count: int) -> list[Launch | None]:
    """How a copy of each of the first `count` deployments of a job is started."""
    copies, batches = solution.copies.all, solution.rates.best_batch
    return [
        copy_launch(model, copies[p.row].question, float(batches[p.row]), per_machine=round(p.replicas / p.machines))
        for p in solution.ranked[:count]
    ]
