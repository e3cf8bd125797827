"""Runs tests on changed modules, each change in a forked process of its own: nothing remains of it."""

from __future__ import annotations

import ast
import hashlib
import importlib
import math
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import Phase, settings
from tools.mutants.changes import Mutant, functions_that_name, marked, outermost_functions, planted
from tools.mutants.coverage import CoveringFile, Entry, Recorder, covering_tests
from tools.mutants.loading import import_changed

RECORDED = Path("build") / "mutants"
COMPILER = "numba"
LOADED_ONCE = ("numpy", "pydantic", "hypothesis", "typer.testing", "rich.console", "yaml", "httpx")
UNSHRUNK = "unshrunk"
QUIET = (f"--hypothesis-profile={UNSHRUNK}", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist")
PATIENCE, START_S, RECORDING_S = 2.0, 10.0, 1800.0
ASLEEP_RATIO = 20.0  # a change may sleep for ever, and other work slow it down
TIME_RAN_OUT = -signal.SIGXCPU
FIRST_TESTS, MORE_TESTS = 15, 5
HASH_DIGITS = 12
T = TypeVar("T")


class Outcome(Enum):
    """What became of a change."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    NOT_ENTERED = "no test enters it"

    @property
    def is_killed(self) -> bool:
        """Whether a test noticed it."""
        return self in (Outcome.KILLED, Outcome.TIMED_OUT)


def covering_files(modules: Sequence[Path], tests: Sequence[Path], jobs: int) -> list[CoveringFile]:
    """What these tests enter of these modules; only what is not recorded yet is run."""
    load_once()
    records = {record_of(path): path for path in tests}
    missing = [(record, path) for record, path in records.items() if not record.exists()]
    tasks = [(path, RECORDING_S, partial(record_file, path, record, modules)) for record, path in missing]
    for path, code in in_processes(tasks, jobs):
        if code == pytest.ExitCode.TESTS_FAILED:
            print(f"{path}: tests that fail without any change are left out", file=sys.stderr)
        elif code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise RuntimeError(f"{path} cannot be recorded: exit code {code}")
    return [CoveringFile.read(record) for record in records]


def load_once() -> None:
    """What every process needs, whatever is changed; one thread each, and no compiler, which would keep old code."""
    sys.modules[COMPILER] = None  # type: ignore[assignment]
    os.environ.update(OPENBLAS_NUM_THREADS="1", PYTHONHASHSEED="0", BRIEF="1")
    made = (Phase.explicit, Phase.generate)  # nobody reads what failed
    settings.register_profile(UNSHRUNK, deadline=None, derandomize=True, database=None, phases=made)
    for name in LOADED_ONCE:
        importlib.import_module(name)


def record_of(path: Path) -> Path:
    """Where it is written down what a test file enters: another place when the file changes."""
    version = hashlib.sha256(path.read_bytes()).hexdigest()[:HASH_DIGITS]
    return RECORDED / f"{'.'.join(path.with_suffix('').parts)}-{version}.json"


def record_file(path: Path, record: Path, modules: Sequence[Path]) -> int:
    """Run the tests of one file on modules that tell what is entered."""
    record = record.absolute()
    record.parent.mkdir(parents=True, exist_ok=True)
    import_changed({module_name(module): partial(marked, path=str(module)) for module in modules})
    recorder = Recorder()
    code = pytest.main([*QUIET, str(path)], plugins=[recorder])
    unfinished = record.with_suffix(".part")
    recorder.write(unfinished)
    unfinished.rename(record)
    return int(code)


def module_name(path: Path) -> str:
    """The name by which a module under `src` is imported."""
    return ".".join(path.with_suffix("").parts[1:])


def outcomes(
    mutants: Sequence[Mutant], files: Sequence[CoveringFile], modules: Sequence[Path], limit_s: float, jobs: int
) -> Iterator[tuple[Mutant, Outcome]]:
    """What becomes of each change."""
    trees = {str(path): ast.parse(path.read_text(encoding="utf-8")) for path in modules}
    tasks = []
    for mutant in mutants:
        chosen = covering_tests(entries_of(mutant, trees), files, limit_s)
        if not chosen:
            yield mutant, Outcome.NOT_ENTERED
            continue
        tasks.append((mutant, START_S + PATIENCE * limit_s, partial(run_mutant, mutant, chosen)))
    for mutant, code in in_processes(tasks, jobs):
        yield mutant, {0: Outcome.SURVIVED, TIME_RAN_OUT: Outcome.TIMED_OUT}.get(code, Outcome.KILLED)


def entries_of(mutant: Mutant, trees: Mapping[str, ast.Module]) -> set[Entry]:
    """The functions whose answers a change may move: its own; of a constant, those that name it, else its module's."""
    if mutant.function:
        return {(mutant.path, mutant.function)}
    naming = {(path, name) for path, tree in trees.items() for name in functions_that_name(tree, mutant.names)}
    return naming or {(mutant.path, name) for name, _ in outermost_functions(trees[mutant.path])}


def run_mutant(mutant: Mutant, tests: Sequence[str]) -> int:
    """0 where every test passes on the changed module; the first few are asked before files are read for more."""
    import_changed({module_name(Path(mutant.path)): partial(planted, mutant=mutant)})
    begin = 0
    while begin < len(tests):
        few = tests[begin : FIRST_TESTS + MORE_TESTS * begin]
        code = pytest.main([*QUIET, "-x", "--no-header", "--no-summary", *few])
        if code != pytest.ExitCode.OK:
            return int(code)
        begin += len(few)
    return int(pytest.ExitCode.OK)


def in_processes(tasks: Sequence[tuple[T, float, Callable[[], int]]], jobs: int) -> Iterator[tuple[T, int]]:
    """Run tasks, each in a fork with a limit of processor time; their exit codes as they end."""
    fork = multiprocessing.get_context("fork")
    waiting = list(reversed(tasks))
    running: dict[BaseProcess, tuple[T, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    key, limit_s, task = waiting.pop()
                    process = fork.Process(target=silently, args=(task, limit_s, scratch))
                    process.start()
                    running[process] = (key, time.monotonic() + ASLEEP_RATIO * limit_s)
                soonest_s = min(end for _, end in running.values()) - time.monotonic()
                wait([process.sentinel for process in running], timeout=max(soonest_s, 0.0))
                for process in [p for p, (_, end) in running.items() if not p.is_alive() or end <= time.monotonic()]:
                    key, _ = running.pop(process)
                    yield key, exit_code(process)
        finally:
            for process in running:
                exit_code(process)


def exit_code(process: BaseProcess) -> int:
    """The exit code of a process that has ended; one that has not is ended."""
    if process.is_alive():
        process.kill()
        process.join()
        return TIME_RAN_OUT
    process.join()
    return process.exitcode or 0


def silently(task: Callable[[], int], limit_s: float, scratch: str) -> None:
    """A task whose output nobody reads, in folders that nobody keeps, ended by the system when its time is used up."""
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_s), math.ceil(limit_s) + 1))
    own = tempfile.tempdir = tempfile.mkdtemp(dir=scratch)
    os.environ.update(XDG_CACHE_HOME=own, XDG_DATA_HOME=own, TMPDIR=own)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    sys.exit(task())
