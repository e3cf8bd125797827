"""Which offers come first, and what units alone carry, told of a few offers that are written down."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpufleet.domain.mix import Loss, MachineLimit, Mix, MixProblem
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.optimize.mixes import corrected
from gpufleet.optimize.mixes.corrected import (
    ENOUGH,
    Rated,
    may_be_had,
    over_loads,
    proved_to,
    units_alone,
    units_for,
    without_crumbs,
)
from gpufleet.optimize.mixes.effort import Effort, Meter, used
from gpufleet.optimize.mixes.simpler import on_fewest_machines, used_replicas
from gpufleet.optimize.mixes.terms import CloudShare, GpusAtMost, Terms
from gpufleet.optimize.mixes.ways import (
    REGIONS_IN_TURN,
    best_layouts,
    carries_all,
    group_of,
    grouped,
    is_barred,
    is_limited,
    kinds_apart,
    leanest,
    ranked_in_groups,
    types_in_turn,
    usd_per_bucket,
)


def offered(instance: str, usd: float = 1.0, **how: Any) -> Offer:
    told = {"cloud": "a", "region": "here", "price_kind": PriceKind.ON_DEMAND, "instance": instance, **how}
    return Offer(price_per_instance_usd_per_hour=usd, basis=PriceBasis.LIST, source="", as_of=date(2025, 1, 1), **told)


SMALL, LARGE, SPOT = offered("small"), offered("large", 4.0), offered("small", 0.5, price_kind=PriceKind.SPOT)
MACHINE: Any = SimpleNamespace(accelerator="L4", gpu_count=1)
FREE = {SMALL: False, LARGE: False, SPOT: False}
DOLLARS = np.array([1.0, 4.0])


# --- which offers come first ---


def test_offers_are_grouped_by_what_limits_hold_back() -> None:
    other = replace(LARGE, cloud="b")
    held = {**FREE, LARGE: True, other: False}
    assert [group_of(o, held, Terms()) for o in (SMALL, LARGE, SPOT)] == [
        ("", False, False), ("", False, True), ("", False, False)
    ]  # fmt: skip
    assert group_of(SPOT, held, Terms(most_spot_ratio=0.5)) == ("", True, False)
    assert group_of(SPOT, held, Terms(most_spot_ratio=1.0)) == ("", False, False)
    shares = Terms(shares=(CloudShare("a", 0.5), CloudShare("c", 0.5)))
    costs = {o: np.ones(1) for o in (SMALL, LARGE, other)}
    assert [[o for o, _ in group] for group in grouped(costs, held, shares)] == [[SMALL], [LARGE]]
    assert [[o for o, _ in group] for group in grouped(costs, held, Terms())] == [[SMALL, other], [LARGE]]
    assert list(ranked_in_groups([SPOT, LARGE, SMALL], held, Terms())) == [(SPOT, 0), (LARGE, 0), (SMALL, 1)]


def test_an_offer_is_limited_by_its_number_or_a_quota_and_barred_by_a_quota_of_none_or_no_spot() -> None:
    some, none, elsewhere = (GpusAtMost("q", n, "L4", cloud) for n, cloud in ((3, "a"), (0, "a"), (0, "b")))
    assert [is_limited(SMALL, MACHINE, Terms(quotas=q)) for q in ((), (some,), (elsewhere,))] == [False, True, False]
    assert is_limited(replace(SMALL, max_instances=3), MACHINE, Terms())
    assert [is_barred(SMALL, MACHINE, Terms(quotas=(q,))) for q in (some, none, elsewhere)] == [False, True, False]
    assert [is_barred(SPOT, MACHINE, Terms(most_spot_ratio=r)) for r in (0.0, 0.1)] == [True, False]
    assert not is_barred(SMALL, MACHINE, Terms(most_spot_ratio=0.0))
    costs = {SMALL: np.array([1.0, np.inf]), LARGE: np.array([np.inf, 4.0])}
    assert [carries_all(costs, barred) for barred in ((), (SMALL,), (SMALL, LARGE))] == [True, False, False]


def test_those_that_emit_least_for_what_they_carry_come_first_where_that_is_limited() -> None:
    """Kilograms an hour over dollars an hour, times the dollars of its cheapest bucket."""
    kg = {("a", "here", "small"): 1.0, ("a", "here", "large"): 2.0}
    costs = {SMALL: np.array([3.0, 2.0]), LARGE: np.array([np.inf, 1.0]), SPOT: np.array([0.1, 9.0])}
    limited = Terms(most_kg_per_hour=5.0, kg_per_hour=kg)
    assert leanest([costs], [SMALL, LARGE], limited) == [LARGE, SMALL]
    assert leanest([costs], [SMALL, LARGE, SPOT], limited) == [SPOT, LARGE, SMALL]
    assert leanest([costs, {SMALL: np.array([0.1])}], [SMALL, LARGE], limited) == [SMALL, LARGE]
    assert leanest([{SMALL: np.array([np.inf])}], [SMALL], limited) == []
    assert leanest([costs], [SMALL, LARGE], Terms(kg_per_hour=kg)) == []


def test_the_first_regions_of_each_type_come_before_any_further_ones() -> None:
    many = [replace(SMALL, region=str(n)) for n in range(2 * REGIONS_IN_TURN)]
    assert types_in_turn([*many, LARGE, SPOT]) == [*many[:REGIONS_IN_TURN], LARGE, SPOT, *many[REGIONS_IN_TURN:]]


def service(requests_per_s: list[list[float]], whole: list[float], num_devices: list[int], planned: list[float]) -> Any:
    """What layouts sustain of each bucket, [bucket, layout], and of all as they come."""
    return SimpleNamespace(
        requests_per_s=np.array(requests_per_s),
        whole_requests_per_s=np.array(whole),
        every=SimpleNamespace(num_devices=np.array(num_devices)),
        planned_requests_per_s=np.array(planned),
        question=SimpleNamespace(
            demand=SimpleNamespace(planned_requests_per_s=sum(planned)), offers=(SMALL, LARGE, offered("none"))
        ),
        answer_tokens_per_s=np.zeros(len(planned)),
        rates_from=lambda region, rows: np.array(requests_per_s)[:, list(rows)],
        reach=None,
        classes=[],
    )


def test_the_layout_of_least_load_is_kept_with_those_of_what_is_left_and_of_all_as_they_come() -> None:
    eight: Any = SimpleNamespace(gpu_count=8)
    rows = np.arange(4)
    #                                   on 1, 2, 4 and 8 GPUs
    one = service([[1, 3, 5, 9], [0, 1, 3, 5]], [0, 4, 9, 9], [1, 2, 4, 8], [10.0, 10.0])
    assert best_layouts(one, eight, rows) == [(2, 2)]
    two = service([[2, 0, 0, 0], [0, 0, 3, 4]], [0, 0, 0, 9], [1, 2, 4, 8], [10.0, 10.0])
    assert best_layouts(two, eight, rows) == [(0, 8), (2, 2), (3, 1)]
    assert best_layouts(service([[0, 0]], [0, 0], [1, 2], [1.0]), eight, np.arange(2)) == []
    assert best_layouts(two, SimpleNamespace(gpu_count=3), rows[:2]) == [(0, 3)]  # type: ignore[arg-type]


def test_a_bucket_costs_its_part_of_machines_and_then_whole_ones() -> None:
    """Ten and twenty requests a second: a small machine holds two replicas of layout 0, a large one layout 1."""
    asked = service([[2.0, 15.0], [0.0, 16.0]], [1.0, 15.0], [1, 4], [10.0, 20.0])
    found = usd_per_bucket(asked, {("a", "small"): [(0, 2)], ("a", "large"): [(1, 1), (0, 4)]}, Terms())
    assert set(found) == {SMALL, LARGE}
    assert found[SMALL].tolist() == [2.5, math.inf, 15.0, 3.0, math.inf, 15.0]
    assert found[LARGE] == pytest.approx([4 * 10 / 15, 5.0, 8.0, 4.0, 8.0, 8.0])


def test_classes_are_told_apart_where_there_are_several() -> None:
    names = [SimpleNamespace(name=name) for name in ("chat", "code")]
    assert kinds_apart(SimpleNamespace(classes=names)) == [None, "chat", "code"]  # type: ignore[arg-type]
    assert kinds_apart(SimpleNamespace(classes=names[:1])) == [None]  # type: ignore[arg-type]


# --- what units alone carry ---


def problem(**words: Any) -> MixProblem:
    load = np.array([[6.0, 2.0], [math.inf, 3.0]])
    return replace(MixProblem.of_types(load, DOLLARS, np.full(2, np.inf)), **words)


def lost(ratio: float) -> Loss:
    return Loss("lost", np.array([ratio, ratio]), np.zeros(2))


@pytest.mark.parametrize(
    ("words", "units"),
    [
        ({}, 4.0), ({"spare_machines": 2}, 6.0), ({"losses": (lost(0.5),)}, 8.0), ({"losses": (lost(1 / 3),)}, 6.0),
        ({"losses": (lost(0.5),), "spare_machines": 5}, 9.0), ({"losses": (lost(1.0),)}, math.inf),
        ({"least_replicas": np.array([9.0])}, 5.0), ({"replicas_per_unit": np.ones(2)}, 7.0),
    ],
)  # fmt: skip
def test_units_alone_carry_a_rate_whatever_is_lost(words: dict[str, Any], units: float) -> None:
    """Seven requests a second, of which a replica carries one and a unit of two replicas twice as many."""
    told = problem(**{"replicas_per_unit": np.array([2.0, 1.0]), **words})
    assert units_alone(told, 0, 1.0, 7.0) == units


def test_no_units_carry_what_no_replica_does_and_one_is_the_least() -> None:
    assert units_alone(problem(), 0, 0.0, 7.0) == units_for(0.0, 1.0) == math.inf
    assert units_alone(problem(), 0, 100.0, 1.0) == 1.0
    assert units_for(4.0, 2.0) == 0.5


def test_machines_may_be_had_within_quotas_and_limits_that_only_count() -> None:
    budget = MachineLimit("budget", DOLLARS, 10.0)
    fewer = MachineLimit("fewer", np.array([1.0, -1.0]), 0.0)
    told = problem(most_machines=np.array([6.0, np.inf]), limits=(budget, fewer))
    assert [may_be_had(told, np.array(n)) for n in ([6.0, 1.0], [7.0, 0.0], [6.0, 1.1], [6.0, 0.0])] == [
        True, False, False, True
    ]  # fmt: skip


def found(units: list[float], machines: list[float], usd: float, **words: Any) -> Rated:
    one = problem(**words)
    none = np.zeros(2)
    mix = Mix(np.array(machines), np.array(units), np.array([[1.0, 0.0], [0.0, 1.0]]), usd)
    return Rated(one, mix, np.array([6.0, 3.0]), none, none, np.ones(2), np.zeros((2, 2), dtype=bool))


def test_what_was_proved_is_claimed_up_to_the_cost_and_nothing_where_nothing_was() -> None:
    one = found([6, 3], [6, 3], 18.0)
    assert [proved_to(one, usd).mix.least_usd_per_hour for usd in (17.0, 19.0, np.inf)] == [17.0, 18.0, 0.0]


def test_a_mix_is_sound_where_no_unit_is_missing_but_for_rounding() -> None:
    one = found([6, 3], [6, 3], 18.0)
    missing = [np.array([6 * ENOUGH * times, 0.0]) for times in (0.5, 2.0)]
    assert [replace(one, missing_units=each).is_sound for each in missing] == [True, False]


def test_units_over_their_loads_and_shares_without_crumbs() -> None:
    share = np.array([[0.5, 0.5], [0.0, 1.0]])
    assert over_loads(problem(), share, np.array([6.0, 2.0])).tolist() == [2.0, 0.5]
    assert over_loads(problem(), share, np.array([np.inf, 4.0])).tolist() == [1.0, 1.0]
    assert over_loads(problem(), np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([9.0, 5.0])).tolist() == [1.0, 1.0]
    assert without_crumbs(np.array([[9e-7, 0.5], [0.25, 0.75]])).tolist() == [[0.0, 1.0], [0.25, 0.75]]


def test_fewer_units_stand_on_fewer_machines_where_that_is_allowed_and_costs_no_more() -> None:
    one = found([6, 3], [6, 3], 18.0)
    fewer = on_fewest_machines(one, np.array([5.0, 3.0]))
    assert (fewer.machines.tolist(), fewer.units.tolist(), fewer.usd_per_hour) == ([5, 3], [5, 3], 17.0)
    least = MachineLimit("least", np.ones(2), least=9.0)
    kept = on_fewest_machines(replace(one, problem=problem(limits=(least,))), np.array([5.0, 3.0]))
    assert (kept.machines.tolist(), kept.units.tolist(), kept.usd_per_hour) == ([6, 3], [5, 3], 18.0)
    leaving = problem(machines_today=np.array([6.0, 0.0]), leaving_usd_per_hour=np.array([9.0, 0.0]))
    stays = on_fewest_machines(replace(one, problem=leaving), np.array([5.0, 3.0]))
    assert stays.machines.tolist() == [6, 3]
    assert used_replicas(found([6, 3], [6, 3], 1.0, replicas_per_unit=np.array([2.0, 1.0]))).tolist() == [12.0, 3.0]


# --- how much is searched ---


def test_effort_is_counted_in_iterations_or_in_seconds_and_parts_are_of_what_is_left() -> None:
    timed = Effort(Meter(most_s=10.0, elapsed_s=lambda: 4.0))
    assert (timed.left_ratio, timed.seconds_left, timed.iterations_left) == (0.6, 6.0, math.inf)
    half = timed.part(0.5)
    assert half.end_ratio == pytest.approx(0.7)
    assert half.seconds_left == pytest.approx(3.0)
    assert timed.until(0.5).left_ratio == pytest.approx(0.1)
    assert timed.until(2.0).end_ratio == 1.0
    assert timed.at_least(0.1) == timed
    assert timed.until(0.4).at_least(0.1).left_ratio == pytest.approx(0.1)
    late = Effort(Meter(most_s=10.0, elapsed_s=lambda: 12.0))
    assert late.seconds_left == 0.0
    assert not late.meter.is_cut
    assert late.is_over
    assert late.meter.is_cut
    counted = Effort.of_iterations(100.0)
    counted.spend(100.0)
    assert counted.is_over
    assert not counted.meter.is_cut
    assert counted.part(0.5).end_ratio == 1.0
    assert (used(1.0, 0.0), used(1.0, 4.0), used(1.0, math.inf)) == (1.0, 0.25, 0.0)


# --- what a loss leaves ---


def test_what_is_missing_is_the_most_of_all_losses_split_anew_or_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six and three units are needed of six and four; after the first loss five and two, split anew for less."""
    mix = found([6, 4], [6, 4], 22.0).mix
    other = np.array([[0.0, 1.0], [0.0, 1.0]])
    needs = {1.0: (np.array([6.0, 3.0]), None), 0.0: (np.array([0.0, 4.5]), None)}
    monkeypatch.setattr(corrected, "as_sent", lambda posed, problem, share: needs[float(share[0, 0])])
    posed: Any = None

    def missing(*left: tuple[float, float], share: Any = other) -> Rated:
        monkeypatch.setattr(corrected, "split_anew", lambda *_: share)
        monkeypatch.setattr(corrected, "all_that_is_left", lambda *_: iter([np.array(each) for each in left]))
        return corrected.rated(posed, problem(), mix)

    assert missing().missing_units.tolist() == [0.0, 0.0]
    assert missing((6.0, 3.0)).over_ratio.tolist() == [1.0, 1.0], "it holds as it is: nothing is split anew"
    assert missing((5.0, 2.0), share=None).missing_units.tolist() == [1.0, 1.0]
    anew = missing((5.0, 2.0))
    assert (anew.missing_units.tolist(), anew.over_ratio.tolist()) == ([0.0, 2.5], [1.0, 1.0])
    assert missing((5.0, 4.0), (0.0, 3.0)).missing_units.tolist() == [0.0, 1.5]
    needs[0.0] = (np.array([0.0, 10.0]), None)
    assert missing((5.0, 9.0)).over_ratio.tolist() == [1.0, 2.0]
    needs[0.0] = (np.array([0.0, np.inf]), None)
    assert missing((5.0, 9.0)).clashes.tolist() == [[False, True], [False, True]]
    assert not missing().clashes.any()
