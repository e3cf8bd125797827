"""What all tests share: the command line as a user runs it, no network, and repeatable random cases."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings

from gpufleet.catalog import kept_code
from gpufleet.catalog.current_date import DATE_VARIABLE
from gpufleet.catalog.load import Catalog
from gpufleet.cli import main
from gpufleet.report.numbers import show_money_in

REPOSITORY = Path(__file__).resolve().parents[1]
TRIES = 3
Tally = Counter[tuple[str, str]]
Planned = dict[str, tuple[object, tuple[object, ...]]]
RunGpufleet = Callable[..., "subprocess.CompletedProcess[str]"]

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=30)
settings.load_profile("repeatable")


TALLY = pytest.StashKey[Tally]()
PLANNING = {
    "api.autoscaling": ("autoscale",),
    "api.fleets": ("plan_fleet",),
    "api.job_regions": ("plan_job_regions",),
    "api.mixes": ("plan_mix",),
    "api.plans": ("plan_serve",),
    "api.regions": ("plan_regions",),
    "ask.spot.fleet": ("fleet_on_spot",),
    "ask.spot.job": ("plan_spot",),
    "ask.spot.service": ("plan_spot_service",),
    "cli.batch_answers": ("plan_batch", "plan_encoder_batch"),
    "cli.encoder_services": ("plan_encoder_serve",),
    "cli.training_answers": ("planned",),
}
DATE_OF_TESTS = "2026-11-28"
"""Ages of prices count from it: the suite finds the same answers in a year."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """How many random questions are answered by brute force: `make brute-force` asks 200."""
    parser.addoption("--questions", type=int, default=10, help="random questions that brute force answers")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing is counted yet; the simulator is compiled once for all workers and commands."""
    compiled = REPOSITORY / "build" / "compiled" / kept_code.digest_of_sources()
    os.environ[kept_code.FOLDER_VARIABLE] = str(compiled)
    os.environ[DATE_VARIABLE] = DATE_OF_TESTS
    config.stash[TALLY] = Counter()


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """What was checked, by kind of question: told at the end."""
    return request.config.stash[TALLY]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for each kind of question that brute force answered."""
    counted = config.stash[TALLY]
    for kind in dict.fromkeys(kind for kind, _ in counted):
        said = ", ".join(f"{count} {what}" for (of, what), count in counted.items() if of == kind)
        terminalreporter.write_line(f"{kind}: {said}")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers come from what is installed: a connection is a failure."""

    def refuse(*_: object) -> None:
        pytest.fail("a test opened a network connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(scope="module", autouse=True)
def nothing_kept_for_other_files(request: pytest.FixtureRequest) -> Iterator[None]:
    """What functions of a file of tests keep goes with it: some hold a gigabyte."""
    yield
    module = getattr(request.node, "obj", None)
    for each in vars(module).values() if str(getattr(module, "__name__", "")).startswith("tests.") else ():
        if hasattr(each, "cache_clear") and getattr(each, "__module__", None) == module.__name__:
            each.cache_clear()


@pytest.fixture(scope="session")
def cache_of_tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the commands of one run keep the tables that they read: not in the folder of who runs them."""
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def no_preferences(monkeypatch: pytest.MonkeyPatch, cache_of_tables: str) -> None:
    """Answers do not depend on what the person who runs the tests prefers, or has refreshed."""
    for name in [name for name in os.environ if name.startswith("GPUFLEET_") and name != DATE_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GPUFLEET_CONFIG", "")
    monkeypatch.setenv("GPUFLEET_PRICES", os.path.join(cache_of_tables, "no-prices"))
    monkeypatch.setenv("GPUFLEET_MODELS", os.path.join(cache_of_tables, "no-models"))
    monkeypatch.setenv("GPUFLEET_CACHE", cache_of_tables)


@pytest.fixture
def run_gpufleet(tmp_path: Path) -> RunGpufleet:
    """Run `gpufleet WORDS...` in a process of its own, in an empty folder, and return what it said."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gpufleet", *words],
            cwd=tmp_path,
            env={**os.environ, "NO_COLOR": "1", "PYTHONWARNINGS": "error", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def ask_gpufleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunGpufleet:
    """The same in this process: for all that needs no process of its own to be seen, in a fraction of the time."""

    def ask(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        with monkeypatch.context() as here, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            here.chdir(tmp_path)
            for name, value in {"NO_COLOR": "1", "COLUMNS": "80", **environment}.items():
                here.setenv(name, value)
            code = main(words)
        show_money_in(None)
        return subprocess.CompletedProcess(words, code, *(said(stream) for stream in (out, err)))

    return ask


@pytest.fixture(scope="module")
def planned_once() -> Iterator[Planned]:
    """Answers that the command line found, by question and tables: one for all formats of it, until emptied."""
    made: Planned = {}

    def once(plan: Callable[..., object], request: object, *tables: object, **more: object) -> object:
        given = (*tables, *more.values())
        said = {name: value for name, value in os.environ.items() if name.startswith("GPUFLEET_")}
        key = f"{plan.__module__} {plan.__name__} {request!r} {said} {list(map(name_of, given))}"
        if key not in made:
            made[key] = plan(request, *tables, **more), given
        return made[key][0]

    with pytest.MonkeyPatch.context() as patched:
        for name, functions in PLANNING.items():
            module = import_module(f"gpufleet.{name}")
            for function in functions:
                patched.setattr(module, function, partial(once, getattr(module, function)))
        yield made


def name_of(given: object) -> object:
    """What tells one from another: tables are few, functions and requests of a command are made anew each time."""
    return id(given) if isinstance(given, Catalog) else getattr(given, "__qualname__", repr(given))


@pytest.fixture(scope="module")
def rows_alone() -> Iterator[None]:
    """Plans of services without what stands beside their rows, for laws of the rows: it takes two thirds of the time.

    What flips the choice, levers, and the answers in a lower precision, on spot or with another confidence.
    """
    from gpufleet.api import plans

    nothing: dict[str, Callable[..., object]] = {
        "best_on_spot": lambda *_: None,
        "certainty_of": lambda *_: [],
        "lower_precision_alternative": lambda *_: None,
        "missing_prices": lambda *_: [],
        "price_flips": lambda *_: [],
        "told_levers": lambda *_: {},
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, found in nothing.items():
            patched.setattr(plans, name, found)
        yield


def said(stream: io.TextIOWrapper) -> str:
    """Everything that was written."""
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


@pytest.fixture
def processor_s(run_gpufleet: RunGpufleet) -> Callable[..., float]:
    """Processor time of `gpufleet WORDS...`, the first of a few runs within its budget, else the best of them.

    What else the machine does only ever adds.
    """

    def used_by_children_s() -> float:
        used = os.times()
        return used.children_user + used.children_system

    def best(*words: str, budget_s: float) -> float:
        times: list[float] = []
        while len(times) < TRIES and min(times, default=budget_s) >= budget_s:
            before_s = used_by_children_s()
            assert run_gpufleet(*words).returncode == 0
            times.append(used_by_children_s() - before_s)
        return min(times)

    return best
