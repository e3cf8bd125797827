"""Requests replayed one by one on copies of a model."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

from gpufleet.catalog.load import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.replay import Replay
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.inputs.slo import parse_slo
from gpufleet.questions.simulation import ROUTES, Dealing, Traffic, checked_replicas, refuse_outside
from gpufleet.results.simulation import Simulation
from gpufleet.units import SECONDS


def simulate(
    model: str | PathLike[str] | Architecture,
    gpus: str | tuple[str, int] | None = None,
    *,
    replicas: int | None = None,
    tp: int | None = None,
    pp: int = 1,
    ep: int | None = None,
    attention_dp: int = 1,
    precision: str | None = None,
    kv_precision: str | None = None,
    engine: str | None = None,
    engine_version: str | None = None,
    instance: str | None = None,
    max_batch: int | None = None,
    max_step_tokens: int | None = None,
    memory_fraction: float | None = None,
    trace: str | PathLike[str] | None = None,
    rate: float | None = None,
    arrival: str | None = None,
    burstiness: float | None = None,
    input_tokens: float | TokenCounts | None = None,
    output_tokens: float | TokenCounts | None = None,
    requests: float | None = None,
    duration_s: float | None = None,
    stretch: float = 1.0,
    thin: float = 1.0,
    seed: int = 0,
    route: str = ROUTES[0],
    slo: str | Slo | None = None,
    prefix_cache: bool = True,
    timeout_s: float | None = None,
    max_waiting: int | None = None,
    retries: int = 0,
    warm_up_s: float | None = None,
    on_progress: Callable[[float], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_replay: Callable[[Replay], None] | None = None,
    catalog: Catalog | None = None,
) -> Simulation:
    """Replay requests on `replicas` copies of a model, each on `gpus`; without `gpus`, `model` is the file of a plan.

    `Traffic` and `Dealing` (questions.simulation) say what arrives and how it is dealt out. `warm_up_s` None finds
    where TTFT has settled. `on_progress` is told the share of the requests that are done, `should_stop` is asked now
    and then and ends the replay early (`is_partial`), and `on_replay` is handed every request's times.
    """
    arriving = Traffic(None if trace is None else str(trace), rate, arrival, burstiness, input_tokens, output_tokens,
                       requests, duration_s, stretch, thin, seed).checked()  # fmt: skip
    dealing = Dealing(route, prefix_cache, timeout_s, max_waiting, retries).checked()
    copies = None if replicas is None else checked_replicas(replicas)
    refuse_outside("the warm-up", warm_up_s, 0, SECONDS.most)
    objectives = parse_slo(slo) if isinstance(slo, str) else slo
    raise NotImplementedError(f"the core that replays {arriving} by {dealing} on {copies} copies under {objectives}")
