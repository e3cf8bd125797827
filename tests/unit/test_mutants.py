"""The tool that changes the code and asks whether a test notices: its changes are real, and nothing of them remains."""

from __future__ import annotations

import ast
import multiprocessing
import time
from functools import partial
from pathlib import Path

import pytest
from tools.mutants.__main__ import MODULES, lot_of, modules_at
from tools.mutants.changes import functions_that_name, marked, mutants_of, planted
from tools.mutants.coverage import Covering, CoveringFile, covering_tests
from tools.mutants.nearest import NEAREST, files_at, nearest_tests
from tools.mutants.processes import TIME_RAN_OUT, Outcome, entries_of, in_processes

FORKS = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")  # a worker of xdist has threads
SOURCE = '''
from typing import TypeAlias
LIMIT = 0.5
Either: TypeAlias = int | str

def within(value: float | None, shift=1) -> bool:
    """Whether 2 < 3."""
    if value is None or shift > 9:
        raise ValueError(f"{value:.3f} of 7")
    return min(value + shift, 4.0) <= LIMIT

class Pool:
    size: int = 3

    def twice(self):
        return [n * 2 for n in range(self.size)]
'''


def changed() -> dict[str, str]:
    """Changes of the source, each with the text that it leads to."""
    return {mutant.change: ast.unparse(planted(SOURCE, mutant)) for mutant in mutants_of("a.py", SOURCE)}


def test_numbers_comparisons_sums_calls_and_answers_are_changed() -> None:
    assert {
        "0.5 -> 1.0", "0.5 -> 0.25", "value is None -> value is not None", "shift > 9 -> shift >= 9",
        "shift > 9 -> shift <= 9", "value is None or shift > 9 -> value is None and shift > 9", "9 -> 10",
        "min(value + shift, 4.0) -> max(value + shift, 4.0)", "value + shift -> value - shift", "3 -> 4", "3 -> 2",
        "n * 2 -> n / 2", "return min(value + shift, 4.0) <= LIMIT -> return None",
    } <= set(changed())  # fmt: skip


def test_types_words_and_errors_are_left_alone() -> None:
    assert not [change for change in changed() if "7" in change or "str" in change or "None -> float" in change]


def test_each_change_leads_to_another_text_and_all_differ() -> None:
    texts = [ast.unparse(planted(SOURCE, mutant)) for mutant in mutants_of("a.py", SOURCE)]
    assert len({*texts, ast.unparse(ast.parse(SOURCE))}) == len(texts) + 1


def test_a_function_says_that_it_is_entered() -> None:
    entered: list[tuple[str, str]] = []
    space = {"__entered__": entered.append, "__name__": "a"}
    exec(compile(marked(SOURCE, "a.py"), "a.py", "exec"), space)
    assert space["Pool"]().twice() == [0, 2, 4]
    assert not space["within"](2.0)
    assert entered == [("a.py", "Pool.twice"), ("a.py", "within")]
    assert space["within"].__doc__ == "Whether 2 < 3."


def test_a_constant_concerns_the_functions_that_name_it_and_a_field_that_nobody_names_its_module() -> None:
    trees = {"a.py": ast.parse(SOURCE)}
    of = {mutant.change: entries_of(mutant, trees) for mutant in mutants_of("a.py", SOURCE)}
    assert of["0.5 -> 1.0"] == of["4.0 -> 8.0"] == {("a.py", "within")}
    assert of["3 -> 4"] == {("a.py", "Pool.twice")}
    assert functions_that_name(trees["a.py"], {"nothing"}) == set()


def test_the_tests_that_enter_a_function_come_first_and_then_those_of_their_files() -> None:
    here, there = frozenset({("a.py", "within")}), frozenset({("a.py", "Pool.twice")})
    first = CoveringFile((Covering("slow", 3.0, here), Covering("beside", 0.1, there)), here | there)
    second = CoveringFile((Covering("quick", 1.0, here),), here)
    other = CoveringFile((Covering("other", 0.1, there),), there)
    chosen = covering_tests({("a.py", "within")}, [first, second, other], limit_s=10.0)
    assert chosen == ["quick", "slow", "beside"]
    assert covering_tests({("a.py", "within")}, [first, second], limit_s=1.0) == ["quick"]


def work_for_ever() -> int:
    while True:
        pass


@pytest.mark.slow
@FORKS
def test_a_change_that_never_ends_is_ended_by_the_processor_time_that_it_used() -> None:
    """Nor one that sleeps: twenty times its limit on the clock."""
    tasks = [("ends", 60.0, partial(int, 3)), ("works", 0.5, work_for_ever), ("sleeps", 0.01, partial(time.sleep, 60))]
    assert dict(in_processes(tasks, jobs=3)) == {"ends": 3, "works": TIME_RAN_OUT, "sleeps": TIME_RAN_OUT}
    assert [outcome.is_killed for outcome in Outcome] == [True, True, False, False]


def test_a_sample_stays_the_same_when_other_code_is_edited() -> None:
    here = mutants_of("a.py", SOURCE)
    edited = mutants_of("a.py", SOURCE.replace("n * 2", "n * 2 + 5"))
    drawn = [m.change for m in sorted(here, key=lambda m: lot_of(m, 1)) if m.function != "Pool.twice"]
    assert drawn == [m.change for m in sorted(edited, key=lambda m: lot_of(m, 1)) if m.function != "Pool.twice"]
    assert drawn != [m.change for m in sorted(here, key=lambda m: lot_of(m, 2)) if m.function != "Pool.twice"]


@FORKS
def test_processes_end_with_whoever_asked_for_them() -> None:
    """As when a person interrupts the run: the rest is not waited for."""
    running = in_processes([("ends", 60.0, partial(int, 0)), ("hangs", 60.0, partial(time.sleep, 60))], jobs=2)
    assert next(running) == ("ends", 0)
    assert len(multiprocessing.active_children()) == 1
    running.close()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("name", MODULES)
def test_every_module_to_be_changed_exists(name: str) -> None:
    assert all(path.exists() for path in map(Path, modules_at(name)))


def test_a_module_is_asked_about_by_the_tests_beside_it_and_by_its_own_examples() -> None:
    found = nearest_tests(["src/gpufleet/optimize/schedule/effort.py", "src/gpufleet/optimize/spot.py"])
    assert {path.name for path in found} >= {"effort.py", "spot.py", "test_occupancy.py", "test_spot_laws.py"}
    assert Path("tests/unit/simulate/test_routing.py") not in found
    assert Path("tests/unit/simulate/test_routing.py") in nearest_tests(["src/gpufleet/pricing/spot.py"])


def test_every_nearest_test_exists() -> None:
    assert all(files_at(f"tests/{place}") for places in NEAREST.values() for place in places)
