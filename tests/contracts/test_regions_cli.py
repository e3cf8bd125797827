"""`gpufleet regions` as a user of the command line meets it."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY, RunGpufleet

pytestmark = pytest.mark.usefixtures("planned_once")

ASKED = (
    "regions", "llama-3.1-8b", "--rate", "20/s", "--in", "1000", "--out", "200", "--slo", "ttft.p95<800ms",
    "--clouds", "aws", "--gpus", "L40S,H100",
)  # fmt: skip
TWO = ("--users", "eu=60%,us=40%", "--regions", "eu-central-1,eu-north-1,us-east-1,us-east-2")


def test_users_of_two_continents_get_regions_with_a_page_of_eighty_columns(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*ASKED, *TWO, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Run ")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_one_answer_in_every_format(ask_gpufleet: RunGpufleet) -> None:
    plan = json.loads(ask_gpufleet(*ASKED, *TWO, "-o", "json").stdout)
    assert plan["is_feasible"]
    assert {r["region"] for r in plan["regions"]} == set(TWO[3].split(","))
    rows = list(csv.DictReader(StringIO(ask_gpufleet(*ASKED, *TWO, "-o", "csv").stdout)))
    assert [row["region"] for row in rows] == [m["region"] for m in plan["machines"]]
    assert "| users | share |" in ask_gpufleet(*ASKED, *TWO, "-o", "md").stdout
    html = ask_gpufleet(*ASKED, *TWO, "-o", "html").stdout
    assert 'aria-label="Where it runs' in html


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--users", "atlantis"), 2, "unknown place of users 'atlantis'"),
        (("--users", "eu,us"), 2, "users of several places have shares"),
        (("--users", "eu=60%,us=60%"), 2, "shares of users do not add up to all of them"),
        (("--users", "eu=-10%,us=110%"), 2, "places of users cannot be read"),
        (("--users", "eu", "--stay", "narnia"), 2, "unknown area 'narnia'"),
        (("--stay", "eu"), 2, "--stay without --users"),
        (("--users", "eu", "--max-grid", "0"), 3, "The cleanest that is known is"),
        (("--users", "eu", "--stay", "eu", "--regions", "us"), 3, "have to be served in eu"),
        (("--users", "eu", "--year", "2050"), 2, "no grid is known of that year"),
        (("--users", "eu", "--regions", "atlantis"), 2, "unknown region of aws 'atlantis'"),
        (("--users", "eu", "--regions", "eu-north-1", "--survive-region"), 3, "no other region can take over"),
        (("--users", "eu", "--carbon-budget", "-1"), 2, "the carbon budget is out of range"),
    ],
)
def test_wrong_words_are_told_in_one_sentence(
    ask_gpufleet: RunGpufleet, words: tuple[str, ...], code: int, told: str
) -> None:
    done = ask_gpufleet(*ASKED, *words)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_no_time_at_all_still_answers(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet(*ASKED, *TWO, "--time-limit", "0")
    assert done.returncode == 0, done.stderr


def test_several_services_are_read_from_a_file(ask_gpufleet: RunGpufleet, tmp_path: Path) -> None:
    file = tmp_path / "services.yaml"
    file.write_text(
        (REPOSITORY / "examples" / "three-models.yaml").read_text().replace("nebius", "aws").replace("100/h", "200/h")
    )
    done = ask_gpufleet("regions", "--workload", str(file), "--users", "us", "--regions", "us", COLUMNS="80")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "qwen3-32b" in done.stdout
