"""Whether a model fits a set of GPUs, as users get it."""

from __future__ import annotations

from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.results.answer import Answer
from gpufleet.results.base import ExplainedTerm, Figure, Launch, Result
from gpufleet.results.beside import KeptBeside


class MemoryPart(Result):
    """One part of what a GPU holds."""

    name: str
    size: Figure


class UsersByPrecision(Result):
    """Users of the asked context with one weight and one KV format; `reason` where the engine refuses it."""

    weights: str
    kv: str
    verdict: str
    layout: str | None = None
    weights_bytes_per_gpu: float | None = None
    users: Figure | None = None
    reason: str | None = None


class RejectedLayout(Result):
    """A layout of these GPUs that is not possible, or is short of memory by `short_by_bytes_per_gpu`."""

    layout: str
    reason: str
    code: str = ""
    short_by_bytes_per_gpu: float | None = None


class FittingChange(Result):
    """A single change after which it fits, with the cheapest machine that has these GPUs; None: price unknown."""

    what: str
    gpus: str
    layout: str
    verdict: str
    users: float
    price_usd_per_hour: float | None = None
    instance: str | None = None
    region: str | None = None
    price_source: str | None = None
    price_as_of: str | None = None
    lowers_quality: bool = False


class OtherSetting(Result):
    """A usual setting that nobody ruled out, in which it does not fit."""

    assumed: str
    otherwise: str
    code: str
    verdict: str
    short_by_bytes_per_gpu: float


class FitResult(Answer):
    """The answer of `gpufleet fit`; sizes are bytes of the fullest GPU, users are sequences of the asked context.

    The engine may use `memory_fraction` of `device_bytes` less `driver_bytes`. `checkpoint_bytes_per_gpu` are weights
    as counted from the checkpoint; among `parts` they stand as the engine loads them. `tpot_floor` is a roofline bound:
    what one decode step must read over the memory bandwidth. A user holds `kv_bytes_per_user` while it decodes; the
    engine starts where its KV pool has `startup_kv_bytes`, for a request of `max_model_len` where it was told of one.
    `otherwise` are usual settings of the engine in which it does not fit: with one the verdict is tight at most.
    """

    model: str
    gpus: str
    engine: str
    weight_format: str
    kv_precision: str
    context_tokens: float
    batch: float | None
    binding_limit: str
    refusal: str | None = None
    layout: str | None = None
    memory_fraction: float | None = None
    device_bytes: float
    driver_bytes: float = 0.0
    checkpoint_bytes_per_gpu: float | None = None
    usable_bytes: float | None = None
    parts: list[MemoryPart] = []
    total_bytes: Figure | None = None
    kv_pool_bytes: Figure | None = None
    kv_bytes_per_user: float | None = None
    startup_kv_bytes: float | None = None
    max_model_len: int | None = None
    users: Figure | None = None
    short_by_bytes_per_gpu: float = 0.0
    tpot_floor_s: Figure | None = None
    by_precision: list[UsersByPrecision] = []
    rejected: list[RejectedLayout] = []
    changes: list[FittingChange] = []
    otherwise: list[OtherSetting] = []
    terms: list[ExplainedTerm] = []
    launch: Launch | None = None
    beside: KeptBeside | None = None

    @property
    def fits(self) -> bool:
        """Whether it fits; tight counts."""
        return self.verdict != DOES_NOT_FIT
