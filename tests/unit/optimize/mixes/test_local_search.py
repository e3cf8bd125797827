"""Changes of whole units that a search looks at, and what they are worth: small cases told by hand or tried in full."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpufleet.domain.mix import Loss, MachineLimit, MixProblem, Share
from gpufleet.optimize.mixes.local_search import BROKEN, Search, broken, choices
from gpufleet.optimize.mixes.survival import Survival, Worth

ANY = math.inf
NOTHING = Loss("nothing", np.zeros(3), np.zeros(3))


def three_types(**how: Any) -> MixProblem:
    """Two buckets that the first way carries dearly, and the other two one each at less."""
    load = np.array([[4.0, 2.0, ANY], [6.0, ANY, 3.0]])
    return replace(MixProblem.of_types(load, np.array([3.0, 5.0, 4.0]), np.full(3, ANY)), **how)


def search_of(problem: MixProblem, units: Sequence[float] = (0.0, 0.0, 0.0), worths: Sequence[Worth] = ()) -> Search:
    test = Survival(problem, [0])
    test.price = np.array([worth.price for worth in worths]).reshape(-1, len(test.ways))
    test.needed = np.array([worth.needed for worth in worths])
    return Search(problem, [0], test, np.array(units))


def rows(found: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(row) for row in found.tolist()}


def cheapest_usd(problem: MixProblem, most: int) -> float:
    """Every count of every way up to so many, tried."""
    test = Survival(problem, [0])
    return min(
        float(np.dot(units, problem.usd_per_hour))
        for units in itertools.product(range(most + 1), repeat=problem.num_ways)
        if next(test.fatal(np.array(units, dtype=float)), None) is None
    )


def test_choices_are_none_one_or_two_units_of_the_ways() -> None:
    assert rows(choices(np.array([0, 2]), 3)) == {
        (0, 0, 0), (1, 0, 0), (0, 0, 1), (2, 0, 0), (1, 0, 1), (0, 0, 2)
    }  # fmt: skip


def test_changes_are_all_of_two_units_given_up_for_two_others_that_leave_no_less_than_none() -> None:
    units, every = np.array([1.0, 0.0, 3.0]), np.arange(3)
    two = [c for c in itertools.product(range(3), repeat=3) if sum(c) <= 2]
    by_hand = {tuple(np.add(units, added) - dropped) for added in two for dropped in two if not dropped[1]}
    all_of_one_way = (1.0, 0.0, 0.0)
    assert rows(search_of(three_types()).changed(units, every)) == {
        all_of_one_way,
        *(x for x in by_hand if min(x) >= 0),
    }


def test_units_are_bought_of_the_promising_ways_alone() -> None:
    found = search_of(three_types()).changed(np.array([1.0, 0.0, 3.0]), np.array([1]))
    assert {tuple(row[[0, 2]]) for row in found} == {(1, 3), (0, 3), (1, 2), (0, 2), (1, 1), (1, 0)}
    assert {row[1] for row in found} == {0, 1, 2}


def test_many_units_are_given_up_for_as_many_of_another_as_a_worth_asks_for() -> None:
    """Thirty units worth 1 and 24 needed: what is missing is made up by ways worth 2 and 0.5, rounded up."""
    worth = Worth(np.array([1.0, 2.0, 0.5]), 24.0)
    found = search_of(three_types(), worths=[worth]).replaced(np.array([30.0, 1.0, 0.0]), 0, np.array([1, 2]))
    given_up = [math.ceil(30 * k / 12) for k in range(1, 13)]
    missing = [max(24 - (30 - less) - 2, 0) for less in given_up]
    assert rows(found) == {
        (30 - less, 1 + math.ceil(short / 2), 0) for less, short in zip(given_up, missing, strict=True)
    } | {(30 - less, 1, math.ceil(short / 0.5)) for less, short in zip(given_up, missing, strict=True)}


def test_a_way_that_is_worth_nothing_takes_the_place_of_none_that_is_missed() -> None:
    """The second way cannot make up for what the first leaves missing, and that candidate is dropped."""
    worth = Worth(np.array([1.0, 0.0, 0.5]), 1.0)
    found = search_of(three_types(), worths=[worth]).changed(np.array([1.0, 0.0, 0.0]), np.array([1, 2]))
    assert np.all(np.isfinite(found))
    assert (0.0, 0.0, 2.0) in rows(found)


def test_of_several_worths_the_one_that_asks_for_most_counts() -> None:
    worths = [Worth(np.array([1.0, 1.0, 1.0]), 4.0), Worth(np.array([1.0, 0.25, 1.0]), 2.0)]
    found = search_of(three_types(), worths=worths).replaced(np.array([4.0, 0.0, 0.0]), 0, np.array([1]))
    assert rows(found) == {(3.0, 1.0, 0.0), (2.0, 2.0, 0.0), (1.0, 4.0, 0.0), (0.0, 8.0, 0.0)}


def test_ways_that_are_held_come_first_then_those_that_carry_some_bucket_nearly_at_its_least() -> None:
    """Bucket 0 costs $12, $10 and $15, bucket 1 costs $18, nothing that there is, and $9."""
    load = np.array([[4.0, 2.0, 3.75], [6.0, ANY, 2.25]])
    problem = replace(three_types(), load_units=load)
    assert search_of(problem).promising(np.zeros(3)).tolist() == [1, 2, 0]
    assert search_of(problem).promising(np.array([1.0, 0.0, 0.0])).tolist() == [0, 1, 2]
    assert search_of(problem).promising(np.array([0.0, 0.0, 1.0])).tolist() == [2, 1, 0]
    dear = replace(problem, usd_per_hour=np.array([2.4, 5.0, 4.0]))
    assert search_of(dear).promising(np.zeros(3)).tolist() == [0, 2, 1], "9.6, 10, 15 and 14.4, -, 9"


def test_twenty_ways_are_enough() -> None:
    many = MixProblem.of_types(np.ones((1, 30)), np.arange(30.0, 0.0, -1.0), np.full(30, ANY))
    found = Search(many, [0], Survival(many, [0]), np.zeros(30)).promising(np.zeros(30))
    assert found.tolist() == list(range(29, 9, -1))


def test_a_score_is_the_cost_with_machines_given_up_and_far_more_where_something_is_broken() -> None:
    today = {"machines_today": np.array([2.0, 0.0, 1.0]), "leaving_usd_per_hour": np.array([0.5, 9.0, 0.25])}
    search = search_of(three_types(**today, least_replicas=np.array([4.0])), [1.0, 1.0, 1.0])
    assert search.penalty == BROKEN * (5 + 12)
    assert search_of(three_types(usd_per_hour=np.full(3, 0.25))).penalty == BROKEN
    assert search.score(np.array([1.0, 3.0, 0.0])) == pytest.approx(3 + 15 + 0.5 + 0.25)
    assert search.score(np.array([3.0, 0.0, 0.0])) == pytest.approx(9 + 0.25 + search.penalty / 4)


def test_machines_are_whole_beside_what_other_services_hold() -> None:
    """Two services on halves of one machine: what the other holds leaves room for one half at no cost."""
    shared = MixProblem.of_types(np.ones((1, 1)), np.array([8.0]), np.array([2.0]))
    load = np.array([[1.0, ANY], [ANY, 1.0]])
    both = replace(
        shared, load_units=load, service_of_bucket=np.arange(2), offer_of_way=np.zeros(2, int),
        service_of_way=np.arange(2), replicas_per_unit=np.ones(2), machines_per_unit=np.full(2, 0.5),
        least_replicas=np.zeros(2),
    )  # fmt: skip
    search = Search(both, [1], Survival(both, [1]), np.array([1.0, 7.0]))
    assert [search.score(np.array([count])) for count in (0.0, 1.0, 2.0, 3.0)] == [8.0, 8.0, 16.0, 16.0]
    assert search.most.tolist() == [3.0]
    assert Search(both, [1], Survival(both, [1]), np.array([6.0, 0.0])).most.tolist() == [0.0]


def test_what_is_broken_counts_by_its_own_size() -> None:
    limited = three_types(
        most_machines=np.array([2.0, 0.0, ANY]),
        limits=(MachineLimit("GPUs", np.array([0.0, 0.0, 1.0]), 4.0), MachineLimit("some", np.ones(3), least=2.0)),
    )
    tried = np.array([[2.0, 0.0, 4.0], [3.0, 0.0, 0.0], [2.0, 3.0, 0.0], [0.0, 0.0, 6.0], [1.0, 0.0, 0.0]])
    assert broken(limited, tried).tolist() == [0.0, 0.5, 3.0, 0.5, 0.5]


def test_a_share_of_a_cloud_counts_by_the_weight_of_all() -> None:
    share = Share("a cloud", np.array([True, False, False]), np.ones(3), 0.5, tolerance_ratio=0.1)
    found = broken(three_types(shares=(share,)), np.array([[2.0, 2.0, 0.0], [0.0, 2.0, 2.0], [4.0, 0.0, 0.0]]))
    assert found == pytest.approx([0.0, 0.4, 0.4])


@pytest.mark.parametrize(
    ("units", "only", "added"),
    [
        ([0.0, 0.0, 0.0], 0, [12.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], None, [6.0, 0.0, 0.0]),
        ([9.0, 0.0, 0.0], None, [10.0, 0.0, 0.0]),
        ([10.0, 0.0, 0.0], None, [11.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], 1, [0.0, 3.0, 0.0]),
        ([0.0, 0.0, 0.0], 2, None),
        ([0.0, 1.0, 0.0], 1, [0.0, 3.0, 0.0]),
        ([0.0, 3.0, 0.0], 1, None),
    ],
    ids=[
        "all of one",
        "half of the cheapest",
        "half of three",
        "the last",
        "a quota",
        "worth nothing",
        "the rest",
        "full",
    ],
)
def test_what_is_missing_is_made_up_by_the_cheapest_way(
    units: list[float], only: int | None, added: list[float] | None
) -> None:
    """Eleven and a half are needed: $1 for each of the first, $2 for each of the second, which is worth 1 too."""
    problem = three_types(usd_per_hour=np.array([1.0, 2.0, 1.0]), most_machines=np.array([ANY, 3.0, ANY]))
    worth = Worth(np.array([1.0, 1.0, 0.0]), 11.5)
    found = search_of(problem).more(np.array(units), NOTHING, worth, only)
    assert found is None if added is None else found is not None and found.tolist() == added


def test_of_a_loss_only_what_is_left_makes_up_for_it() -> None:
    """Half of the first are lost: 24 of it at $1 are as good as 12 of the second at $1.5, and dearer."""
    problem = three_types(usd_per_hour=np.array([1.0, 1.5, 1.0]))
    loss = Loss("half", np.array([0.5, 0.0, 1.0]), np.zeros(3))
    worth = Worth(np.array([1.0, 1.0, 1.0]), 12.0)
    by = [search_of(problem).more(np.array(units), loss, worth, only) for units, only in (
        ([0.0, 0.0, 0.0], None), ([0.0, 0.0, 0.0], 0), ([0.0, 0.0, 5.0], 2),
    )]  # fmt: skip
    assert [None if each is None else each.tolist() for each in by] == [[0.0, 6.0, 0.0], [24.0, 0.0, 0.0], None]


@pytest.mark.parametrize(
    ("held", "only", "found"),
    [
        ([1.0, 0.0, 0.0], None, [1.0, 0.0, 2.0]),
        ([1.0, 0.0, 0.0], 0, [5.0, 0.0, 0.0]),
        ([1.0, 0.0, 0.0], 1, [1.0, 0.0, 2.0]),
        ([5.0, 0.0, 0.0], None, [5.0, 0.0, 0.0]),
        ([0.0, 0.0, 1.0], None, [0.0, 0.0, 3.0]),
        ([3.0, 1.0, 0.0], None, [4.0, 1.0, 0.0]),
    ],
    ids=["the cheapest", "of the one named", "not where it has no room for all", "enough", "some there", "none left"],
)
def test_replicas_that_are_missing_are_of_the_way_where_they_cost_least(
    held: list[float], only: int | None, found: list[float]
) -> None:
    """Five are asked for: $3 a replica on the first, two for $4 on the third, of the second only one can be had."""
    problem = three_types(
        least_replicas=np.array([5.0]), replicas_per_unit=np.array([1.0, 1.0, 2.0]),
        usd_per_hour=np.array([3.0, 0.1, 4.0]), most_machines=np.array([ANY, 1.0, ANY]),
    )  # fmt: skip
    assert search_of(problem).with_replicas(np.array(held), only).tolist() == found


@pytest.mark.parametrize("seed", range(6))
def test_a_search_ends_at_units_that_carry_all_and_no_dearer_than_a_change_away(seed: int) -> None:
    """On three ways of small counts it comes to the cheapest that trying every count comes to."""
    dice = np.random.default_rng(seed)
    load = dice.uniform(0.2, 1.5, (2, 3))
    problem = MixProblem.of_types(load, dice.uniform(1, 5, 3), np.full(3, ANY))
    search = search_of(problem)
    found = search.improved(np.full(3, 0.4), is_whole=False)
    assert found is not None
    assert next(search.test.fatal(found), None) is None
    assert search.score(found) == pytest.approx(cheapest_usd(problem, 4), rel=1e-6)


def test_nothing_carries_what_cannot_be_had() -> None:
    none = three_types(most_machines=np.zeros(3))
    assert search_of(none).improved(np.zeros(3), is_whole=False) is None
    assert search_of(none).improved(np.zeros(3), is_whole=True) is None


def test_what_costs_more_than_the_most_is_not_mended() -> None:
    """Each search is new: what one learns leads the next another way."""

    def mended(*how: Any) -> np.ndarray | None:
        return search_of(three_types()).mended(np.zeros(3), None, *how)

    whole = mended(ANY)
    assert whole is not None
    usd = float(whole @ three_types().usd_per_hour)
    assert mended(usd) is not None
    assert mended(usd - 0.01) is None
    assert mended(ANY, 1) is None, "half of what is missing is added at a time"


def test_all_machines_of_an_offer_are_given_up_where_that_is_cheaper() -> None:
    """Four machines at $3 carry all; one at $10 does too, which no change of two units comes to."""
    problem = MixProblem.of_types(np.array([[4.0, 1.0]]), np.array([3.0, 10.0]), np.full(2, ANY))
    search = Search(problem, [0], Survival(problem, [0]), np.zeros(2))
    held = np.array([4.0, 0.0])
    left = [100]
    found = search.without_an_offer(held, 12.0, left)
    assert found is not None
    assert left == [88], "one offer is held"
    assert (found[0].tolist(), found[1]) == ([0.0, 1.0], 10.0)
    assert search.without_an_offer(held, 10.0, [100]) is None
    assert search.without_an_offer(held, 12.0, [12]) is None
    assert search.without_an_offer(held, 12.0, [13]) is not None
    assert search.without_an_offer(np.array([0.0, 1.0]), 10.0, [100]) is None
    one = replace(problem, load_units=np.ones((1, 2)), usd_per_hour=np.array([10.0, 3.0]))
    only = Search(one, [0], Survival(one, [0]), np.zeros(2)).without_an_offer(np.array([1.0, 0.0]), 10.0, [100])
    assert only is not None
    assert only[0].tolist() == [0.0, 1.0]


def test_the_cheapest_change_that_carries_all_is_taken_while_tests_are_left() -> None:
    """Two units at $3 carry all, and so does one at $4; one of the first, and none, are cheaper and do not."""
    problem = MixProblem.of_types(np.array([[2.0, 1.0]]), np.array([3.0, 4.0]), np.full(2, ANY))

    def better(score: float, left: list[int]) -> tuple[list[float], float] | None:
        search = Search(problem, [0], Survival(problem, [0]), np.zeros(2))
        found = search.better(np.array([2.0, 0.0]), score, np.arange(2), left)
        return None if found is None else (found[0].tolist(), found[1])

    left = [100]
    assert better(6.0, left) == ([0.0, 1.0], 4.0)
    assert left == [98], "none of either is tried, and what that teaches rules out one of the first"
    assert better(6.0, [2]) == ([0.0, 1.0], 4.0)
    assert better(6.0, [1]) is None
    assert better(4.0, [100]) is None, "as dear is not better"
    assert better(3.0, [100]) is None
    known = search_of(problem, [0.0, 0.0], [Worth(np.array([0.5, 1.0]), 1.0)])
    assert known.better(np.array([2.0, 0.0]), 6.0, np.arange(2), left) is not None
    assert left == [97], "a worth that is known rules out both"


def test_a_search_for_what_survives_begins_at_what_is_good_without_losses() -> None:
    """A load of one and a half takes two units, and a third that may fail."""
    one = MixProblem.of_types(np.array([[1.5]]), np.ones(1), np.full(1, ANY))
    spared = replace(one, spare_machines=1)
    search = Search(spared, [0], Survival(spared, [0]), np.zeros(1))
    assert [units.tolist() for units in search.without_losses(np.zeros(1))] == [[2.0]]
    found = search.improved(np.zeros(1), is_whole=False)
    assert found is not None
    assert found.tolist() == [3.0]
    none = replace(spared, most_machines=np.zeros(1))
    assert Search(none, [0], Survival(none, [0]), np.zeros(1)).without_losses(np.zeros(1)) == []


def test_units_that_nobody_needs_are_given_up_though_no_other_offer_is_cheaper() -> None:
    problem = MixProblem.of_types(np.array([[1.0, 1.0]]), np.array([3.0, 9.0]), np.full(2, ANY))
    search = search_of(problem, [0.0, 0.0])
    found = search.better(np.array([3.0, 0.0]), 9.0, np.arange(2), [100])
    assert found is not None
    assert (found[0].tolist(), found[1]) == ([1.0, 0.0], 3.0)
    best = search_of(problem, [0.0, 0.0]).improved(np.array([6.0, 0.0]), is_whole=True)
    assert best is not None
    assert best.tolist() == [1.0, 0.0]


def test_of_several_roundings_the_cheapest_is_where_a_search_begins() -> None:
    """$3 for three of the first, $4 with what is whole of it, $2 for one of the second alone."""
    problem = MixProblem.of_types(np.array([[3.0, 1.0]]), np.array([1.0, 2.0]), np.full(2, ANY))
    begun = search_of(problem, [0.0, 0.0]).start(np.array([2.4, 0.2]))
    assert begun is not None
    assert begun.tolist() == [0.0, 1.0]
