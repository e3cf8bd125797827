"""Ctrl-C at chosen moments: quiet, exit code 130, and a file is there whole or not at all.

Each process says itself that it takes interrupts, and sends itself one: whoever runs the tests may ignore them.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpufleet.cli import end_process, main
from gpufleet.cli.interrupts import interrupts_held, interrupts_noted, interrupts_raised
from gpufleet.errors import UsageError

Interrupted = Callable[..., "subprocess.CompletedProcess[str]"]

START = """
import atexit, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt():
    signal.raise_signal(signal.SIGINT)

class Dropped:
    def __del__(self):
        interrupt()

class AtModule:
    def __init__(self, name, do=interrupt):
        self.name, self.do = name, do
        sys.meta_path.insert(0, self)

    def find_spec(self, name, *_):
        if name == self.name:
            self.do()

def at_event(wanted, about):
    sys.addaudithook(lambda event, told: event == wanted and about in str(told[:1]) and interrupt())

{setup}
sys.argv[0] = "gpufleet"
from gpufleet.cli import main
sys.exit(main())
"""
PLAN = ("plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200", "--clouds", "aws")


@pytest.fixture
def interrupted(tmp_path: Path) -> Interrupted:
    """Run a command line after a line of setup, which says when the interrupt comes."""

    def run(setup: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", START.format(setup=setup), *words]
        return subprocess.run(
            command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )

    return run


@pytest.mark.parametrize(
    "module",
    ["gpufleet.cli.app", "typing", "typer", "gpufleet.cli.plan", "numpy", "pydantic", "gpufleet.report.plan"],
)
def test_an_interrupt_while_a_module_is_imported_is_quiet(interrupted: Interrupted, module: str) -> None:
    done = interrupted(f"AtModule({module!r})", *PLAN)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_where_an_exception_goes_nowhere_is_not_swallowed(interrupted: Interrupted) -> None:
    done = interrupted("AtModule('gpufleet.report.plan', Dropped)", *PLAN)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_after_the_answer_takes_nothing_back(interrupted: Interrupted) -> None:
    done = interrupted("atexit.register(interrupt)", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gpufleet ")


def test_an_ignored_interrupt_stays_ignored(interrupted: Interrupted) -> None:
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN); AtModule('gpufleet.cli.app')"
    done = interrupted(ignored, "--version")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("event", "about"), [("tempfile.mkstemp", ""), ("os.chmod", "rows.csv"), ("os.rename", "rows.csv")]
)
def test_a_file_that_is_being_written_is_written_whole(
    interrupted: Interrupted, tmp_path: Path, event: str, about: str
) -> None:
    done = interrupted(f"at_event({event!r}, {about!r})", "catalog", "gpus", "--out-file", "rows.csv")
    whole = subprocess.run(
        [sys.executable, "-m", "gpufleet", "catalog", "gpus", "-o", "csv"], capture_output=True, text=True, check=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]
    assert (tmp_path / "rows.csv").read_text(encoding="utf-8") == whole.stdout


def test_a_program_that_calls_the_command_keeps_its_own_interrupts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("gpufleet.cli.app.dispatch", interrupt)
    assert main(["--version"]) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def takes_interrupts() -> Iterator[None]:
    """Interrupts are exceptions in this process too, whoever started it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("takes_interrupts")
def test_an_interrupt_waits_for_what_must_be_whole() -> None:
    written = []

    def write() -> None:
        with interrupts_held():
            signal.raise_signal(signal.SIGINT)
            written.append("whole")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert written == ["whole"]


@pytest.mark.usefixtures("takes_interrupts")
def test_whoever_has_something_to_put_back_is_told_by_an_exception() -> None:
    signal.signal(signal.SIGINT, lambda *_: pytest.fail("the process would have ended"))
    with pytest.raises(KeyboardInterrupt), interrupts_raised():
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("takes_interrupts")
def test_until_somebody_asks_the_system_ends_what_hears_of_no_interrupt() -> None:
    """A compiler does not come back to Python for many seconds; a process that is not ours alone is never ended."""
    with interrupts_noted(ends_until_asked=True) as is_noted:
        assert signal.getsignal(signal.SIGINT) is not signal.SIG_DFL
    signal.signal(signal.SIGINT, end_process)
    with interrupts_noted(ends_until_asked=True) as is_noted:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
        assert not is_noted()
        signal.raise_signal(signal.SIGINT)
        assert is_noted()
    assert signal.getsignal(signal.SIGINT) is end_process


LOAD = ("llama-3.1-8b", "--gpus", "H100:1", "--in", "1000", "--out", "200", "--rate", "5/s")
REPLAYS = [
    ("gpufleet.cli.plan_answers.serve_answer", PLAN, ("--verify",)),
    ("gpufleet.api.autoscaling.autoscale", ("autoscale", "plan.json", "--trace", "day.csv"), ("--verify",)),
    ("gpufleet.api.estimates.estimate", ("estimate", *LOAD), ("--requests", "1000")),
    ("gpufleet.accuracy.score.score_files", ("accuracy", "rows.csv"), ("--simulate",)),
]


@pytest.mark.usefixtures("takes_interrupts")
@pytest.mark.parametrize(("work", "words", "replayed"), REPLAYS, ids=[words[0] for _, words, _ in REPLAYS])
@pytest.mark.parametrize("is_replayed", [True, False])
def test_whoever_waits_for_the_compiler_is_not_held_by_it(
    work: str, words: tuple[str, ...], replayed: tuple[str, ...], is_replayed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every verb that replays beside `simulate`: the system ends it, since a compiler hears of no signal for long."""
    during: list[object] = []

    def note(*_: object, **__: object) -> None:
        during.append(signal.getsignal(signal.SIGINT))
        raise UsageError("seen")

    monkeypatch.setattr(work, note)
    signal.signal(signal.SIGINT, end_process)
    assert main([*words, *(replayed if is_replayed else ())]) == UsageError.exit_code
    assert during == [signal.SIG_DFL if is_replayed else end_process]
    assert signal.getsignal(signal.SIGINT) is end_process


def test_little_is_imported_before_ctrl_c_is_ours() -> None:
    """What comes before is a traceback under Ctrl-C: the modules of `signal`, and nothing that takes its time."""
    code = "import signal, sys; there = set(sys.modules); import gpufleet.cli; print(*{*sys.modules} - there)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(loaded.split()) <= {"__future__", "gc", "gpufleet", "gpufleet.cli"}
