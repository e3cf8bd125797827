"""Requests replayed one by one on copies of a model."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np

from gpufleet.answers.simulation import simulation_of
from gpufleet.api.envelope import in_full
from gpufleet.api.mishaps import changes_of
from gpufleet.api.planned_replicas import Replicas, planned_replicas, stated_replicas
from gpufleet.api.pools import AskedPools, asked_pools
from gpufleet.api.replayed_requests import Arriving, arriving_requests
from gpufleet.api.simulated_copies import CopyQuestion
from gpufleet.api.simulated_fleet import (
    SimulatedFleet,
    fleet_of_one_kind,
    fleet_of_pools,
    fleet_of_two_models,
    question_of,
)
from gpufleet.api.spoken import spoken
from gpufleet.api.told_of_replays import told_of
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.replay import Replay
from gpufleet.domain.requests import Requests
from gpufleet.errors import UsageError
from gpufleet.inputs.slo import parse_slo
from gpufleet.questions.simulation import Dealing, SimulationRequest
from gpufleet.records import dataclass
from gpufleet.results.simulation import Simulation
from gpufleet.simulate.cluster import replay
from gpufleet.simulate.front import beyond_cache, drawn_share, with_cached
from gpufleet.simulate.metrics import Measured, measured


@dataclass(frozen=True)
class Watching:
    """Who follows a replay: who is told how far it is, who may end it, and who is handed every request's times."""

    on_progress: Callable[[float], None] | None = None
    should_stop: Callable[[], bool] | None = None
    on_replay: Callable[[Replay], None] | None = None


def simulate_serving(
    request: SimulationRequest | str | PathLike[str] | Architecture,
    gpus: str | tuple[str, int] | None = None,
    *,
    on_progress: Callable[[float], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_replay: Callable[[Replay], None] | None = None,
    catalog: Catalog | None = None,
    **said: Any,
) -> Simulation:
    """Replay requests on copies of a model, each on `gpus`; without `gpus`, the model is the file of a plan.

    `SimulationRequest` (questions.simulation) has what may be said: what arrives, who serves, how it is dealt out.
    `on_progress` is told the share of the requests that are done, 0 before the first, `should_stop` is asked now and
    then and ends the replay early (`is_partial`), and `on_replay` is handed every request's times.

    >>> found = simulate_serving("llama-3.1-8b", "H100:1", rate="5/s", input_tokens=500, output_tokens=50, requests=200)
    >>> found.fates["answered"]
    200
    """
    asked = spoken(SimulationRequest, request, said if gpus is None else {"gpus": gpus, **said}).checked()
    tables = load_catalog() if catalog is None else catalog
    return in_full(replayed(asked, tables, Watching(on_progress, should_stop, on_replay)), tables, asked)


def replayed(asked: SimulationRequest, tables: Catalog, watching: Watching) -> Simulation:
    """The answer of a checked question: its replicas, its requests, what happened, and what is said of it."""
    pools = None if asked.prefill is None and asked.decode is None else asked_pools(asked.prefill, asked.decode)
    planned = replicas_asked(asked, pools, tables)
    asked.refuse_traffic(is_planned=planned.workload is not None)
    arriving = arriving_requests(asked, planned.workload, planned.arch, asked.seed)
    dice = np.random.default_rng(asked.seed)
    is_hit = drawn_share(dice, arriving.requests, asked.cache_hits)
    passed = beyond_cache(arriving.requests, is_hit) if asked.cache_hits else arriving.requests
    fleet = fleet_asked(asked, pools, planned, passed, dice, tables)
    changes = changes_of(asked, fleet, passed, dice, tables)
    cluster = fleet.cluster({**dealt_out(asked), "changes": changes})
    if watching.on_progress is not None:
        watching.on_progress(0.0)
    happened = replay(cluster, fleet.requests, dice, watching.on_progress, watching.should_stop)
    if asked.cache_hits:
        happened = with_cached(happened, arriving.requests, is_hit)
    if watching.on_replay is not None:
        watching.on_replay(happened)
    figures = figures_asked(asked, happened, planned, arriving)
    return simulation_of(happened, figures, told_of(fleet, planned, arriving, asked, tables))


def figures_asked(asked: SimulationRequest, happened: Replay, planned: Replicas, arriving: Arriving) -> Measured:
    """What is measured of a replay, and against which limits; a burst and a cold start are measured from the start."""
    objectives = parse_slo(asked.slo) if isinstance(asked.slo, str) else asked.slo or planned.slo
    is_whole = arriving.is_whole or asked.cold_start_s is not None
    return measured(happened, objectives, whole=is_whole, warm_up_s=asked.warm_up_s)


def replicas_asked(asked: SimulationRequest, pools: AskedPools | None, tables: Catalog) -> Replicas:
    """The replicas as they are stated, as a plan has them, or as copies of two pools."""
    if pools is not None:
        if asked.gpus is not None or asked.replicas is not None:
            raise UsageError("pools have GPUs and copies of their own", expected="--prefill and --decode alone")
        return stated_replicas(question_of(pools.decode, asked), None, tables)
    if asked.gpus is None:
        return planned_replicas(asked, asked.replicas, tables, edited=asked.edited)
    return stated_replicas(asked, asked.replicas, tables)


def fleet_asked(
    asked: SimulationRequest,
    pools: AskedPools | None,
    planned: Replicas,
    requests: Requests,
    dice: np.random.Generator,
    tables: Catalog,
) -> SimulatedFleet:
    """The copies of a replay."""
    if pools is not None and asked.small_model is not None:
        raise UsageError("a small model stands beside replicas that do both", found="two pools and a small model")
    if pools is not None:
        return fleet_of_pools(pools, asked, planned, requests, tables)
    if asked.small_model is None or asked.small_share is None:
        return fleet_of_one_kind(planned, requests, tables)
    small = stated_replicas(CopyQuestion(asked.small_model, asked.small_gpus), asked.small_replicas, tables)
    is_small = drawn_share(dice, requests, asked.small_share)
    return fleet_of_two_models(planned, small, asked.small_share, is_small, requests, tables)


def dealt_out(dealing: Dealing) -> dict[str, Any]:
    """How requests are dealt out, in the words of a cluster; clients that are refused come again at once."""
    return {
        "routing": dealing.route,
        "timeout_s": np.inf if dealing.timeout_s is None else dealing.timeout_s,
        "most_waiting": dealing.max_waiting,
        "retries": dealing.retries,
        "keeps_prefixes": dealing.prefix_cache,
    }
