"""A mix holds as its requests are mixed: loads of buckets do not add up, and what a loss leaves has to carry all."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpufleet.api.mixes import MixRequest, understood_mix
from gpufleet.api.plans import plan_serve
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.mix import Mix, MixProblem
from gpufleet.optimize.mixes import corrected, search
from gpufleet.optimize.mixes.cheapest import sound_mix
from gpufleet.optimize.mixes.corrected import (
    as_sent,
    corrected_mix,
    cut_as,
    on_one_type,
    parted,
    proved_to,
    rated,
    rates_alone,
    split_anew,
    whole_on_one_way,
    with_units_more,
)
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.question import posed_of
from gpufleet.optimize.mixes.search import Sought, cheaper_mix
from gpufleet.optimize.mixes.simpler import with_fewer_rows
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.questions.fields import RequestKind, ServeRequest

CHAT = ServeRequest(
    "llama-3.1-8b", 20.0, 1000, 200, slo="ttft.p95<1s,tpot.p95<50ms", clouds=["aws"], regions=["us-east-1"],
    gpus=["H100", "L40S"],
)  # fmt: skip


def posed(request: ServeRequest = CHAT) -> Posed:
    return posed_of(understood_mix(MixRequest(), [request], None, load_catalog()), is_cut=True)


@pytest.fixture(scope="module")
def plain() -> Posed:
    return posed()


def at_once(problem: MixProblem, known: Mix | None) -> Sought:
    return cheaper_mix(problem, Effort(), np.inf if known is None else known.usd_per_hour)


def test_the_requests_that_a_type_gets_take_more_of_it_than_the_sum_of_their_loads(plain: Posed) -> None:
    """Short requests wait behind long ones: a mixture is not as light as its parts apart."""
    problem = plain.problem
    way = int(np.flatnonzero(np.isfinite(problem.load_units).all(axis=0))[0])
    share = np.zeros_like(problem.load_units)
    share[:, way] = 1.0
    needed, _ = as_sent(plain, problem, share)
    assert needed[way] != pytest.approx(problem.used_units(share)[way], rel=1e-3)
    only = np.flatnonzero(np.arange(problem.num_ways) != way)
    assert not needed[only].any()


def test_a_corrected_mix_holds_and_its_loads_are_those_of_its_mixtures(plain: Posed) -> None:
    found = corrected_mix(plain, at_once)
    assert found is not None
    assert found.is_sound
    assert np.all(found.needed_units <= found.mix.units + 1e-6)
    one = on_one_type(plain)
    assert one is not None
    assert found.mix.usd_per_hour < one.mix.usd_per_hour


def test_nothing_is_searched_where_a_mix_is_known_and_no_effort_is_left(
    plain: Posed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of a second once took a minute: who has no effort left has none for a search without the solver."""
    looked: list[MixProblem] = []
    monkeypatch.setattr(search, "rounded", lambda problem, *_: looked.append(problem))
    spent, known = Effort.of_iterations(0.0), on_one_type(plain)
    assert known is not None
    sought = cheaper_mix(plain.problem, spent, known.mix.usd_per_hour)
    assert (sought.mix, looked) == (None, [])
    assert 0 < sought.least_usd_per_hour < known.mix.usd_per_hour
    cheaper_mix(plain.problem, spent)
    assert len(looked) == 1


def test_one_type_for_each_service_is_where_the_search_starts(plain: Posed) -> None:
    one = on_one_type(plain)
    assert one is not None
    assert np.count_nonzero(one.mix.units) == 1
    kept = corrected_mix(plain, lambda problem, known: Sought(None, 0.0), one)
    assert kept is not None
    assert kept.mix.usd_per_hour == one.mix.usd_per_hour
    assert kept.mix.least_usd_per_hour == 0.0


def test_with_a_machine_to_spare_what_is_left_is_rated_too() -> None:
    asked = posed(replace(CHAT, spare_machines=1))
    found = sound_mix(asked, Effort(), on_one_type(asked))
    assert found is not None
    problem = found.problem
    for way in np.flatnonzero(found.mix.units > 0):
        left = found.mix.units - (np.arange(problem.num_ways) == way)
        share = split_anew(problem, left)
        assert share is not None
        needed, _ = as_sent(asked, problem, share)
        before, _ = as_sent(asked, problem, found.mix.share)
        assert np.all(needed <= left + 1e-6) or np.all(before <= left + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("lost", [{}, {"spare_machines": 2}, {"zones": 2}, {"zones": 3}])
def test_one_type_costs_what_a_plan_costs_with_spares_and_zones(lost: dict[str, int]) -> None:
    asked = replace(CHAT, **lost)  # type: ignore[arg-type]
    one = on_one_type(posed(asked))
    assert one is not None
    assert one.mix.usd_per_hour == pytest.approx(plan_serve(asked).answer.usd_per_hour)


def test_a_mix_that_does_not_hold_gets_units_until_it_does(plain: Posed) -> None:
    one = on_one_type(plain)
    assert one is not None
    scarce = rated(plain, plain.problem, replace(one.mix, units=np.minimum(one.mix.units, 1.0)))
    assert not scarce.is_sound
    grown = with_units_more(plain, scarce)
    assert grown is not None
    assert grown.is_sound
    assert np.array_equal(grown.mix.units, one.mix.units)


def test_rows_that_nobody_needs_are_dropped_and_the_cost_is_no_higher(plain: Posed) -> None:
    found = corrected_mix(plain, at_once)
    assert found is not None
    doubled = rated(plain, found.problem, replace(found.mix, units=found.mix.units + (found.mix.units > 0)))
    fewer = with_fewer_rows(plain, doubled)
    assert fewer.is_sound
    assert np.count_nonzero(fewer.mix.units) <= np.count_nonzero(doubled.mix.units)
    assert fewer.mix.usd_per_hour <= doubled.mix.usd_per_hour


def test_what_is_claimed_is_the_least_that_any_round_proved(plain: Posed) -> None:
    proved: list[float] = []

    def noted(problem: MixProblem, known: Mix | None) -> Sought:
        sought = at_once(problem, known)
        proved.append(sought.least_usd_per_hour)
        return sought

    found = corrected_mix(plain, noted)
    assert found is not None
    assert found.mix.least_usd_per_hour == pytest.approx(min(found.mix.usd_per_hour, *proved))
    assert proved_to(found, np.inf).mix.least_usd_per_hour == 0.0


TWO_CLASSES = ServeRequest(
    "llama-3.1-8b", 20.0, 1, 1, clouds=["aws"], gpus=["H100", "L40S"],
    classes=(
        RequestKind("chat", 16.0, 1000, 300, "ttft.p95<500ms,tpot.p95<40ms"),
        RequestKind("reports", 4.0, 6000, 300, "latency.p95<60s"),
    ),
)  # fmt: skip


def test_classes_that_disturb_each_other_may_keep_replicas_of_their_own() -> None:
    """Long reports between chats delay first tokens; each class alone on one type is a start that holds."""
    asked = posed(TWO_CLASSES)
    apart = on_one_type(asked)
    assert apart is not None
    assert apart.is_sound
    whole = whole_on_one_way(asked, [(0, None)])
    assert whole is None or apart.mix.usd_per_hour <= whole.mix.usd_per_hour
    assert {way.request_class for way in asked.ways} == {None, "chat", "reports"}


def test_requests_that_do_not_go_together_part_and_what_was_proved_before_stays(plain: Posed) -> None:
    found = corrected_mix(plain, at_once)
    assert found is not None
    way = int(np.flatnonzero(found.mix.units > 0)[0])
    clashes = np.zeros_like(found.clashes)
    clashes[:, way] = found.mix.share[:, way] > 0
    loads = parted(plain, replace(found, clashes=clashes))
    left = np.flatnonzero(np.isinf(loads[:, way]) & np.isfinite(found.problem.load_units[:, way]))
    slowest = np.argmax(np.where(clashes[:, way], found.problem.load_units[:, way] / rates_of(plain), -1.0))
    assert list(left) == [slowest]
    assert np.isfinite(loads).any(axis=1).all()


def rates_of(asked: Posed) -> FloatArray:
    """The planned rate of each bucket of the one service."""
    return asked.services[0].planned_requests_per_s


def test_requests_that_clash_leave_a_way_only_if_they_have_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corrected, "leaving", lambda posed, found, w: np.flatnonzero(found.clashes[:, w]))
    problem = MixProblem.of_types(np.array([[1.0, np.inf], [1.0, 2.0], [3.0, 3.0]]), np.ones(2), np.full(2, np.inf))
    found: Any = SimpleNamespace(problem=problem, clashes=np.array([[True, False], [True, False], [False, False]]))
    asked: Any = None
    assert parted(asked, found).tolist() == [[1.0, np.inf], [np.inf, 2.0], [3.0, 3.0]]


@pytest.mark.parametrize(("reach", "rates"), [(None, [7.0, 5.0]), (object(), [3.0, 2.0])])
def test_a_group_alone_keeps_its_limits_at_users_whose_places_are_stated(reach: object, rates: list[float]) -> None:
    """Ways of the second and of the first row; the way there takes something of what they sustain."""
    ways = [SimpleNamespace(row=row, offer=row) for row in (1, 0)]
    offers = [SimpleNamespace(cloud="a", region=name) for name in ("near", "far")]
    service: Any = SimpleNamespace(
        reach=reach, every=None, sustained_of=lambda *_: np.array([5.0, 7.0]),
        sustained_as_sent=lambda _, share, row, region: {(0, ("a", "near")): 2.0, (1, ("a", "far")): 3.0}[row, region],
    )  # fmt: skip
    asked, demand = SimpleNamespace(ways=ways, offers=offers), SimpleNamespace()
    assert list(rates_alone(asked, service, demand, np.ones(1), [0, 1])) == rates  # type: ignore[arg-type]


def test_a_mix_of_whole_requests_is_the_same_where_they_are_told_apart(plain: Posed) -> None:
    whole = posed_of(understood_mix(MixRequest(), [CHAT], None, load_catalog()), is_cut=False)
    one = on_one_type(whole)
    assert one is not None
    told = cut_as(plain, whole, one)
    assert told is not None
    assert (told.mix.machines.sum(), told.mix.units.sum()) == (one.mix.machines.sum(), one.mix.units.sum())
    assert told.mix.usd_per_hour == pytest.approx(one.mix.usd_per_hour)
    assert told.mix.share.sum(axis=1) == pytest.approx(1.0)
    elsewhere = replace(plain, ways=tuple(replace(way, request_class="none") for way in plain.ways))
    assert cut_as(elsewhere, whole, one) is None
    tight = replace(one, mix=replace(one.mix, units=np.minimum(one.mix.units, 0.5)))
    assert cut_as(plain, whole, tight) is None
