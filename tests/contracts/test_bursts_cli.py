"""Plans of traces with bursts, and `--verify`, as they are typed: what is advised keeps its limits, or exit code 3."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import gpufleet

Run = Callable[..., "subprocess.CompletedProcess[str]"]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BURSTS = ("plan", "serve", "--workload", str(EXAMPLES / "bursts.yaml"), "--clouds", "aws")


def test_a_trace_is_sized_for_its_burst_and_its_own_replay_keeps_the_limits(ask_gpufleet: Run, tmp_path: Path) -> None:
    """For the mean alone it is 1x g6e.xlarge at $1.86/h, which breaks both limits by a factor of two and three."""
    plan = tmp_path / "plan.json"
    assert ask_gpufleet(*BURSTS, "--out-file", str(plan)).returncode == 0
    done = ask_gpufleet(*BURSTS)
    assert "1x aws g7e.2xlarge" in done.stdout.split("\n\n")[0]
    assert "8.24/s in the busiest stretch" in " ".join(done.stdout.split())
    happened = ask_gpufleet("simulate", str(plan), "--trace", str(EXAMPLES / "bursts.csv"), "-o", "json")
    limits = json.loads(happened.stdout)["objectives"]
    assert {x["label"] for x in limits} == {"ttft.p95", "tpot.p95"}
    assert all(x["is_kept"] for x in limits)


@pytest.mark.parametrize("rate", [(), ("--rate", "2.06/s")], ids=["its own rate", "a stated rate"])
def test_a_verified_plan_of_bursts_is_kept_under_its_own_arrivals(ask_gpufleet: Run, rate: tuple[str, ...]) -> None:
    """It printed "broken" beside a headline that stayed, and ended with 0."""
    done = ask_gpufleet(*BURSTS, *rate, "--verify")
    assert done.returncode == 0
    headline = " ".join(done.stdout.split("\n\n")[0].split())
    assert "1x aws g7e.2xlarge" in headline
    rows = done.stdout.split("Verified: ")[1].split("\n\n")[0]
    assert "trace" in rows
    assert "broken" not in rows.split("g6e")[0]
    repaired = "Replayed one by one, 1x aws g6e.xlarge ($1.86/h) breaks ttft.p95, tpot.p95" in " ".join(
        done.stdout.split()
    )
    assert repaired == bool(rate)


def test_a_plan_that_is_kept_stays_as_it_is(ask_gpufleet: Run) -> None:
    words = ("plan", "serve", "llama-3.1-8b", "--rate", "20/s", "--in", "1000", "--out", "200", "--clouds", "aws",
             "--slo", "ttft.p95<500ms,tpot.p95<50ms")  # fmt: skip
    plain, verified = ask_gpufleet(*words), ask_gpufleet(*words, "--verify")
    assert plain.returncode == verified.returncode == 0
    assert plain.stdout.split("\n\n")[0] == verified.stdout.split("\n\n")[0]
    assert "Replayed one by one" not in verified.stdout


def test_a_plan_that_cannot_be_repaired_ends_with_three_and_says_what_breaks(ask_gpufleet: Run, tmp_path: Path) -> None:
    """Four hundred prompts of 4,000 tokens in the same moment, every 200 seconds."""
    trace = tmp_path / "at_once.csv"
    rows = [f"{moment * 200},4000,20" for moment in range(6) for _ in range(400)]
    trace.write_text("\n".join(["timestamp_s,input_tokens,output_tokens", *rows]), encoding="utf-8")
    words = ("plan", "serve", "llama-3.1-8b", "--trace", str(trace), "--rate", "2/s", "--slo", "ttft.p95<2s",
             "--gpus", "L40S", "--clouds", "aws", "--verify")  # fmt: skip
    done = ask_gpufleet(*words)
    assert done.returncode == 3
    assert "no machines keep every limit when requests are replayed" in " ".join(done.stdout.split())
    assert "To start a replica" not in done.stdout
    told = json.loads(ask_gpufleet(*words, "-o", "json").stdout)
    assert told["is_feasible"] is False


def test_a_busiest_rate_is_carried_and_never_cheaper(ask_gpufleet: Run) -> None:
    words = ("plan", "serve", "llama-3.1-8b", "--rate", "2/s", "--in", "1000", "--out", "200", "--clouds", "aws",
             "--slo", "tpot.p95<50ms", "-o", "json")  # fmt: skip
    plans = [json.loads(ask_gpufleet(*words, "--busiest", f"{rate}/s").stdout) for rate in (2, 6, 30, 90)]
    costs = [plan["deployments"][0]["usd_per_hour"] for plan in plans]
    assert costs == sorted(costs)
    assert costs[-1] > costs[0] == json.loads(ask_gpufleet(*words).stdout)["deployments"][0]["usd_per_hour"]
    for plan, rate in zip(plans, (2, 6, 30, 90), strict=True):
        assert plan["deployments"][0]["requests_per_s_capacity"]["value"] >= rate
        assert plan["busiest_requests_per_s"] == rate
        assert plan["rate_requests_per_s"] == 2


def test_models_without_a_replay_refuse_to_be_verified(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("plan", "serve", "bge-m3", "--rate", "50/s", "--in", "200", "--verify")
    assert done.returncode == 2
    assert "--verify" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_rate_flip_of_a_plan_with_a_busiest_stretch_is_what_a_plan_at_that_rate_says() -> None:
    """The stretch grows with the rate: both sides of the flip, planned anew."""
    words = {"input_tokens": 1000, "output_tokens": 200, "slo": "tpot.p95<50ms", "clouds": ("aws",), "rows": 1}
    plan = gpufleet.plan_serve("llama-3.1-8b", rate=2.0, busiest_rate=7.0, **words)  # type: ignore[arg-type]
    flips = [flip for flip in plan.what_flips() if flip.quantity == "rate"]
    assert flips
    for flip in flips:
        rate = flip.value
        beyond = rate * (1.002 if rate > 2.0 else 0.998)
        again = gpufleet.plan_serve("llama-3.1-8b", rate=beyond, busiest_rate=beyond * 3.5, **words)  # type: ignore[arg-type]
        assert flip.winner is not None
        assert (again.answer.instance, again.answer.region) == (flip.winner.instance, flip.winner.region)
        assert again.answer.instance != plan.answer.instance


def test_a_busiest_stretch_below_the_mean_is_refused(ask_gpufleet: Run) -> None:
    done = ask_gpufleet(
        "plan", "serve", "llama-3.1-8b", "--rate", "2/s", "--busiest", "1/s", "--in", "500", "--out", "99"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "the busiest rate is below the mean rate" in done.stderr
