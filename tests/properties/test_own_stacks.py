"""Laws of factors from one's own runs: drawn stacks are held as often as said, one model hardly moves another."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.accuracy.own_stack.find import calibrate_stack
from gpufleet.catalog.own_stacks import load_spreads
from gpufleet.cli.answered import answered
from gpufleet.domain.own_stack import OwnRun, Spreads, fitted, load_of
from gpufleet.errors import UsageError
from gpufleet.inputs.own_stack import as_toml, read_own_stack

TPOT = load_spreads()["tpot"]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "benchmarks" / "qwen3-0.6b-h100.csv"
STACKS, NORMAL_90 = 1000, 1.2815515655446004


def drawn_stack(rng: np.random.Generator, spreads: Spreads) -> list[OwnRun]:
    """Two models of a stack in two layouts, two sweeps of four loads each."""
    stack, runs = rng.normal(0, spreads.stacks), []
    for model in ("a", "b"):
        own = stack + rng.normal(0, spreads.models)
        for layout in ("TP1", "TP2"):
            of_layout = own + rng.normal(0, spreads.layouts)
            for sweep in ("1000/200", "4000/500"):
                of_sweep = of_layout + rng.normal(0, spreads.sweeps)
                logs = of_sweep + rng.normal(0, spreads.runs, 4)
                runs += [OwnRun(model, layout, sweep, float(log)) for log in logs]
    return runs


@pytest.mark.parametrize("time", load_spreads())
@pytest.mark.parametrize("seen", ["one sweep", "both layouts"])
def test_ranges_of_drawn_stacks_hold_eight_of_ten(time: str, seen: str) -> None:
    rng, spreads = np.random.default_rng(7), load_spreads()[time]
    wide = NORMAL_90 * math.sqrt(spreads.all_squared)
    held: dict[str, list[bool]] = {"same layout": [], "other model": []}
    for _ in range(STACKS):
        runs = drawn_stack(rng, spreads)
        known = [r for r in runs if r.model == "a" and r.sweep == "1000/200" and (seen[0] == "b" or r.layout == "TP1")]
        found = fitted(known, spreads)
        for name, other in (("same layout", ("a", "TP1")), ("other model", ("b", "TP1"))):
            run = next(r for r in runs if (r.model, r.layout, r.sweep) == (*other, "4000/500"))
            off = abs(run.log_ratio - found.factor_of(*other).log)
            held[name].append(off <= wide * found.range_ratio(*other))
    assert {name: 0.77 <= np.mean(each) <= 0.83 for name, each in held.items()} == dict.fromkeys(held, True), held


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=8), st.floats(-1, 1))
def test_what_is_taken_lies_between_nothing_and_what_runs_say(logs: list[float], level: float) -> None:
    runs = [OwnRun("a", "TP1", "s", level) for _ in logs]
    found = fitted(runs, TPOT)
    for factor in (found.shared, found.models["a"], found.layouts["a", "TP1"]):
        assert min(0.0, level) - 1e-9 <= factor.log <= max(0.0, level) + 1e-9
    assert abs(found.shared.log) <= abs(found.models["a"].log) + 1e-9 <= abs(found.layouts["a", "TP1"].log) + 2e-9
    assert 0 < found.range_ratio("a", "TP1") <= found.range_ratio("a", "") <= found.range_ratio("b", "") <= 1


def test_an_error_that_grows_with_the_load_is_learnt_as_that() -> None:
    loads = [load_of(n) for n in (1, 4, 16, 64, 256)]
    runs = [OwnRun("a", "TP1", f"s{n}", 0.05 + 0.06 * x, x) for n in range(4) for x in loads]
    found = fitted(runs, TPOT)
    own, other = found.layouts["a", "TP1"], found.factor_of("b", "TP1")
    assert 0.03 < own.slope < 0.06
    assert (found.models["a"].slope, other.slope) == (own.slope, 0.0)
    assert all(abs(run.log_ratio - own.log_at(run.load)) < abs(run.log_ratio - own.log) for run in runs if run.load)


def test_a_sweep_counts_as_little_more_than_one_run() -> None:
    one, twenty = (fitted([OwnRun("a", "TP1", "s", 0.1)] * n, TPOT).layouts["a", "TP1"] for n in (1, 20))
    apart = fitted([OwnRun("a", "TP1", f"s{n}", 0.1) for n in range(20)], TPOT).layouts["a", "TP1"]
    assert one.log < twenty.log < 0.09 < apart.log < 0.1
    assert one.spread > twenty.spread > 2 * apart.spread


def test_one_absurd_row_is_told_and_moves_little() -> None:
    sound = [OwnRun("a", "TP1", f"s{n % 3}", 0.05) for n in range(9)]
    absurd = [*sound, OwnRun("a", "TP1", "s0", 2.3)]
    was, now = fitted(sound, TPOT), fitted(absurd, TPOT)
    assert (list(was.far), list(now.far)) == ([], [9])
    assert abs(now.layouts["a", "TP1"].log - was.layouts["a", "TP1"].log) < 0.02


def test_the_file_keeps_what_was_found(tmp_path: Path) -> None:
    answer = calibrate_stack([EXAMPLE])
    path = tmp_path / "mine.toml"
    path.write_text(answer.toml, encoding="utf-8")
    stack = read_own_stack(path)
    assert as_toml(stack) == answer.toml
    assert (stack.engine, stack.version, stack.gpu, stack.num_runs) == ("vllm", "0.25.1", "H100-SXM", 4)
    assert {time: len(found.layouts) for time, found in stack.times.items()} == {"tpot": 1, "ttft": 1}
    assert answer.input_hash == calibrate_stack(EXAMPLE).input_hash


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("version = 1", "version = 2"),
        ('gpu = "H100-SXM"', "gpu = 3"),
        ("runs = 4", "runs = true"),
        ("shared = { log =", "shared = { log = 9"),
        ("spread =", "spread = -"),
        ("spreads = { stacks", "spreads = { stack"),
        (" | TP1", ""),
        ("[tpot.models]", "[tpot.models"),
        ("log = 0", "log = nan"),
    ],
)
def test_a_file_that_was_edited_is_one_message(was: str, becomes: str, tmp_path: Path) -> None:
    text = calibrate_stack([EXAMPLE]).toml
    assert was in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(was, becomes), encoding="utf-8")
    with pytest.raises(UsageError):
        read_own_stack(path)


def test_runs_of_two_stacks_and_files_that_are_no_runs_are_refused() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    two = text.replace("H100-SXM,vllm,0.25.1,1024,128,0,0,128", "L4,vllm,0.25.1,1024,128,0,0,8")
    codes = [
        answered(["calibrate", "r.csv"], {"r.csv": two.encode()}).code,
        answered(["calibrate", "r.csv"], {"r.csv": b"model,params_exact\nllama-3.1-8b,8030261248\n"}).code,
        answered(["calibrate", "r.csv", "-o", "json"], {"r.csv": text.encode()}).code,
    ]
    assert codes == [2, 2, 0]


def test_the_answer_says_what_a_page_does() -> None:
    got = answered(["calibrate", "r.csv", "-o", "json"], {"r.csv": EXAMPLE.read_bytes()})
    told = json.loads(got.text)
    first = next(f for f in told["factors"] if f["time"] == "tpot" and f["layout"])
    assert first["low_ratio"] < first["ratio"] < first["high_ratio"]
    assert 0 < first["range_ratio"] < 1
    assert told["question"][0]["origin"] == "given"
