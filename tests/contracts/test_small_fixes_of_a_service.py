"""Slips and small words that a platform team meets in its first week."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpufleet.cli import main

PLAN = ("plan", "serve", "llama-3.1-8b", "--in", "800", "--out", "200", "--gpus", "L40S")
TRACE = "timestamp_s,input_tokens,output_tokens\n"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = main(words)
    both = capsys.readouterr()
    return code, " ".join((both.out + both.err).split())


def test_a_burst_of_a_class_is_planned_with_the_words_that_are_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{(i if i < 200 else 200 + 12 * (i - 200)) / 4},500,100" for i in range(300)]
    (tmp_path / "seen.csv").write_text(TRACE + "\n".join(rows) + "\n", encoding="utf-8")
    file = tmp_path / "day.yaml"
    text = "model: llama-3.1-8b\ngpus: [L40S]\nclasses:\n  chat:\n    trace: seen.csv\n"
    file.write_text(text, encoding="utf-8")
    code, page = said(capsys, "plan", "serve", "--workload", str(file))
    assert code == 0
    assert "The rate of class 'chat' is the trace's mean" in page
    typed = page.split("plan for it with '")[1].split("' in that class")[0]
    file.write_text(f"{text}    {typed}\n", encoding="utf-8")
    code, page = said(capsys, "plan", "serve", "--workload", str(file))
    assert code == 0
    assert f"{typed.removeprefix('rate: ').removesuffix('/s')} requests/s" in page


def test_no_spare_machine_on_the_command_line_replaces_one_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "one.yaml"
    file.write_text("spare_machines: 1\n", encoding="utf-8")
    words = (*PLAN, "--rate", "5/s", "--clouds", "all", "--workload", str(file))
    assert "The headroom holds even if 1" in said(capsys, *words)[1]
    code, page = said(capsys, *words, "--spare-machines", "0")
    assert (code, "The headroom holds even if" in page) == (0, False)


@pytest.mark.parametrize(
    ("key", "told"), [("quota: 16", "quotas.csv of your catalog folder"), ("catalog: mine", "--catalog DIR")]
)
def test_what_is_no_key_says_where_it_belongs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str, told: str
) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(f"model: llama-3.1-8b\n{key}\n", encoding="utf-8")
    code, page = said(capsys, "plan", "serve", "--workload", str(file))
    assert (code, told in page, "Did you mean" in page) == (2, True, False)


def test_a_negative_quota_is_told_what_is_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "cloud,region,instance_type,price_kind,max_instances\naws,all,g6e.xlarge,all,-1\n"
    (tmp_path / "quotas.csv").write_text(rows, encoding="utf-8")
    code, page = said(capsys, *PLAN, "--rate", "5/s", "--catalog", str(tmp_path))
    assert (code, "expected a number of 0 or more" in page) == (2, True)


def test_equal_plans_are_called_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(tmp_path / name) for name in ("eu.json", "us.json")]
    for file in files:
        assert said(capsys, *PLAN, "--rate", "5/s", "--out-file", file)[0] == 0
    page = said(capsys, "compare", *files)[1]
    assert "cost the same" in page
    assert "they are equally fast (latency.p95" in page


def test_a_budget_is_answered_by_the_hour_and_by_the_month(capsys: pytest.CaptureFixture[str]) -> None:
    code, page = said(capsys, *PLAN, "--rate", "5/s", "--budget", "73/mo")
    assert (code, "over the budget of $0.10/h ($73/mo)" in page) == (3, True)
