"""Runs on machines of one offer, written down: which is bought, what is paid, what is late, what is searched finely."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpufleet.domain.interruption import NEVER
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.layout.training import Cluster
from gpufleet.optimize.market import BEYOND_QUOTA
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.spot_plays import SpotPlay
from gpufleet.optimize.training import (
    LATE,
    NEVER_ENDS,
    NEVER_S,
    SPOT_GANG,
    Placing,
    RunTimes,
    TrainingPlacement,
    Ways,
    cheapest_of_each_type,
    ending,
    planned_job,
    soonest_of,
)
from gpufleet.optimize.training_search import RatedCluster, TrainingGoal
from gpufleet.units import HOUR

GOAL = TrainingGoal(1e9, 256, deadline_s=10 * HOUR)


def offered(kind: PriceKind = PriceKind.ON_DEMAND, usd: float = 1.0, **how: Any) -> Offer:
    told = {"cloud": "a", "region": "here", "instance": "8xH100", "price_kind": kind, **how}
    return Offer(price_per_instance_usd_per_hour=usd, basis=PriceBasis.LIST, source="", as_of=date(2025, 1, 1), **told)


def times(elapsed_h: Any, paid_h: Any = None) -> RunTimes:
    elapsed_s = np.asarray(elapsed_h, dtype=float) * HOUR
    paid_s = elapsed_s if paid_h is None else np.asarray(paid_h, dtype=float) * HOUR
    return RunTimes(elapsed_s, paid_s, np.zeros_like(elapsed_s), np.ones_like(elapsed_s))


def rated(num_gpus: int = 8, device: int = 0) -> RatedCluster:
    machine: Any = None
    time: Any = None
    return RatedCluster(Cluster(device, machine, num_gpus), time, 0, 1.0, 0.8, 1.3)


def ways(machines: list[float], paid_h: list[float], planned_h: list[float], high_h: list[float] | None = None) -> Ways:
    expected = times(paid_h)
    each = [rated(8 * round(n)) for n in machines]
    high = expected if high_h is None else times(high_h)
    zero = np.zeros(len(machines))
    return Ways(each, np.array(machines), zero, zero, expected, expected, high, np.array(planned_h) * HOUR, NEVER)


def placing(plays: object = None, bought: Iterable[Any] = (), **goal: Any) -> Placing:
    """A search in which all that is known of runs is given."""
    question: Any = SimpleNamespace(
        goal=replace(GOAL, **goal), around=SimpleNamespace(plays=plays), offers=(), instances=()
    )
    search: Any = None
    made = Placing(question, search, Rejections())
    object.__setattr__(made, "bought", lambda _: iter(bought))
    return made


def placed(usd: float, elapsed_h: float = 1.0, **offer: Any) -> TrainingPlacement:
    """A run that costs so much on one machine."""
    instance: Any = SimpleNamespace(gpu_count=8)
    one = times(elapsed_h)
    return TrainingPlacement(
        instance, offered(usd=usd / elapsed_h, **offer), 1, rated(), one, one, one, HOUR, HOUR, 30.0, NEVER
    )


# --- which number of machines is bought ---


def test_the_cheapest_in_time_is_bought_and_of_equals_the_fewest_machines() -> None:
    four = ways([1, 2, 4, 8], [9, 4, 2, 1.5], [12, 10, 5, 3])
    assert placing().chosen(four, offered()) == [1], "the first is late, the second as late as may be"
    assert placing(deadline_s=10 * HOUR - 1).chosen(four, offered()) == [2]
    assert placing(deadline_s=2 * HOUR).chosen(four, offered()) == []
    assert placing().chosen(ways([4, 2], [2, 4], [1, 1]), offered()) == [1]


def test_no_more_machines_are_bought_than_can_be_had_and_few_on_spot_unless_it_is_asked_for() -> None:
    four = ways([1, 2, 4, 8], [9, 4, 1.9, 0.5], [1, 1, 1, 1])
    assert [placing().chosen(four, offered(max_instances=most)) for most in (8, 7, 4, 2, 1, 0)] == [
        [3], [2], [2], [1], [0], []
    ]  # fmt: skip
    many = ways([8, 9], [2, 1], [1, 1])  # docs/training.md: more than eight at once only where spot is asked for
    assert placing(takes_spot_gangs=False).chosen(many, offered(PriceKind.SPOT)) == [0]
    assert placing(takes_spot_gangs=False).chosen(many, offered()) == [1]
    assert placing().chosen(many, offered(PriceKind.SPOT)) == [1]


def test_what_may_never_end_is_not_bought_and_ones_own_machines_do_it_soonest() -> None:
    assert placing().chosen(ways([1, 2], [2, 2], [1, 1], [math.inf, 3]), offered()) == [1]
    three = ways([1, 2, 4], [1, 1, 1], [3, 2, 2])
    assert placing().chosen(three, offered()) == [0]
    assert placing().chosen(three, offered(PriceKind.OWNED)) == [1]


def test_all_that_are_in_time_are_played_where_markets_are_drawn() -> None:
    three = ways([1, 2, 4], [1, 1, 1], [3, 99, 2])
    assert placing(plays=object()).chosen(three, offered(PriceKind.SPOT)) == [0, 2]
    assert placing(plays=object()).chosen(three, offered()) == [0]


def test_the_hour_is_paid_as_it_is_a_block_by_days_and_ones_own_from_start_to_end() -> None:
    """A machine that waits is not paid; a block is for no longer than the run."""
    run = times([30.0, 20.0], [25.0, 40.0])
    paid_h = {kind: placing().billed(offered(kind), run).paid_s / HOUR for kind in PriceKind}
    assert paid_h[PriceKind.ON_DEMAND].tolist() == paid_h[PriceKind.SPOT].tolist() == [25, 40]
    assert paid_h[PriceKind.CAPACITY_BLOCK].tolist() == [48, 24]
    assert paid_h[PriceKind.OWNED].tolist() == [30, 20]


def test_a_placement_is_the_row_of_its_cluster() -> None:
    instance: Any = SimpleNamespace(gpu_count=8)
    two = replace(ways([1, 2], [9, 4], [5, 3], [10, 6]), work_s=np.array([7.0, 8.0]), write_s=np.array([1.0, 2.0]))
    found = placing().placement(instance, offered(usd=3.0), two, 1)
    assert (found.machines, found.num_gpus, found.rated) == (2, 16, two.rated[1])
    assert (found.usd, found.elapsed_s, found.planned_s) == (24.0, 4 * HOUR, 3 * HOUR)
    assert (float(found.high.elapsed_s), found.work_s, found.write_s) == (6 * HOUR, 8.0, 2.0)
    play = SpotPlay(np.array([1.0, 3.0]), np.ones(2), np.array([HOUR, 3 * HOUR]), 0.0, 0.0, 0.0, 1)
    assert (replace(found, play=play).usd, replace(found, play=play).elapsed_s) == (2.0, 2 * HOUR)


# --- what is late ---


def late(offer: Offer, runs: Ways, **goal: Any) -> Rejection:
    """Why a machine type of which nothing was bought is left out."""
    made = placing(**goal)
    made.count_late({("a", "8xH100", offer.price_kind.value): (offer, runs)}, set())
    [reason] = made.rejections.counts
    return made.rejections.nearest[reason]


def test_a_machine_type_is_late_never_ends_or_is_too_few_and_says_how_many_would_do() -> None:
    runs = ways([1, 2, 4, 8], [1, 1, 1, 1], [40, 20, 10, 5])
    few = late(offered(max_instances=2), runs)
    assert (few.reason, few.shortfall) == (LATE, 20 * HOUR)
    assert few.miss == Reason.of("soonest", hours_s=20 * HOUR, to_be_had=2, confidence=0.5, enough_machines=4)
    assert few.subject == "a 8xH100, on demand"
    none = late(offered(max_instances=0), runs)
    assert (none.reason, none.shortfall) == (BEYOND_QUOTA, math.inf)
    assert late(offered(), runs, deadline_s=HOUR).miss == Reason.of(
        "soonest", hours_s=5 * HOUR, to_be_had=None, confidence=0.5, enough_machines=None
    )
    endless = ways([1, 2], [1, 1], [40, 20], [math.inf, math.inf])
    assert late(offered(), endless).reason == NEVER_ENDS
    assert late(offered(), ways([1, 2], [1, 1], [40, 20], [math.inf, 50])).reason == LATE
    assert late(offered(PriceKind.SPOT), runs).reason == SPOT_GANG
    assert late(offered(PriceKind.SPOT), runs, deadline_s=HOUR).reason == LATE


def test_a_machine_type_that_is_in_time_in_another_region_is_not_late() -> None:
    made, key = placing(), ("a", "8xH100", "on_demand")
    made.count_late({key: (offered(), ways([1], [1], [99]))}, {key})
    assert not made.rejections.counts


def test_ten_years_are_never() -> None:
    assert ending(np.array([NEVER_S - 1, NEVER_S])).tolist() == [NEVER_S - 1, math.inf]


# --- what is searched finely, and what is shown ---


def test_gpus_of_every_cluster_in_time_are_told_whatever_it_costs() -> None:
    instance: Any = SimpleNamespace(gpu_count=4)
    runs = ways([1, 2, 4], [1, 1, 1], [11, 10, 5])
    found = placing(bought=[(instance, offered(), runs)]).in_time([], 10 * HOUR)
    assert [gpus for gpus, _ in found] == [8.0, 16.0]
    assert [cluster.num_gpus for _, cluster in found] == [16, 32]


def test_clusters_are_promising_that_cost_little_more_than_the_cheapest_and_are_nearly_in_time() -> None:
    """$1, 1.4 and 1.41: two are near. Within 1.4 of the deadline a better layout may be in time."""
    runs = ways([1, 2, 3, 4, 5], [10, 7, 4.7, 2, 1], [14, 13, 12, 14.01, 15])
    made = placing(bought=[(None, offered(usd=0.1), runs)])
    assert [cluster.num_gpus for cluster in made.promising([])] == [8, 16]
    dearer = placing(bought=[(None, offered(usd=0.1), runs), (None, offered(usd=0.05), runs)])
    assert [cluster.num_gpus for cluster in dearer.promising([])] == [8, 16]
    undated = offered(usd=0.01, first_seen=date(2025, 1, 1))
    other = ways([3], [1], [1])
    both = placing(bought=[(None, offered(usd=0.1), runs), (None, undated, other)])
    assert [cluster.num_gpus for cluster in both.promising([])] == [8, 16]
    assert [cluster.num_gpus for cluster in placing(bought=[(None, undated, other)]).promising([])] == [24]


def test_the_cheapest_region_of_each_type_is_shown_and_ties_keep_a_fixed_order() -> None:
    rows = [placed(3.0, region="x"), placed(2.0, region="z"), placed(2.0, region="y"), placed(1.0, instance="other")]
    assert cheapest_of_each_type(rows) == [rows[3], rows[2]]
    assert len(cheapest_of_each_type([*rows, placed(9.0, kind=PriceKind.SPOT)])) == 3


@pytest.mark.parametrize(("first_h", "soonest"), [(1.06, 1), (1.05, 0), (1.0, 0)])
def test_of_those_that_end_about_so_soon_the_cheapest_is_the_soonest(first_h: float, soonest: int) -> None:
    ranked = [placed(1.0, first_h), placed(2.0, 1.0), placed(3.0, 1.0)]
    assert soonest_of(ranked) is ranked[soonest]
    assert soonest_of([]) is None


def test_a_run_is_played_between_the_ends_of_its_speed_and_never_past_what_is_expected() -> None:
    question: Any = SimpleNamespace(goal=replace(GOAL, startup_s=60.0))
    one = replace(placed(1.0), work_s=10 * HOUR)
    job = planned_job(one, question)
    assert (job.work_s.low, job.work_s.expected, job.work_s.high) == (8 * HOUR, 10 * HOUR, 13 * HOUR)
    assert (job.startup_s, job.write_s, job.machines) == (60.0, 30.0, 1)
    sure = planned_job(replace(one, rated=replace(one.rated, low_ratio=1.1, high_ratio=0.9)), question)
    assert (sure.work_s.low, sure.work_s.high) == (10 * HOUR, 10 * HOUR)
