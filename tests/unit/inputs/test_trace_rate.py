"""Times of a trace that count another unit than they were read in: told, never planned a thousandth of."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli import main
from gpufleet.errors import UsageError
from gpufleet.inputs.trace import parse_trace
from gpufleet.inputs.trace_rate import rate_in_other_unit, rate_of

SINCE_1970 = 1_700_000_000
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n1970-01-01 00:00:00,5,5\n2024-01-01 00:00:00,5,5\n"
PLAN = ("plan", "serve", "llama-3.1-8b", "--clouds", "aws", "--gpus", "L4")


def trace_of(*times: float, column: str = "timestamp_s") -> str:
    return f"{column},input_tokens,output_tokens\n" + "".join(f"{time},50,5\n" for time in times)


def every(gap: int, first: int = 0) -> list[int]:
    return [first + gap * i for i in range(20)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (trace_of(*every(200, SINCE_1970 * 10**3)), "look like milliseconds since 1970"),
        (trace_of(*every(200_000, SINCE_1970 * 10**6)), "look like microseconds since 1970"),
        (trace_of(*every(200_000_000, SINCE_1970 * 10**9)), "look like nanoseconds since 1970"),
        (trace_of(*every(1, SINCE_1970 * 10**3)), "look like milliseconds since 1970"),
        (trace_of(*every(30_000)), "look like milliseconds"),
        (trace_of(*every(200_000)), "look like microseconds"),
        (trace_of(*every(200_000_000)), "look like nanoseconds"),
        (trace_of(0, 1e11), "are far apart: one may be wrong"),
        (trace_of(*every(1), 10**9), "are far apart: one may be wrong"),
        (trace_of(-1e20, 1e20), "are far apart"),
        (AZURE, "read as dates"),
        ('{"timestamp": %d, "input_length": 9, "output_length": 9}\n' * 2 % (SINCE_1970, SINCE_1970 + 9),
         "look like seconds since 1970"),
    ],
)  # fmt: skip
def test_times_of_another_unit_give_no_rate(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        rate_of(parse_trace(text))
    assert told in str(caught.value)
    assert "timestamp_ns" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (trace_of(*every(2, SINCE_1970)), 0.5),
        (trace_of(*every(1000)), 0.001),
        (trace_of(*every(2 * 10**9, SINCE_1970 * 10**9), column="timestamp_ns"), 0.5),
        ('{"timestamp": %d, "input_length": 9, "output_length": 9}\n' * 2 % (0, 4000), 0.25),
    ],
)
def test_times_that_somebody_could_have_meant_give_their_rate(text: str, rate: float) -> None:
    assert rate_of(parse_trace(text)) == pytest.approx(rate, rel=1e-6)


def test_a_slow_trace_is_planned_and_its_doubt_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = parse_trace(trace_of(*every(200)))
    assert rate_in_other_unit(trace, 0.005) == ("milliseconds", pytest.approx(5.0))
    assert rate_in_other_unit(parse_trace(trace_of(*every(20))), 0.05) is None
    (tmp_path / "t.csv").write_text(trace_of(*every(200)), encoding="utf-8")
    assert main([*PLAN, "--trace", str(tmp_path / "t.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "the trace's mean, 0.005/s; if its times are milliseconds, it is 5/s" in said


def test_a_stated_rate_needs_no_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(trace_of(*every(200_000)), encoding="utf-8")
    assert main([*PLAN, "--trace", str(path)]) == 2
    assert "look like microseconds" in capsys.readouterr().err
    assert main([*PLAN, "--trace", str(path), "--rate", "5/s"]) == 0
