"""Which tests enter which functions, and how long they take: told by the tests themselves, one file at a time."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.mutants.loading import ENTERED

Entry = tuple[str, str]
LONGEST_TEST_S = 10.0


@dataclass(frozen=True)
class Covering:
    """One test: its name, its seconds, and the functions (path, name) that it entered."""

    name: str
    seconds: float
    entered: frozenset[Entry]


@dataclass(frozen=True)
class CoveringFile:
    """The tests of one file that pass; `entered` holds what any of them entered, or the file while it was imported."""

    tests: tuple[Covering, ...]
    entered: frozenset[Entry]

    @classmethod
    def read(cls, path: Path) -> CoveringFile:
        """What a recorder wrote."""
        told = json.loads(path.read_text(encoding="utf-8"))
        tests = tuple(Covering(name, seconds, entries(entered)) for name, seconds, entered in told["tests"])
        return cls(tests, entries(told["at_import"]).union(*(test.entered for test in tests)))


def processor_s() -> float:
    """Processor time of this process and those that it waited for: what else the machine does changes it little."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def leave_out(*_: object) -> None:
    """End a test that takes too long to be asked about a change."""
    pytest.skip("too long")


def entries(pairs: Iterable[Iterable[str]]) -> frozenset[Entry]:
    """Entries as JSON holds them."""
    return frozenset((path, name) for path, name in pairs)


class Recorder:
    """A pytest plugin that notes what every test enters."""

    def __init__(self) -> None:
        self.at_import: set[Entry] = set()
        self.entered: dict[str, set[Entry]] = {}
        self.seconds: dict[str, float] = {}
        self.unusable: set[str] = set()

    def pytest_collection_finish(self) -> None:
        """What the import of the test file entered serves all of its tests."""
        self.at_import = set(ENTERED)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool, bool]:
        """One test, with everything that it sets up."""
        ENTERED.clear()
        before_s = processor_s()
        signal.signal(signal.SIGPROF, leave_out)
        signal.setitimer(signal.ITIMER_PROF, LONGEST_TEST_S)
        done = yield
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        self.seconds[item.nodeid] = processor_s() - before_s
        self.entered[item.nodeid] = set(ENTERED)
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Whether it can be used."""
        if not report.passed:
            self.unusable.add(report.nodeid)

    def write(self, path: Path) -> None:
        """What was noted, for the process that asked."""
        usable = [name for name in self.entered if name not in self.unusable]
        tests = [(name, round(self.seconds[name], 4), sorted(self.entered[name])) for name in usable]
        path.write_text(json.dumps({"at_import": sorted(self.at_import), "tests": tests}), encoding="utf-8")


def covering_tests(wanted: set[Entry], files: Iterable[CoveringFile], limit_s: float) -> list[str]:
    """Tests worth running for a change of these functions: those that enter one, the most particular first.

    Then the others of the same files: a test may look at what an earlier one computed. As many as the time allows.
    """
    found = [test for file in files if not wanted.isdisjoint(file.entered) for test in file.tests]
    chosen, spent_s = [], 0.0
    for test in sorted(found, key=lambda test: (wanted.isdisjoint(test.entered), len(test.entered), test.seconds)):
        if spent_s + test.seconds <= limit_s or not chosen:
            chosen.append(test.name)
            spent_s += test.seconds
    return chosen
