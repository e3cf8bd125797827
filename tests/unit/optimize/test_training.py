"""Which numbers of which machines are tried for a training run, and what a run on them takes and costs."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from functools import cache
from typing import Any

import numpy as np
import pytest

from gpufleet.api.training import TrainRequest, counts_of, training_question
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.network import WHOLE_MACHINE_GPUS
from gpufleet.domain.offer import PriceKind
from gpufleet.optimize.market import BEYOND_QUOTA, NO_PRICE, effective_price
from gpufleet.optimize.replicas import Rejections
from gpufleet.optimize.training import (
    LATE,
    Placing,
    RunTimes,
    beyond,
    cheapest_of_each_type,
    least_gpus,
    run_times,
    solve_training,
    speed_doubt,
    within_usd,
)
from gpufleet.optimize.training_search import (
    ALWAYS_TRIED_GPUS,
    MACHINE_COUNTS,
    MOST_SMALL_MACHINES,
    NO_LAYOUT,
    TOO_LARGE,
    TrainingQuestion,
    TrainingSearch,
)
from gpufleet.units import DAY, HOUR

TABLES = load_catalog()
CALIBRATION = calibration_of(TABLES)


@cache
def question(model: str = "llama-3.2-3b", tokens: float = 1e9, **words: object) -> TrainingQuestion:
    said: dict[str, Any] = {"clouds": ("aws",), "gpus": ("H100", "L40S"), **words}
    request = TrainRequest(model, tokens=tokens, **said)
    return training_question(request, TABLES, counts_of(request, TABLES))[0]


def reasons(q: TrainingQuestion) -> set[str]:
    return {reason.code for reason in solve_training(q, CALIBRATION).rejections.counts}


# --- the machines that are tried ---


def test_machines_alike_are_rated_once() -> None:
    """Regions and sizes of a type that train as fast share a host; a slower network makes another."""
    search = TrainingSearch(question(), CALIBRATION)
    assert len(search.machines) == len(search.hosts) <= len(question().instances)
    assert {search.host_of(i) for i in question().instances} == set(search.hosts)


def test_numbers_of_machines_double_with_one_and_a_half_in_between() -> None:
    assert MACHINE_COUNTS[:8] == (1, 2, 3, 4, 6, 8, 12, 16)


def test_without_a_deadline_every_number_up_to_64_gpus_is_tried() -> None:
    """A machine of one GPU works with few others: beyond that nobody rents them one by one."""
    search = TrainingSearch(question(), CALIBRATION)
    tried: dict[int, list[int]] = {}
    for cluster in search.clusters():
        tried.setdefault(cluster.device, []).append(cluster.num_gpus)
    for device, counts in tried.items():
        each = search.machines[device].num_gpus
        most = min(ALWAYS_TRIED_GPUS, each * search.most_joined(device))
        assert counts == [n * each for n in MACHINE_COUNTS if n * each <= most]
        assert search.most_joined(device) in (1, MOST_SMALL_MACHINES, math.inf)


def test_a_deadline_begins_at_what_the_peak_would_need() -> None:
    tight = question(tokens=1e11, deadline_s=1 * DAY)
    search = TrainingSearch(tight, CALIBRATION)
    device = next(i for i, m in enumerate(search.machines) if m.accelerator.name == "H100-SXM" and m.num_gpus == 8)
    least = search.least_gpus_in_time(search.machines[device])
    peak = search.machines[device].accelerator.peak_flop_per_s["bf16"]
    assert least == pytest.approx(6 * 3.2e9 * 1e11 / (peak * (DAY - tight.goal.startup_s)), rel=0.02)
    assert min(c.num_gpus for c in search.clusters() if c.device == device) >= least


def test_a_model_that_needs_many_gpus_is_tried_on_few_only_where_no_more_work_together() -> None:
    """Such machines are counted as too small; nothing is left out without a reason."""
    search = TrainingSearch(question("llama-3.3-70b"), CALIBRATION)
    clusters = search.clusters()
    assert {c.device for c in clusters} == set(range(len(search.machines)))
    few = [c for c in clusters if c.num_gpus * c.machine.accelerator.memory_bytes < 70e9 * 18 / 2]
    assert all(c.num_gpus >= search.most_joined(c.device) * c.machine.num_gpus for c in few)


def test_a_said_number_is_the_only_one_and_may_leave_part_of_one_machine_idle() -> None:
    search = TrainingSearch(question(gpus=("H100:16", "L40S:4")), CALIBRATION)
    assert {(c.machine.accelerator.name, c.num_gpus) for c in search.clusters()} == {("H100-SXM", 16), ("L40S", 4)}
    assert {8, 4, 1} <= {c.machine.num_gpus for c in search.clusters() if c.num_gpus == 4}


def test_no_more_machines_than_are_allowed_work_together() -> None:
    search = TrainingSearch(question(most_machines=2), CALIBRATION)
    assert max(c.num_gpus / c.machine.num_gpus for c in search.clusters()) == 2


def test_clusters_without_a_layout_or_without_room_are_counted() -> None:
    assert TOO_LARGE.code in reasons(question("llama-3.3-70b", gpus=("L40S:4",)))
    assert NO_LAYOUT.code in reasons(question(gpus=("H100:56",), global_batch=1, layout="tp=2,pp=3"))


# --- a run ---


def test_nothing_stops_a_run_that_cannot_be_stopped() -> None:
    zero, work = np.zeros(1), np.array([10 * HOUR])
    found = run_times(work, zero, np.array([60.0]), np.array([600.0]), 0.0, 300.0)
    assert (float(found.elapsed_s[0]), float(found.paid_s[0]), float(found.stops[0])) == (36_060.0 + 300, 36_360.0, 0.0)


def test_waits_for_machines_are_not_paid_and_stops_cost_both() -> None:
    work, write, restart = np.array([100 * HOUR]), np.array([60.0]), np.array([600.0])
    rates = np.array([1 / (10 * HOUR)])
    rare = run_times(work, rates / 10, write, restart, HOUR, 0.0)
    often = run_times(work, rates, write, restart, HOUR, 0.0)
    no_wait = run_times(work, rates, write, restart, 0.0, 0.0)
    assert float(often.elapsed_s[0]) > float(often.paid_s[0]) > float(rare.paid_s[0]) > float(work[0])
    assert float(often.paid_s[0]) == float(no_wait.paid_s[0]) == float(no_wait.elapsed_s[0])
    assert float(often.stops[0]) == pytest.approx(float(often.elapsed_s[0]) / (10 * HOUR))


def test_checkpoints_come_closer_together_as_stops_do() -> None:
    work, write, restart = np.array([1000 * HOUR]), np.array([60.0]), np.array([600.0])
    intervals = [
        float(run_times(work, np.array([r]), write, restart, 0.0, 0.0).interval_s[0]) for r in (1e-6, 1e-5, 1e-4)
    ]
    assert intervals == sorted(intervals, reverse=True)


# --- placements ---


def test_a_row_pays_for_its_machines_as_long_as_they_run() -> None:
    for p in solve_training(question(), CALIBRATION).ranked:
        assert p.usd == pytest.approx(p.machines * effective_price(p.offer) * float(p.expected.paid_s) / HOUR)
        assert p.machines == math.ceil(p.rated.cluster.num_gpus / p.instance.gpu_count)
        assert float(p.low.elapsed_s) <= float(p.expected.elapsed_s) <= float(p.high.elapsed_s)


def test_the_cheapest_number_of_machines_wins_and_of_equals_the_fewest() -> None:
    q = question()
    search = TrainingSearch(q, CALIBRATION)
    placing = Placing(q, search, Rejections())
    rated = search.best(search.clusters(), q.grid, None).rated.values()
    for _, offer, ways in list(placing.bought(rated))[:50]:
        [row] = placing.chosen(ways, offer)
        usd = ways.machines * placing.billed(offer, ways.expected).paid_s
        assert usd[row] == usd.min()
        assert not np.any((usd == usd.min()) & (ways.machines < ways.machines[row]))


def test_a_run_buys_no_term_and_the_table_says_so() -> None:
    q = question()
    kinds = {p.offer.price_kind for p in solve_training(q, CALIBRATION).ranked}
    assert kinds <= {PriceKind.ON_DEMAND, PriceKind.SPOT, PriceKind.CAPACITY_BLOCK}
    offer = next(o for o in q.offers if o.price_kind is PriceKind.ON_DEMAND)
    bound = replace(q, offers=(replace(offer, price_kind=PriceKind.COMMIT_1Y),))
    assert "training_binds_longer" in reasons(bound)


def test_what_is_late_says_when_it_would_be_done() -> None:
    q = question(tokens=1e10)
    hurried = replace(q, goal=replace(q.goal, deadline_s=HOUR, most_machines=1))
    solution = solve_training(hurried, CALIBRATION)
    assert not solution.ranked
    nearest = solution.rejections.nearest[LATE]
    assert nearest.miss is not None
    assert hurried.goal.deadline_s < nearest.shortfall < math.inf


def test_a_machine_without_a_price_is_counted_as_such() -> None:
    q = question()
    [first, *_] = q.offers
    assert NO_PRICE.code in reasons(replace(q, offers=tuple(o for o in q.offers if o.instance == first.instance)))


def test_a_quota_of_nothing_leaves_nothing() -> None:
    q = question()
    none_left = replace(q, offers=tuple(replace(offer, max_instances=0) for offer in q.offers))
    assert not solve_training(none_left, CALIBRATION).ranked
    assert BEYOND_QUOTA.code in reasons(none_left)


def test_a_whole_day_of_a_block_is_paid() -> None:
    q = question(tokens=1e8)
    offer = next(o for o in q.offers if o.price_kind is PriceKind.ON_DEMAND)
    blocked = replace(q, offers=(replace(offer, price_kind=PriceKind.CAPACITY_BLOCK),))
    [p] = solve_training(blocked, CALIBRATION).ranked
    assert float(p.expected.elapsed_s) < float(p.expected.paid_s)
    assert float(p.expected.paid_s) % DAY == 0


def test_one_row_a_machine_type_and_price_kind_cheapest_first() -> None:
    asked = question()
    ranked = solve_training(asked, CALIBRATION).ranked
    keys = [(p.offer.cloud, p.offer.instance, p.offer.price_kind) for p in ranked]
    assert len(keys) == len(set(keys))
    counted = [p.usd * p.offer.age_ratio * speed_doubt(asked, p) for p in ranked]
    assert counted == sorted(counted)
    assert set(map(id, cheapest_of_each_type([*ranked, *ranked]))) == set(map(id, ranked))


def test_ends_move_each_uncertainty_alone_and_add_them_in_quadrature() -> None:
    moved = RunTimes(*(np.array([[x], [y]]) for x, y in ((130.0, 200.0), (130.0, 200.0), (1.0, 1.0), (5.0, 5.0))))
    usual = RunTimes(*(np.array([x]) for x in (100.0, 100.0, 1.0, 5.0)))
    high = beyond(usual, moved, 1)
    both = math.hypot(math.log(1.3), math.log(2.0))
    assert np.allclose(np.log(high.elapsed_s / 100), both)
    assert np.allclose(high.elapsed_s * beyond(usual, moved, -1).elapsed_s, 100**2)


def test_one_uncertainty_that_never_ends_is_an_end_that_never_comes() -> None:
    usual = RunTimes(*(np.array([x, np.inf]) for x in (100.0, 100.0, 0.0, 5.0)))
    never = RunTimes(*(np.array([[x, x]]) for x in (np.inf, np.inf, 0.0, 5.0)))
    assert np.isinf(beyond(usual, never, 1).elapsed_s).all()
    assert beyond(usual, never, 1).stops[0] == 0


def test_a_budget_leaves_what_it_pays_for() -> None:
    ranked, rejections = solve_training(question(), CALIBRATION).ranked, Rejections()
    middle = ranked[len(ranked) // 2].usd
    left = within_usd(ranked, middle, rejections)
    assert left == [p for p in ranked if p.usd <= middle]
    assert sum(rejections.counts.values()) == len(ranked) - len(left)


def test_the_soonest_and_the_steady_way_stand_beside_the_cheapest() -> None:
    solution = solve_training(question(), CALIBRATION)
    assert solution.faster is not None
    assert solution.steady is not None
    soonest_s = min(p.expected.elapsed_s for p in solution.ranked)
    near = [p.usd for p in solution.ranked if p.expected.elapsed_s <= 1.05 * soonest_s]
    assert solution.faster.usd == min(near)
    assert solution.steady.offer.price_kind is not PriceKind.SPOT


def test_a_price_without_a_date_stands_beside_where_it_costs_less_and_is_never_ranked_first() -> None:
    q = question()
    offer = next(o for o in q.offers if o.price_kind is PriceKind.ON_DEMAND)
    other = next(o for o in q.offers if o.price_kind is PriceKind.ON_DEMAND and o.instance != offer.instance)
    undated = replace(other, first_seen=date(2025, 1, 1), price_per_instance_usd_per_hour=1e-3)
    cheaper = solve_training(replace(q, offers=(offer, undated)), CALIBRATION)
    assert [p.offer for p in cheaper.ranked] == [offer]
    assert cheaper.undated is not None
    assert cheaper.undated.offer == undated
    dearer = solve_training(
        replace(q, offers=(offer, replace(undated, price_per_instance_usd_per_hour=1e3))), CALIBRATION
    )
    assert dearer.undated is None
    as_dear = solve_training(replace(q, offers=(offer, replace(offer, first_seen=date(2025, 1, 1)))), CALIBRATION)
    assert [p.offer for p in as_dear.ranked] == [offer]
    assert as_dear.undated is None
    alone = solve_training(replace(q, offers=(undated,)), CALIBRATION)
    assert [p.offer for p in alone.ranked] == [undated]
    assert alone.undated is None


# --- the fewest GPUs that would do ---


def test_the_fewest_gpus_that_meet_a_deadline_meet_it_and_one_fewer_does_not() -> None:
    q = question(tokens=1e10)
    hurried = replace(q, goal=replace(q.goal, deadline_s=24 * HOUR, most_usd=1.0, most_machines=1))
    least = least_gpus(hurried, CALIBRATION)
    assert least is not None
    enough, short = (
        replace(q, goal=replace(q.goal, deadline_s=24 * HOUR, most_gpus=most)) for most in (least, least - 1)
    )
    assert {p.num_gpus for p in solve_training(enough, CALIBRATION).ranked} == {least}
    assert not solve_training(short, CALIBRATION).ranked


def test_no_number_of_gpus_is_done_a_second_after_it_has_started() -> None:
    q = question()
    assert least_gpus(replace(q, goal=replace(q.goal, deadline_s=q.goal.startup_s + 1)), CALIBRATION) is None


def test_a_part_of_a_gpu_trains_nothing_and_a_whole_one_does() -> None:
    search, instance = TrainingSearch(question(), CALIBRATION), question().instances[0]
    assert [search.runs_on(replace(instance, gpu_count=count)) for count in (0.5, 0.99, 1.0)] == [False, False, True]


def test_machines_of_few_gpus_work_alone_where_they_are_not_joined_or_nobody_knows_their_network() -> None:
    q = question()
    few = TrainingSearch(replace(q, goal=replace(q.goal, joins_small_machines=False)), CALIBRATION)
    both = TrainingSearch(q, CALIBRATION)
    for device, (host, machine) in enumerate(zip(both.hosts, both.machines, strict=True)):
        if machine.num_gpus >= WHOLE_MACHINE_GPUS:
            assert few.most_joined(device) == both.most_joined(device) == math.inf
        else:
            assert few.most_joined(device) == 1
            assert both.most_joined(device) == (MOST_SMALL_MACHINES if host[-1] else 1)
    counted = TrainingSearch(question(gpus=("L40S:4",)), CALIBRATION)
    known = [device for device, host in enumerate(counted.hosts) if host[-1] and counted.machines[device].num_gpus < 8]
    unjoined = replace(counted.question, goal=replace(counted.question.goal, joins_small_machines=False))
    assert {TrainingSearch(unjoined, CALIBRATION).most_joined(device) for device in known} == {MOST_SMALL_MACHINES}
