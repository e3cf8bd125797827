"""`gpufleet regions PLAN.json`: a job, as a user of the command line meets it."""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from pathlib import Path

import pytest
from tests.conftest import RunGpufleet

from gpufleet import plan_batch, plan_serve, plan_spot

pytestmark = pytest.mark.usefixtures("planned_once")

ON_AWS = {"clouds": ["aws"], "gpus": ["L40S"]}


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    plan = plan_batch("llama-3.1-8b", requests="1M", input_tokens=1000, output_tokens=200, deadline="24h", **ON_AWS)
    file = tmp_path_factory.mktemp("plans") / "batch.json"
    file.write_text(plan.model_dump_json())
    return str(file)


def test_a_page_of_eighty_columns_whose_first_screen_has_the_answer(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    done = ask_gpufleet("regions", plan_file, COLUMNS="80")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("Run it on ")
    screen = "\n".join(lines[:24])
    assert "Regions that run the job, cheapest first" in screen
    assert "none of the plan's machines is sold there" in screen


def test_one_answer_in_every_format(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    plan = json.loads(ask_gpufleet("regions", plan_file, "-o", "json").stdout)
    assert plan["is_feasible"]
    run = [row for row in plan["regions"] if row["usd"]]
    rows = list(csv.DictReader(StringIO(ask_gpufleet("regions", plan_file, "-o", "csv").stdout)))
    assert [row["region"] for row in rows] == [f"{row['cloud']} {row['region']}" for row in run]
    assert [float(row["usd"]) for row in rows] == [row["usd"]["value"] for row in run]
    assert "| job cost | region |" in ask_gpufleet("regions", plan_file, "-o", "md").stdout
    assert 'aria-label="Where it runs' in ask_gpufleet("regions", plan_file, "-o", "html").stdout
    assert ask_gpufleet("regions", plan_file, "-o", "svg").stdout.startswith("<svg")


def test_so_many_rows_are_shown_as_are_asked_for(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    two = ask_gpufleet("regions", plan_file, "--rows", "2").stdout
    assert "more run it, dearer" in two
    assert two.count("aws eu-south-2") < ask_gpufleet("regions", plan_file, "--rows", "20").stdout.count("aws ")


def test_money_is_typed_and_shown_in_another_currency(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    usd = json.loads(ask_gpufleet("regions", plan_file, "-o", "json").stdout)["regions"][0]["usd"]["value"]
    said = ("--currency", "EUR@0.5", "--budget")
    assert ask_gpufleet("regions", plan_file, *said, f"{usd * 0.51:.4f} EUR").returncode == 0
    over = ask_gpufleet("regions", plan_file, *said, f"{usd * 0.49:.4f} EUR")
    assert over.returncode == 3
    assert "Any one of these changes alone would help" in over.stdout
    assert "over the budget" in over.stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--regions", "atlantis"), 2, "unknown region"),
        (("--stay", "narnia"), 2, "unknown area 'narnia'"),
        (("--stay", "eu", "--regions", "us"), 3, "the job has to stay in eu, where nothing allowed is sold"),
        (("--users", "eu=60%,us=40%"), 2, "a job has no users, so where they are changes nothing; found '--users'"),
        (("--workload", "w.yaml"), 2, "the plan of a job says what it is; found '--workload'"),
        (("--rate", "5/s", "--slo", "ttft.p95<1s"), 2, "found '--rate, --slo'"),
        (("--follow-the-sun",), 2, "found '--follow-the-sun'"),
        (("--data", "much"), 2, "--data"),
        (("--data-in", "nowhere"), 2, "unknown region 'nowhere'"),
        (("--carbon-budget", "-1"), 2, "the carbon budget is out of range"),
        (("--year", "2050"), 2, "no grid is known of that year"),
        (("--max-age", "1d"), 5, "older than 1 days"),
    ],
)
def test_wrong_words_are_told_in_one_sentence(
    ask_gpufleet: RunGpufleet, plan_file: str, words: tuple[str, ...], code: int, told: str
) -> None:
    done = ask_gpufleet("regions", plan_file, *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stdout
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_only_jobs_have_is_refused_of_a_service(ask_gpufleet: RunGpufleet) -> None:
    done = ask_gpufleet("regions", "llama-3.1-8b", "--rate", "1/s", "--in", "9", "--out", "9", "--data", "2TB")
    assert done.returncode == 2
    assert "--data is of a job; expected the plan of one: gpufleet regions PLAN.json" in done.stderr


def test_files_that_hold_no_plan_of_a_job_are_told_from_models(
    ask_gpufleet: RunGpufleet, plan_file: str, tmp_path: Path
) -> None:
    service = plan_serve("llama-3.1-8b", rate="1/s", input_tokens=100, output_tokens=100, **ON_AWS)
    on_spot = plan_spot(plan_file)
    content = json.loads(Path(plan_file).read_text())
    whole = json.dumps({k: v for k, v in content.items() if k != "seal"}, separators=(",", ":"))
    for text, told in (
        (service.model_dump_json(), "is the plan of a service"),
        (on_spot.model_dump_json(), "is not a plan of a job: model: Field required"),
        (whole[: len(whole) // 2], "a plan of a job 'file.json' is not JSON"),
        ('{"schema_version": "1"}', "is not a plan of a job"),
        (whole.replace('"deadline_s":86400.0', '"deadline_s":"soon"'), "deadline_s"),
        (re.sub(r'"work_s":[0-9.]+', '"work_s":-1', whole), "a plan of a job says deployments.0.work_s; found -1.0"),
        (re.sub(r'"instance_count":[0-9]+', '"instance_count":0', whole), "instance_count is 0"),
        (whole.replace('"g6e.xlarge"', '"g6e.gone"'), "unknown instance 'aws:g6e.gone'"),
        ('{"model_type": "unheard"}', "--rate is missing"),
    ):
        (tmp_path / "file.json").write_text(text)
        done = ask_gpufleet("regions", "file.json")
        assert done.returncode == 2, told
        assert told in done.stderr
    assert "cannot read" in ask_gpufleet("regions", "missing.json").stderr
