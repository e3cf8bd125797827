"""`explain --check` as a gate in CI: it passes what holds and is the same, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpufleet.cli import main

Ask = Callable[..., tuple[int, str, str]]
SERVICE = """
clouds: [aws]
regions: [us-east-1]
gpus: [L40S]
{beside}
models:
  - {{model: llama-3.1-8b, rate: 5/s, in: 800, out: 200}}
  - {{model: qwen3-8b, rate: 5/s, in: 800, out: 200}}
"""
LOAD = ("--rate", "50/s", "--in", "800", "--out", "200")
ONE = ("plan", "serve", "llama-3.1-8b", *LOAD, "--gpus", "L40S", "--clouds", "aws", "--regions", "us-east-1")
OFFERS = (
    "cloud,region,instance_type,price_kind,upfront_usd,price_per_instance_usd_per_hour,basis,source_id,as_of,"
    "interruption"
)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        said = capsys.readouterr()
        return code, " ".join(said.out.split()), said.err

    return run


def prices(folder: Path, ratio: float = 1.0, quota: int | None = None) -> str:
    """Own prices of two machine types in one region, and how many of the smaller can be had."""
    (folder / "offers").mkdir(parents=True)
    rows = [f"aws,us-east-1,{name},on_demand,0,{ratio * usd},list,your-tables,2026-11-01," for name, usd in
            (("g6e.xlarge", 1.861), ("g6e.12xlarge", 10.49))]  # fmt: skip
    (folder / "offers" / "ours.csv").write_text("\n".join([OFFERS, *rows]) + "\n", encoding="utf-8")
    if quota is not None:
        text = f"cloud,region,instance_type,price_kind,max_instances\naws,all,g6e.xlarge,all,{quota}\n"
        (folder / "quotas.csv").write_text(text, encoding="utf-8")
    return str(folder)


def planned(ask: Ask, folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of a plan, and its file."""
    file = folder / "plan.json"
    return ask(*words, "--out-file", str(file))[0], str(file)


def fleet_file(folder: Path, beside: str = "") -> str:
    file = folder / "service.yaml"
    file.write_text(SERVICE.format(beside=beside), encoding="utf-8")
    return str(file)


def test_models_over_their_budget_do_not_pass_the_day_they_are_planned(ask: Ask, tmp_path: Path) -> None:
    code, file = planned(ask, tmp_path, "plan", "serve", "--workload", fleet_file(tmp_path, "budget: 1/h"))
    said = json.loads(Path(file).read_text())
    assert (code, said["is_feasible"], said["is_within_budget"], said["unserved"]) == (3, False, False, [])
    code, text, _ = ask("explain", file, "--check")
    assert code == 3
    assert text.startswith("The plan does not hold today: 2 models, ")
    assert "over the budget of $1.00/h" in text
    assert ask("explain", file)[0] == 0


def test_one_model_over_its_budget_does_not_pass(ask: Ask, tmp_path: Path) -> None:
    code, file = planned(ask, tmp_path, *ONE, "--budget", "1/h")
    assert (code, json.loads(Path(file).read_text())["is_feasible"]) == (3, False)
    code, text, _ = ask("explain", file, "--check")
    assert code == 3
    assert "does not hold today: everything that can serve it is over the budget of $1.00/h" in text


@pytest.mark.parametrize("words", [(*ONE, "--budget", "{most}/h"), ("plan", "serve", "--workload", "{file}")])
def test_a_plan_that_leaves_its_budget_when_prices_rise_is_told_so(
    ask: Ask, tmp_path: Path, words: tuple[str, ...]
) -> None:
    then, now = prices(tmp_path / "then"), prices(tmp_path / "now", ratio=1.1)
    free = [word.format(most=10_000, file=fleet_file(tmp_path)) for word in words]
    usd = json.loads(Path(planned(ask, tmp_path, *free, "--catalog", then)[1]).read_text())
    most = 1.01 * (usd.get("usd_per_hour") or usd["deployments"][0]["usd_per_hour"])
    held = [word.format(most=most, file=fleet_file(tmp_path, f"budget: {most}/h")) for word in words]
    code, file = planned(ask, tmp_path, *held, "--catalog", then)
    assert (code, ask("explain", file, "--check", "--catalog", then)[0]) == (0, 0)
    code, text, _ = ask("explain", file, "--check", "--catalog", now, "-o", "json")
    assert (code, json.loads(text)["is_feasible"]) == (3, False)
    headline = ask("explain", file, "--catalog", now)[1]
    assert "does not hold today" in headline
    assert "over the budget" in headline


def test_a_plan_that_holds_at_another_price_is_another_answer(ask: Ask, tmp_path: Path) -> None:
    then, now = prices(tmp_path / "then"), prices(tmp_path / "now", ratio=1.1)
    _, file = planned(ask, tmp_path, *ONE, "--catalog", then)
    code, text, _ = ask("explain", file, "--check", "--catalog", now)
    assert code == 4
    assert "does not hold" not in text


TRACE = "timestamp_s,input_tokens,output_tokens\n"


def trace_file(folder: Path, num_requests: int) -> None:
    rows = [f"{i / 4},{300 + i},{100 + i % 7}" for i in range(num_requests)]
    (folder / "seen.csv").write_text(TRACE + "\n".join(rows) + "\n", encoding="utf-8")


def test_a_trace_that_was_cut_is_another_question(ask: Ask, tmp_path: Path) -> None:
    """The file is the same, the trace that it names is not."""
    file = tmp_path / "chat.yaml"
    file.write_text("model: llama-3.1-8b\ntrace: seen.csv\ngpus: [L40S]\n", encoding="utf-8")
    trace_file(tmp_path, 400)
    code, plan = planned(ask, tmp_path, "plan", "serve", "--workload", str(file))
    assert (code, ask("explain", plan, "--workload", str(file), "--check")[0]) == (0, 0)
    trace_file(tmp_path, 200)
    code, text, _ = ask("explain", plan, "--workload", str(file), "--check")
    assert code == 4
    assert text.startswith("The workload file differs from the plan: input tokens mean 499.5, ")
    assert "in the plan, mean 399.5, " in text
    assert ask("explain", plan, "--check")[0] == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("slo: tpot.p95<70ms", "objectives none in the plan, tpot.p95 < 0.07 s in the file"),
        ("zones: 2", "zones not given in the plan, 2, one may be lost in the file"),
        ("budget: 900/h", "budget not given in the plan, $900.00/h in the file"),
    ],
)
def test_a_line_that_was_added_is_named_and_a_typed_rate_stays(ask: Ask, tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "chat.yaml"
    text = "model: llama-3.1-8b\nrate: 5/s\nin: 800\nout: 200\ngpus: [L40S]\n"
    file.write_text(text, encoding="utf-8")
    _, plan = planned(ask, tmp_path, "plan", "serve", "--workload", str(file), "--rate", "9/s")
    assert ask("explain", plan, "--workload", str(file), "--check")[0] == 0
    file.write_text(f"{text}{line}\n", encoding="utf-8")
    code, said, _ = ask("explain", plan, "--workload", str(file), "--check")
    assert (code, told in said, "9/s" in said) == (4, True, False)


def test_a_model_of_several_that_is_asked_otherwise_is_named(ask: Ask, tmp_path: Path) -> None:
    file = fleet_file(tmp_path)
    _, plan = planned(ask, tmp_path, "plan", "serve", "--workload", file)
    assert ask("explain", plan, "--workload", file, "--check")[0] == 0
    text = SERVICE.format(beside="budget: 700/h").replace("qwen3-8b, rate: 5/s", "qwen3-8b, rate: 6/s")
    Path(file).write_text(text, encoding="utf-8")
    code, said, _ = ask("explain", plan, "--workload", file, "--check")
    assert code == 4
    assert (
        "budget not given in the plan, $700.00/h in the file; qwen3-8b: rate 5/s in the plan, 6/s in the file" in said
    )


def test_a_file_of_more_models_is_another_question_altogether(ask: Ask, tmp_path: Path) -> None:
    _, plan = planned(ask, tmp_path, *ONE)
    code, out, err = ask("explain", plan, "--workload", fleet_file(tmp_path))
    assert (code, out) == (2, "")
    assert "1 in the plan, 2 in the workload file" in err


def test_a_quota_that_shrank_is_named_and_prices_are_not_blamed(ask: Ask, tmp_path: Path) -> None:
    then, now = prices(tmp_path / "then", quota=16), prices(tmp_path / "now", quota=4)
    _, file = planned(ask, tmp_path, *ONE, "--catalog", then)
    code, text, _ = ask("explain", file, "--check", "--catalog", now)
    assert code == 4
    assert "Availability decides: quota of aws g6e.xlarge 16 -> 4. Prices make no difference." in text
    assert "within today's quotas" in text


def test_a_quota_among_several_models_is_named(ask: Ask, tmp_path: Path) -> None:
    """Each model alone finds enough within the new quota; both together do not."""
    then, now = prices(tmp_path / "then", quota=16), prices(tmp_path / "now", quota=1)
    _, file = planned(ask, tmp_path, "plan", "serve", "--workload", fleet_file(tmp_path), "--catalog", then)
    code, text, _ = ask("explain", file, "--check", "--catalog", now)
    assert code == 4
    assert "quota of aws g6e.xlarge 16 -> 1" in text
    assert "Prices decide" not in text


def test_a_quota_and_a_price_that_both_turn_the_answer_are_both_named(ask: Ask, tmp_path: Path) -> None:
    then, now = prices(tmp_path / "then", quota=16), prices(tmp_path / "now", ratio=1.01, quota=4)
    _, file = planned(ask, tmp_path, *ONE, "--catalog", then)
    _, text, _ = ask("explain", file, "--catalog", now)
    assert "quota of aws g6e.xlarge 16 -> 4. " in text


def test_a_quota_that_binds_nobody_makes_no_difference(ask: Ask, tmp_path: Path) -> None:
    then, now = prices(tmp_path / "then"), prices(tmp_path / "now", quota=5_000)
    _, file = planned(ask, tmp_path, *ONE, "--catalog", then)
    code, text, _ = ask("explain", file, "--check", "--catalog", now)
    assert (code, "The changes (quotas) make no difference." in text) == (0, True)
