"""`gpufleet mix` as a user of the command line meets it."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY, RunGpufleet

from gpufleet import FleetMix

ASKED = (
    "mix", "llama-3.1-8b", "--rate", "60/s", "--in", "1000", "--out", "200", "--slo", "ttft.p95<1s,tpot.p95<50ms",
    "--clouds", "aws", "--gpus", "H100,L40S", "--regions", "us-east-1",
)  # fmt: skip
EXAMPLES = REPOSITORY / "examples"


def test_a_mix_is_one_answer_in_every_format(ask_gpufleet: RunGpufleet) -> None:
    table = ask_gpufleet(*ASKED)
    assert table.returncode == 0, table.stderr
    assert table.stdout.startswith("Rent ")
    answer = FleetMix.model_validate_json(ask_gpufleet(*ASKED, "-o", "json").stdout)
    rows = list(csv.DictReader(StringIO(ask_gpufleet(*ASKED, "-o", "csv").stdout)))
    assert [row["machines"] for row in rows] == [f"{m.instance_count}x aws {m.instance}" for m in answer.machines]
    assert ask_gpufleet(*ASKED, "-o", "md").stdout.startswith("**Rent ")
    page = ask_gpufleet(*ASKED, "-o", "html").stdout
    assert "<table" in page


def test_routes_are_written_for_a_router(ask_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    done = ask_gpufleet(*ASKED, "--routing", "routes.json")
    assert done.returncode == 0
    assert "wrote routes.json" in done.stderr
    table = json.loads((tmp_path / "routes.json").read_text())
    assert table["rules"][0]["above_prompt_tokens"] == 0
    assert table["rules"][-1]["to_prompt_tokens"] is None


def test_a_workload_file_of_three_models_shares_machines(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet("mix", "--workload", str(EXAMPLES / "three-models.yaml"))
    assert done.returncode == 0, done.stderr
    cost = json.loads(ask_gpufleet("mix", "--workload", str(EXAMPLES / "three-models.yaml"), "-o", "json").stdout)
    assert f"${cost['usd_per_hour']:,.2f}/h" in done.stdout
    assert "Proved cheapest among" in " ".join(done.stdout.split())


def test_lengths_come_from_a_trace(ask_gpufleet: RunGpufleet) -> None:
    words = ("mix", "llama-3.1-8b", "--trace", str(EXAMPLES / "bursts.csv"), "--clouds", "aws", "--gpus", "L4,L40S")
    done = ask_gpufleet(*words)
    assert done.returncode == 0, done.stderr
    assert "buckets of lengths" in " ".join(done.stdout.split())


def test_limits_that_nothing_keeps_end_with_three_and_the_smallest_change(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*ASKED, "--budget", "0.5/h", "--quota", "H100=1,L40S=0")
    assert done.returncode == 3
    assert "quota H100=1 from 1 to" in done.stdout or "quota L40S=0 from 0 to" in done.stdout
    assert "budget from $0.50/h to" in done.stdout
    routed = ask_gpufleet(*ASKED, "--budget", "0.5/h", "--routing", "routes.json")
    assert routed.returncode == 3
    assert "no mix to route to" in routed.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--shares", "aws=60%,gcp=60%"), 2, "120% together"),
        (("--shares", "aws=160%"), 2, "cannot read a share"),
        (("--shares", "aws=60%,gcp=40%"), 2, "not asked for"),
        (("--shares", "amazon=100%"), 2, "cloud is called aws"),
        (("--quota", "aws:us-eas-1:H100=8"), 2, "Did you mean us-east-1"),
        (("--quota", "awz:H100=8"), 2, "unknown cloud 'awz'"),
        (("--quota", "H100x=8"), 2, "unknown GPU 'H100x'"),
        (("--quota", "H100"), 2, "a quota cannot be read"),
        (("--time-limit", "-3s"), 2, "--time-limit"),
        (("--time-limit", "2h"), 2, "the time limit is out of range"),
        (("--tolerance", "120%", "--shares", "aws=100%"), 2, "--tolerance"),
        (("--tolerance", "5%"), 2, "--shares"),
        (("--share-of", "money"), 2, "cost or gpus"),
        (("--route-by", "answer"), 2, "prompt or both"),
        (("--leaving", "100"), 2, "--today"),
        (("--disagg",), 2, "plan serve --disagg"),
        (("--off-peak", "2/s", "--peak-hours", "10h"), 2, "gpufleet autoscale"),
        (("--routing", "/nowhere/routes.json"), 2, "no such folder"),
        (("--slo", "ttft.p95<1ms"), 3, "plan serve"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    ask_gpufleet: RunGpufleet, words: tuple[str, ...], code: int, said: str
) -> None:
    done = ask_gpufleet(*ASKED, *words)
    assert done.returncode == code, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_encoder_is_no_service_of_a_mix(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet("mix", "bert-base", "--rate", "5/s")
    assert done.returncode == 2
    assert "decoder" in done.stderr


def test_without_the_solver_the_answer_stands_and_the_exit_code_says_so(
    ask_gpufleet: RunGpufleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("api.mixes", "optimize.mixes.search"):
        monkeypatch.setattr(f"gpufleet.{module}.is_installed", lambda: False)
    done = ask_gpufleet(*ASKED)
    assert done.returncode == 2
    assert done.stdout.startswith("Rent ")
    assert "pip install 'gpu-fleet-optimizer[solve]'" in " ".join(done.stdout.split())
