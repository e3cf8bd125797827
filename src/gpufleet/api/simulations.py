"""Requests replayed one by one on copies of a model."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike

import numpy as np

from gpufleet.answers.simulation import simulation_of
from gpufleet.api.planned_replicas import Replicas, planned_replicas, stated_replicas
from gpufleet.api.replayed_requests import arriving_requests
from gpufleet.api.simulated_copies import CopyQuestion, FoundCopy, copy_of
from gpufleet.api.told_of_replays import told_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.replay import Replay
from gpufleet.domain.routing import ROUTINGS
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.inputs.slo import parse_slo
from gpufleet.questions.simulation import Dealing, Traffic, refuse_outside
from gpufleet.results.simulation import Simulation
from gpufleet.simulate.cluster import Cluster, Member, replay
from gpufleet.simulate.metrics import measured
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
    route: str = ROUTINGS[0],
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
    asked = Traffic(None if trace is None else str(trace), rate, arrival, burstiness, input_tokens, output_tokens,
                    requests, duration_s, stretch, thin, seed)  # fmt: skip
    dealing = Dealing(route, prefix_cache, timeout_s, max_waiting, retries).checked()
    refuse_outside("the warm-up", warm_up_s, 0, SECONDS.most)
    copy = CopyQuestion(model, gpus or "", tp, pp, ep, attention_dp, precision, kv_precision, engine, engine_version,
                        instance, max_batch, max_step_tokens, memory_fraction)  # fmt: skip
    tables = load_catalog() if catalog is None else catalog
    planned = planned_replicas(copy, replicas) if gpus is None else stated_replicas(copy, replicas, tables)
    arriving = arriving_requests(
        asked.checked(is_planned=planned.workload is not None), planned.workload, planned.arch, seed
    )
    objectives = parse_slo(slo) if isinstance(slo, str) else slo or planned.slo
    found = copy_of(planned.copy, arriving.requests, catalog=tables)
    happened = replay(
        cluster_of(found, planned, dealing), arriving.requests, np.random.default_rng(seed), on_progress, should_stop
    )
    if on_replay is not None:
        on_replay(happened)
    figures = measured(happened, objectives, whole=arriving.is_whole, warm_up_s=warm_up_s)
    return simulation_of(happened, figures, told_of(found, planned, arriving, dealing, tables))


def cluster_of(found: FoundCopy, planned: Replicas, dealing: Dealing) -> Cluster:
    """The replicas behind their router; clients that are refused or kept waiting come again at once."""
    return Cluster(
        copies=(found.copy,),
        members=(Member(),) * planned.count,
        routing=dealing.route,
        timeout_s=np.inf if dealing.timeout_s is None else dealing.timeout_s,
        most_waiting=dealing.max_waiting,
        retries=dealing.retries,
        keeps_prefixes=dealing.prefix_cache,
    )
