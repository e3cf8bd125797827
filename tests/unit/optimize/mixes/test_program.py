"""The programme of a mix allows what its limits, shares and losses allow, each told by itself."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpufleet.domain.mix import Loss, MachineLimit, MixProblem, Share
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.program import Answer, Program, is_installed
from gpufleet.optimize.mixes.survival import Worth

pytestmark = pytest.mark.skipif(not is_installed(), reason="OR-Tools is not installed")
DOLLARS = np.array([1.0, 4.0])
FIRST = np.array([True, False])


def mixed(**words: object) -> MixProblem:
    """Small machines at $1 carry short requests, large ones at $4 carry both."""
    load = np.array([[6.0, 2.0], [math.inf, 3.0]])
    return replace(MixProblem.of_types(load, DOLLARS, np.full(2, np.inf)), **words)


def light(**words: object) -> MixProblem:
    """One bucket that a tenth of either machine carries."""
    return replace(MixProblem.of_types(np.full((1, 2), 0.1), DOLLARS, np.full(2, np.inf)), **words)


def cheapest(program: Program) -> Answer | None:
    return program.solved(program.cost(), Effort())


def allows(problem: MixProblem, *machines: float) -> bool:
    """Whether the programme takes exactly these machines."""
    program = Program(problem)
    for variable, count in zip(program.machines, machines, strict=True):
        program.model.add_linear_constraint(variable == count)
    return cheapest(program) is not None


def test_the_cheapest_mix_is_found_and_nothing_below_it_allowed() -> None:
    found = cheapest(Program(mixed()))
    assert found is not None
    assert (found.machines.tolist(), found.units.tolist(), found.objective) == ([6, 3], [6, 3], 18)
    same = Program(mixed())
    same.hold(same.cost(), 18.0)
    assert cheapest(same) is not None
    below = Program(mixed())
    below.hold(below.cost(), 17.9)
    assert cheapest(below) is None
    assert below.is_infeasible


@pytest.mark.parametrize(
    "words",
    [
        {"limits": (MachineLimit("most", DOLLARS, 9.0),)},
        {"limits": (MachineLimit("between", np.array([1.0, -1.0]), 1.0, -1.0),)},
        {"limits": (MachineLimit("least", np.array([0.0, 1.0]), least=2.0),)},
        {"shares": (Share("share", FIRST, DOLLARS, 0.25, 0.1),)},
        {"shares": (Share("heaviest", FIRST, DOLLARS, 0.25),)},
        {"shares": (Share("heavier", ~FIRST, DOLLARS, 0.25),)},
        {"shares": (Share("all", np.array([True, True]), DOLLARS, 0.5),)},
        {"most_machines": np.array([2.0, 1.0])},
    ],
    ids=lambda words: next(iter(words)),
)
def test_machines_are_taken_where_limits_and_shares_hold(words: dict[str, object]) -> None:
    problem = light(**words)
    for machines in itertools.product(range(4), range(4)):
        if any(machines):
            told = np.array(machines, dtype=float)
            assert allows(problem, *machines) == problem.allows(told), machines


@pytest.mark.parametrize("ratio", [0.0, 1 / 3, 0.5, 1.0])
@pytest.mark.parametrize("lost", [0.0, 1.0, 2.0])
def test_a_loss_leaves_of_units_what_it_says(ratio: float, lost: float) -> None:
    problem = MixProblem.of_types(np.full((1, 1), 4.0), np.ones(1), np.full(1, np.inf))
    loss = Loss("one", np.array([ratio]), np.array([lost]))
    for units in range(6):
        program = Program(problem, is_split=False)
        assert program.survive(loss, Worth(np.ones(1), 0.0))
        [left] = program.left["one"]
        program.model.add_linear_constraint(program.units[0] == units)
        found = program.solved(-1.0 * left, Effort())
        assert found is not None
        assert -found.objective == pytest.approx(float(loss.left(np.array([float(units)]))[0])), units


def test_a_loss_and_a_worth_are_told_once() -> None:
    program = Program(mixed())
    worth, none = Worth(np.array([1.0, 0.0]), 6.5), Loss("nothing", np.zeros(2), np.zeros(2))
    assert program.survive(none, worth)
    assert not program.survive(none, worth)
    found = cheapest(program)
    assert found is not None
    assert found.units.tolist() == [7.0, 3.0]
    assert program.survive(Loss("one", np.zeros(2), np.array([1.0, 0.0])), worth)
    again = cheapest(program)
    assert again is not None
    assert again.units.tolist() == [8.0, 3.0]


def test_machines_of_today_cost_where_they_are_given_up_and_answers_where_they_are_sent() -> None:
    """Seven large machines run: to keep two more of them is dearer than to give them up for $1, not for $3."""
    today = {"machines_today": np.array([0.0, 7.0])}
    for usd, total in ((1.0, 18 + 4 * 1.0), (3.0, 20 + 2 * 3.0)):
        found = cheapest(Program(mixed(**today, leaving_usd_per_hour=np.array([0.0, usd]))))
        assert found is not None
        assert found.objective == pytest.approx(total)
    sent = mixed(sending_usd_per_hour=np.array([[3.0, 0.5], [1.0, 0.25]]))
    split, rough = cheapest(Program(sent)), cheapest(Program(sent, is_split=False))
    assert split is not None
    assert rough is not None
    assert split.objective == pytest.approx(20 + 0.75)
    assert rough.objective == pytest.approx(0.75), "no bucket is carried: sending costs that at least"


def test_each_service_has_its_replicas_and_units_share_machines() -> None:
    two = mixed(least_replicas=np.array([9.0]), replicas_per_unit=np.array([0.5, 2.0]))
    found = cheapest(Program(two))
    assert found is not None
    assert found.units @ two.replicas_per_unit >= 9.0
    assert found.objective == 18.0
    halves = cheapest(Program(mixed(machines_per_unit=np.array([0.5, 1.0]))))
    assert halves is not None
    assert (halves.machines.tolist(), halves.objective) == ([3.0, 3.0], 15.0)


def test_what_gives_way_is_relative_to_each_limit_and_none_where_there_is_none() -> None:
    """A dollar of 17 is less than one machine of three."""
    program = Program(mixed(limits=(MachineLimit("budget", DOLLARS, 17.0),), most_machines=np.array([np.inf, 3.0])),
                      is_elastic=True)  # fmt: skip
    found = program.solved(program.given_way(), Effort())
    assert found is not None
    assert found.objective == pytest.approx(1 / 17)
    quota = Program(mixed(most_machines=np.array([np.inf, 2.0])), is_elastic=True)
    short = quota.solved(quota.given_way(), Effort())
    assert short is not None
    assert short.objective == pytest.approx(1 / 2)
    assert Program(mixed(), is_elastic=True).given_way() is None


def test_no_more_units_are_looked_at_than_are_of_any_use() -> None:
    def most(problem: MixProblem, usd: float = np.inf) -> list[float]:
        return Program(problem, most_usd_per_hour=usd).most.tolist()

    assert most(mixed()) == [6 + 1 + 1, 5 + 1 + 1]
    assert most(mixed(), 8.0) == [8, 2]
    assert most(mixed(spare_machines=2)) == [10, 9]
    assert most(mixed(losses=(Loss("half", np.array([0.5, 1.0]), np.array([0.0, 3.0])),))) == [15, 10]
    assert most(mixed(machines_today=np.array([20.0, 0.0]), machines_per_unit=np.array([0.5, 1.0]))) == [40, 7]
    assert most(mixed(least_replicas=np.array([50.0]), replicas_per_unit=np.array([4.0, 5.0]))) == [13, 10]
    assert most(mixed(shares=(Share("a", FIRST, DOLLARS, 0.25, 0.1),))) == [(8 + 28) * 4, 36]
    assert most(mixed(shares=(Share("a", FIRST, DOLLARS, 0.35, 0.1),))) == [103, 26]
    assert most(mixed(load_units=np.array([[np.inf, 2.0], [np.inf, 3.0]]))) == [0, 7]


def test_a_search_is_cut_by_seconds_alone_and_spends_the_iterations_that_it_took(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A limit of nodes is no limit that anybody typed."""
    monkeypatch.setattr(Program, "_is_limited", lambda *_: True)
    counted, timed = Effort.of_iterations(1.0), Effort.of_seconds(100.0, lambda: 1.0)
    for effort, is_cut in ((counted, False), (timed, True), (Effort(), False)):
        program = Program(mixed())
        assert program.solved(program.cost(), effort) is not None
        assert effort.meter.is_cut == is_cut
    tries: list[int] = []
    monkeypatch.setattr(Program, "_tried", lambda self, effort, nodes, hint: tries.append(nodes) or Unfinished())
    for iterations in (15.0, 30.0, 60_000.0, 30_000.0, 59_999.0):
        Program(mixed()).solved(0.0, Effort.of_iterations(iterations))
    assert tries == [1, 1, 3, 1000, 6000, 1000, 3000, 1000, 5999]


class Unfinished:
    """An answer of ten iterations a node, with nothing found."""

    solve_stats = SimpleNamespace(simplex_iterations=1000, node_count=100)

    def has_primal_feasible_solution(self) -> bool:
        return False
