"""Two offers together, as a user of the command line meets them."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

from tests.conftest import REPOSITORY, RunGpufleet

QUOTAS = str(REPOSITORY / "examples" / "tables" / "quotas-of-two")
ASKED = (
    "plan", "serve", "llama-3.3-70b", "--rate", "30/s", "--in", "1000", "--out", "300", "--slo",
    "ttft.p95<1s,tpot.p95<50ms", "--cloud", "azure", "--catalog", QUOTAS, "--gpus", "MI300X,H100-NVL",
)  # fmt: skip


def test_where_no_offer_alone_has_enough_two_are_the_answer(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*ASKED, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert "Why these two" in done.stdout
    assert "available; alone it would need" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_file_of_a_mix_holds_each_part_with_its_share(ask_gpufleet: RunGpufleet) -> None:
    rows = list(csv.DictReader(StringIO(ask_gpufleet(*ASKED, "-o", "csv").stdout)))
    assert len(rows) == 2
    assert abs(sum(float(row["share_ratio"]) for row in rows) - 1) < 1e-9
    plan = json.loads(ask_gpufleet(*ASKED, "-o", "json").stdout)
    assert plan["deployments"] == []
    assert [part["deployment"]["instance"] for part in plan["mix"]["parts"]] == [row["instance"] for row in rows]
    assert plan["price_sources"]


def test_a_mix_over_the_budget_is_no_answer_and_is_told(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*ASKED, "--budget", "150/h", "--confidence", "0.5")
    assert done.returncode == 3
    assert "Two offers together would cost" in done.stdout
    assert "everything that can serve it needs more machines than" in " ".join(done.stdout.split())


def test_with_quiet_hours_no_mix_is_looked_for_and_that_is_said(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*ASKED, "--off-peak", "5/s", "--peak-hours", "10h")
    assert done.returncode == 3
    assert "not tried with quiet hours" in done.stdout


def test_what_a_mix_is_not_asked_is_refused_or_said(ask_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    assert "computed for a single offer only" in " ".join(ask_gpufleet(*ASKED, "--flips").stdout.split())
    ask_gpufleet(*ASKED, "--out-file", "mix.json")
    for words in (("explain", "mix.json"), ("compare", "mix.json", "mix.json")):
        done = ask_gpufleet(*words)
        assert done.returncode == 2
        assert "two offers together" in done.stderr


def test_each_part_of_a_mix_says_how_it_is_started(ask_gpufleet: RunGpufleet) -> None:
    words = " ".join(ask_gpufleet(*ASKED, COLUMNS="200").stdout.split())
    parts = json.loads(ask_gpufleet(*ASKED, "-o", "json").stdout)["mix"]["parts"]
    for part in parts:
        d = part["deployment"]
        assert f"{d['gpu']}: To start a replica" in words
        assert d["launch"]["command"]
