"""Requests replayed one by one on copies of a model."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.simulation import simulation_of
from gpufleet.api.mishaps import changes_of
from gpufleet.api.planned_replicas import Replicas, planned_replicas, stated_replicas
from gpufleet.api.pools import AskedPools, asked_pools
from gpufleet.api.replayed_requests import arriving_requests
from gpufleet.api.simulated_copies import CopyQuestion
from gpufleet.api.simulated_fleet import (
    SimulatedFleet,
    fleet_of_one_kind,
    fleet_of_pools,
    fleet_of_two_models,
    question_of,
)
from gpufleet.api.told_of_replays import told_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.replay import Replay
from gpufleet.domain.requests import Requests
from gpufleet.domain.routing import ROUTINGS
from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import UsageError
from gpufleet.inputs.pool_request import PoolRequest
from gpufleet.inputs.slo import parse_slo
from gpufleet.questions.simulation import Dealing, InFront, Mishaps, Traffic, refuse_outside
from gpufleet.results.simulation import Simulation
from gpufleet.simulate.cluster import replay
from gpufleet.simulate.front import beyond_cache, drawn_share, with_cached
from gpufleet.simulate.metrics import measured
from gpufleet.units import SECONDS


def simulate_serving(
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
    rates: str | PathLike[str] | None = None,
    rates_model: str | None = None,
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
    prefill: str | PoolRequest | None = None,
    decode: str | PoolRequest | None = None,
    cache_hits: float = 0.0,
    small_model: str | None = None,
    small_gpus: str | None = None,
    small_replicas: int = 1,
    small_share: float | None = None,
    cold_start_s: float | str | None = None,
    mtbf_s: float | str | None = None,
    on_progress: Callable[[float], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_replay: Callable[[Replay], None] | None = None,
    catalog: Catalog | None = None,
) -> Simulation:
    """Replay requests on `replicas` copies of a model, each on `gpus`; without `gpus`, `model` is the file of a plan.

    `Traffic` and `Dealing` (questions.simulation) say what arrives and how it is dealt out. `warm_up_s` None finds
    where TTFT has settled. `on_progress` is told the share of the requests that are done, 0 before the first,
    `should_stop` is asked now and then and ends the replay early (`is_partial`), and `on_replay` is handed every
    request's times.
    """
    named = [None if path is None else str(path) for path in (trace, rates)]
    asked = Traffic(named[0], rate, arrival, burstiness, input_tokens, output_tokens,
                    requests, duration_s, stretch, thin, seed, named[1], rates_model)  # fmt: skip
    dealing = Dealing(route, prefix_cache, timeout_s, max_waiting, retries).checked()
    front = InFront(cache_hits, small_model, small_gpus, small_replicas, small_share).checked()
    mishaps = Mishaps(cold_start_s, mtbf_s).checked()
    refuse_outside("the warm-up", warm_up_s, 0, SECONDS.most)
    copy = CopyQuestion(model, gpus or "", tp, pp, ep, attention_dp, precision, kv_precision, engine, engine_version,
                        instance, max_batch, max_step_tokens, memory_fraction)  # fmt: skip
    tables = load_catalog() if catalog is None else catalog
    pools = None if prefill is None and decode is None else asked_pools(prefill, decode)
    planned = replicas_asked(copy, gpus, replicas, pools, tables)
    checked = asked.checked(is_planned=planned.workload is not None)
    arriving = arriving_requests(checked, planned.workload, planned.arch, seed)
    dice = np.random.default_rng(seed)
    is_hit = drawn_share(dice, arriving.requests, front.cache_hits)
    passed = beyond_cache(arriving.requests, is_hit) if front.cache_hits else arriving.requests
    fleet = fleet_asked(front, pools, copy, planned, passed, dice, tables)
    changes = changes_of(mishaps, fleet, passed, dice, tables)
    cluster = fleet.cluster({**dealt_out(dealing), "changes": changes})
    if on_progress is not None:
        on_progress(0.0)
    happened = replay(cluster, fleet.requests, dice, on_progress, should_stop)
    if front.cache_hits:
        happened = with_cached(happened, arriving.requests, is_hit)
    if on_replay is not None:
        on_replay(happened)
    objectives = parse_slo(slo) if isinstance(slo, str) else slo or planned.slo
    is_whole = arriving.is_whole or mishaps.cold_start_s is not None
    figures = measured(happened, objectives, whole=is_whole, warm_up_s=warm_up_s)
    return simulation_of(happened, figures, told_of(fleet, planned, arriving, dealing, front, mishaps, tables))


def replicas_asked(
    copy: CopyQuestion,
    gpus: str | tuple[str, int] | None,
    replicas: int | None,
    pools: AskedPools | None,
    tables: Catalog,
) -> Replicas:
    """The replicas as they are stated, as a plan has them, or as copies of two pools."""
    if pools is None:
        return planned_replicas(copy, replicas) if gpus is None else stated_replicas(copy, replicas, tables)
    if gpus is not None or replicas is not None:
        raise UsageError("pools have GPUs and copies of their own", expected="--prefill and --decode alone")
    return stated_replicas(question_of(pools.decode, copy), None, tables)


def fleet_asked(
    front: InFront,
    pools: AskedPools | None,
    copy: CopyQuestion,
    planned: Replicas,
    requests: Requests,
    dice: np.random.Generator,
    tables: Catalog,
) -> SimulatedFleet:
    """The copies of a replay."""
    if pools is not None and front.small_model is not None:
        raise UsageError("a small model stands beside replicas that do both", found="two pools and a small model")
    if pools is not None:
        return fleet_of_pools(pools, copy, planned, requests, tables)
    if front.small_model is None or front.small_gpus is None or front.small_share is None:
        return fleet_of_one_kind(planned, requests, tables)
    small = stated_replicas(CopyQuestion(front.small_model, front.small_gpus), front.small_replicas, tables)
    is_small = drawn_share(dice, requests, front.small_share)
    return fleet_of_two_models(planned, small, front.small_share, is_small, requests, tables)


def dealt_out(dealing: Dealing) -> dict[str, Any]:
    """How requests are dealt out, in the words of a cluster; clients that are refused come again at once."""
    return {
        "routing": dealing.route,
        "timeout_s": np.inf if dealing.timeout_s is None else dealing.timeout_s,
        "most_waiting": dealing.max_waiting,
        "retries": dealing.retries,
        "keeps_prefixes": dealing.prefix_cache,
    }
