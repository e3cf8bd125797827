"""`gpufleet simulate` as it is typed: words, files, exit codes, Ctrl-C; the replay itself is a queue that is known."""

from __future__ import annotations

import csv
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.unit.simulate.answers import simulated
from tests.unit.simulate.queues import markov_replay

from gpufleet.api import simulations
from gpufleet.api.envelope import in_full
from gpufleet.catalog import kept_code
from gpufleet.catalog.load import load_catalog
from gpufleet.cli import main
from gpufleet.cli.interrupts import interrupts_noted
from gpufleet.cli.progress import progress_bar, telling_of_compiling
from gpufleet.inputs.slo import parse_slo
from gpufleet.questions.simulation import SimulationRequest
from gpufleet.results.simulation import Simulation

LOAD = ("--rate", "5/s", "--in", "1000", "--out", "200")
WORDS = ("simulate", "llama-3.1-8b", "--gpus", "H100:1", *LOAD)
Asked = dict[str, Any]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the command asked of the api, which answers with a queue at load 0.8."""
    kept: Asked = {}

    def simulate(request: SimulationRequest, **watching: Any) -> Simulation:
        kept.update(watching, **{f.name: getattr(request, f.name) for f in fields(request)})
        replay = markov_replay(0.8, 2000, 1)
        watching["on_progress"](0.5)
        if watching["on_replay"] is not None:
            watching["on_replay"](replay)
        slo = None if request.slo is None else parse_slo(str(request.slo))
        partial = bool(kept.get("interrupt")) and (signal.raise_signal(signal.SIGINT), watching["should_stop"]())[1]
        return in_full(simulated(replay, slo).model_copy(update={"is_partial": partial}), load_catalog())

    monkeypatch.setattr(simulations, "simulate_serving", simulate)
    return kept


def test_words_are_read_as_elsewhere(asked: Asked) -> None:
    more = (
        "--replicas",
        "3",
        "--requests",
        "10k",
        "--duration",
        "10min",
        "--route",
        "least-tokens",
        "--timeout",
        "30s",
    )
    last = ("--prefix-cache", "off", "--warm-up", "0", "--memory-fraction", "0.9", "--max-batch", "64", "--tp", "1")
    assert main([*WORDS, *more, *last]) == 0
    assert (asked["model"], asked["gpus"], asked["rate"], asked["replicas"]) == ("llama-3.1-8b", "H100:1", 5.0, 3)
    assert (asked["input_tokens"], asked["output_tokens"], asked["requests"]) == (1000.0, 200.0, 10_000.0)
    assert (asked["duration_s"], asked["route"], asked["timeout_s"]) == (600.0, "least_tokens", 30.0)
    assert (asked["prefix_cache"], asked["warm_up_s"], asked["memory_fraction"]) == (False, 0.0, 0.9)
    assert (asked["max_batch"], asked["tp"], asked["on_replay"]) == (64, 1, None)


def test_what_is_not_said_is_left_to_the_api(asked: Asked) -> None:
    assert main(["simulate", "plan.json"]) == 0
    silent = ("gpus", "rate", "trace", "replicas", "duration_s", "requests", "timeout_s", "warm_up_s", "slo", "arrival")
    assert [asked[name] for name in silent] == [None] * len(silent)
    assert (asked["thin"], asked["stretch"], asked["seed"], asked["prefix_cache"]) == (1.0, 1.0, 0, True)
    assert asked["route"] == "least_requests"


@pytest.mark.parametrize("chosen", ["table", "json", "csv", "md", "html", "svg"])
def test_an_answer_comes_in_every_format(chosen: str, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORDS, "-o", chosen]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    begins = {"table": "llama", "json": "{", "csv": "class,", "md": "**llama", "html": "<!doctype", "svg": "<svg"}
    assert out.startswith(begins[chosen])
    if chosen == "json":
        assert Simulation.model_validate(json.loads(out)).num_requests == 2000


def test_rows_and_picture_are_files_of_their_own(
    asked: Asked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, picture, answer = (tmp_path / name for name in ("rows.csv", "drawn.svg", "answer.json"))
    assert main([*WORDS, "--per-request", str(rows), "--picture", str(picture), "--out-file", str(answer)]) == 0
    with rows.open(newline="") as stream:
        assert len(list(csv.DictReader(stream))) == 2000
    assert picture.read_text().startswith("<svg")
    assert json.loads(answer.read_text())["model"] == "llama-3.1-8b"
    assert capsys.readouterr().err.count("wrote ") == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer.json", "drawn.svg", "rows.csv"]


def test_an_objective_that_breaks_is_told_by_the_exit_code(asked: Asked) -> None:
    assert main([*WORDS, "--slo", "ttft.p95<1s"]) == 4
    assert main([*WORDS, "--slo", "ttft.p95<1000s"]) == 0


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C is heard, also where whoever began the tests has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_gives_what_is_done_so_far_and_says_so(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    asked["interrupt"] = True
    assert main(list(WORDS)) == 130
    assert capsys.readouterr().out.startswith("Stopped before its end.")


@pytest.mark.usefixtures("heard")
def test_a_second_ctrl_c_is_not_waited_for() -> None:
    with interrupts_noted() as is_noted:
        assert not is_noted()
        signal.raise_signal(signal.SIGINT)
        assert is_noted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_rows_that_fail_half_way_leave_the_file_as_it_was(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpufleet.report import request_rows

    def torn(_: object) -> Any:
        yield "half of it"
        raise KeyboardInterrupt

    monkeypatch.setattr(request_rows, "request_rows", torn)
    rows = tmp_path / "rows.csv"
    rows.write_text("what was there")
    assert main([*WORDS, "--per-request", str(rows)]) == 130
    assert rows.read_text() == "what was there"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def clock_of(*moments: float) -> Callable[[], float]:
    left = list(moments)
    return lambda: left.pop(0)


class Terminal:
    """A standard error that somebody watches."""

    def __init__(self, watched: bool) -> None:
        self.watched, self.written = watched, ""

    def isatty(self) -> bool:
        return self.watched

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        pass


@pytest.mark.parametrize(
    ("watched", "moments", "shown"),
    [(True, (0, 1, 1.9), False), (True, (0, 1, 2.5), True), (False, (0, 1, 9), False)],
)
def test_a_bar_is_drawn_on_a_terminal_after_two_seconds(
    watched: bool, moments: tuple[float, ...], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(watched)
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("requests", clock_of(*moments)) as tell:
        tell(0.1)
        tell(0.6)
    assert ("requests" in terminal.written) is shown


@pytest.mark.parametrize(("watched", "is_new", "said"), [(True, True, 1), (True, False, 0), (False, True, 0)])
def test_a_terminal_is_told_once_that_the_simulator_is_compiled(
    watched: bool, is_new: bool, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first share that is done; a pipe, and whoever has the machine code already, hears nothing."""
    terminal, shares = Terminal(watched), list[float]()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(kept_code, "compiles_first", lambda: is_new)
    tell = telling_of_compiling(shares.append)
    for share in (0.0, 0.3, 1.0):
        tell(share)
    assert shares == [0.0, 0.3, 1.0]
    assert terminal.written.count("compiling the simulator once") == terminal.written.count("\n") == said


HOSTILE = [
    (("--rate", "5"), "50/s"),
    (("--in", "nan"), "tokens"),
    (("--requests", "1.5"), "whole"),
    (("--requests", "1000000000"), "5,000,000"),
    (("--duration", "1000d"), "5,000,000"),
    (("--duration", "1ms"), "no request arrives"),
    (("--arrival", "poison"), "poisson"),
    (("--arrival", "gamma"), "--burstiness"),
    (("--burstiness", "4"), "--arrival gamma"),
    (("--burstiness", "nan", "--arrival", "gamma"), "burstiness"),
    (("--arrival", "burst"), "without --rate"),
    (("--trace", "trace.csv"), "arrivals of its own"),
    (("--route", "least_token"), "least_tokens"),
    (("--replicas", "0"), "replicas"),
    (("--replicas", "-3"), "replicas"),
    (("--retries", "3"), "--timeout"),
    (("--retries", "-1", "--timeout", "1s"), "retries"),
    (("--max-waiting", "-1"), "may wait"),
    (("--timeout", "0s"), "positive"),
    (("--warm-up", "-5s"), "positive"),
    (("--seed", "-1"), "seed"),
    (("--thin", "20%"), "--trace"),
    (("--stretch", "2"), "--trace"),
    (("--stretch", "inf"), "--stretch"),
    (("--thin", "200%"), "share"),
    (("--prefix-cache", "20%"), "on or off"),
    (("--slo", "ttft<5"), "500ms"),
    (("--memory-fraction", "7"), "share"),
    (("--picture", "x.png"), ".svg"),
    (("--per-request", "-"), "requests.csv"),
    (("--per-request", "missing/rows.csv"), "cannot write"),
    (("--per-request", "a.csv", "--out-file", "a.csv"), "another file"),
    (("--per-request", "llama-3.1-8b"), "cannot write"),
]


@pytest.mark.parametrize(("typed", "told"), HOSTILE, ids=[" ".join(typed) for typed, _ in HOSTILE])
def test_what_cannot_be_meant_gets_one_message(
    typed: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*WORDS, *typed]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("gpufleet: error: ")
    assert told in err


def test_a_load_must_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "llama-3.1-8b", "--gpus", "H100:1"]) == 2
    assert "--rate N/TIME, --trace FILE, or --arrival burst" in capsys.readouterr().err
    assert main(["simulate", "llama-3.1-8b", "--gpus", "H100:1", "--rate", "1/s"]) == 2
    assert "--in TOKENS and --out TOKENS" in capsys.readouterr().err
