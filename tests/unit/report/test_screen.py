"""An answer fits one screen; whatever it leaves out is asked for by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli import main
from gpufleet.errors import UnknownName
from gpufleet.report.detail import Detail, details_of, is_screen

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "llama-3.3-70b-chat.yaml")
SERVE = ("plan", "serve", "--workload", EXAMPLE)
SMALL = ("plan", "serve", "llama-3.1-8b", "--rate", "10/s", "--in", "1000", "--out", "300")
ENCODER = ("plan", "serve", "bge-base-en-v1.5", "--rate", "300/s", "--in", "128", "--slo", "latency.p95<50ms")
BATCH = ("plan", "batch", "llama-3.1-8b", "--requests", "10M", "--in", "1000", "--out", "200", "--deadline", "24h")
FREE = ("plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200")
OTHER_MONEY = (
    *FREE[:3],
    "--rate",
    "40/s",
    *FREE[5:],
    "--slo",
    "ttft.p95<400ms,tpot.p95<30ms",
    "--currency",
    "EUR@0.92",
)
MANY_NOTES = (*FREE[:2], "qwen3-32b", "--rate", "3/s", "--in", "4000", "--out", "500")
SHARED = (
    *FREE[:2],
    "qwen2.5-7b",
    "--rate",
    "69/s",
    "--in",
    "3888",
    "--out",
    "121",
    "--slo",
    "ttft.p95<485ms,tpot.p95<66ms",
)
HIGHEST, HIGHEST_OF_A_JOB, WIDEST = 45, 55, 80


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDEST))


def page(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(list(words)) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("asked", [SERVE, SMALL, ENCODER, BATCH, FREE, OTHER_MONEY, MANY_NOTES, SHARED])
def test_an_answer_fits_one_screen(asked: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    lines = page(capsys, *asked)
    assert len(lines) <= (HIGHEST_OF_A_JOB if asked is BATCH else HIGHEST)
    assert all(len(line) <= WIDEST for line in lines)
    words = " ".join(" ".join(lines).split())
    assert "at 80% confidence" in words
    assert "Why this one" in words
    assert "Rejected: " in words
    assert "Price: " in words
    assert "--show limits" in words
    assert "Assumed: " in words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "title"),
    [
        ("rejected", "nearest miss"),
        ("limits", "expected (80% range)"),
        ("prices", "Prices, never live"),
        ("energy", "kWh"),
    ],
)
def test_what_a_screen_leaves_out_is_asked_for_by_name(
    part: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    brief, more = (" ".join(page(capsys, *SERVE, *flags)) for flags in ((), ("--show", part)))
    assert title not in brief
    assert title in more
    assert title in " ".join(page(capsys, *SERVE, "--show", "all"))


def test_all_of_the_answer_holds_every_note_and_the_hash(capsys: pytest.CaptureFixture[str]) -> None:
    whole = " ".join(page(capsys, *SERVE, "--show", "all"))
    assert "Hash of inputs and prices" in whole
    assert "Flags of vLLM" in whole


@pytest.mark.slow
def test_few_rows_are_shown_unless_more_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def num_rows(*flags: str) -> int:
        lines = page(capsys, *SERVE, *flags)
        start = next(i for i, line in enumerate(lines) if line.startswith("> "))
        return next(i for i, line in enumerate(lines[start:]) if not line)

    assert 3 <= num_rows() <= 5
    assert num_rows("--rows", "10") == 10
    assert num_rows("--rows", "2") == 2


def test_why_not_answers_in_ten_lines_with_what_it_needs_and_costs(capsys: pytest.CaptureFixture[str]) -> None:
    lines = page(capsys, *SERVE, "--why-not", "L40S:4")
    start = next(i for i, line in enumerate(lines) if line.startswith("Why not L40S:4?"))
    answer = lines[start : lines.index("", start)]
    words = " ".join(answer)
    assert len(answer) <= 10
    assert "It cannot serve this: 4x L40S" in words
    assert "It would with ttft.p95 <" in words
    assert "% more than the answer" in words


@pytest.mark.slow
@pytest.mark.parametrize("more", [("--why-not", "L4:1"), ("--token-price", "0.5/1.5"), ("--pareto",)])
def test_one_question_more_takes_nothing_from_the_answer(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    answer, asked = page(capsys, *SMALL), page(capsys, *SMALL, *more)
    assert [line for line in answer if line not in asked] == []
    assert len(asked) > len(answer)


def test_parts_are_named_with_commas_and_all_is_all_of_them() -> None:
    assert details_of("limits, PRICES") == {Detail.LIMITS, Detail.PRICES}
    assert details_of("rejected,all") == frozenset(Detail)
    assert is_screen(details_of(None))
    assert not is_screen(details_of("all"))
    with pytest.raises(UnknownName, match="part of an answer"):
        details_of("limit,everything")
