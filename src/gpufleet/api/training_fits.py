"""Does training a model fit these GPUs, how much of it, and what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

from gpufleet.domain.architecture import Architecture
from gpufleet.errors import UsageError
from gpufleet.results.training import TrainingFit


def fit_training(
    model: str | PathLike[str] | Architecture,
    gpus: str,
    method: str = "lora",
    *,
    sequence_tokens: float | None = None,
    micro_batch: int | None = None,
    rank: int | None = None,
    modules: Sequence[str] | None = None,
    precision: str | None = None,
    optimizer: str | None = None,
    layout: str | None = None,
    offload: Sequence[str] | None = None,
    eager: bool = False,
) -> TrainingFit:
    """Whether a step of training fits these GPUs, in the fastest layout that does."""
    raise UsageError("not planned yet", found=str(model))
