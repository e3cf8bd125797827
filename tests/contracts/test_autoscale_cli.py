"""`gpufleet autoscale` as it is typed: one screen, every format, one message for every mistake."""

from __future__ import annotations

import csv
import json
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Planned

import gpufleet
from gpufleet.api.answers import ServeAnswer
from gpufleet.results.autoscale import AutoscaleResult
from gpufleet.simulate.compiled import IS_COMPILED

pytestmark = pytest.mark.usefixtures("planned_once")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
WEEK = Path(__file__).resolve().parents[2] / "examples" / "week.csv"
FEW = ("--documented", "--policy", "static,skyserve,predictive,schedule")


def with_basis(plan: gpufleet.ServePlan) -> str:
    """A plan as its file has it."""
    assert isinstance(plan, ServeAnswer)
    return plan.to_json()


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved plan."""
    request = gpufleet.ServeRequest(
        model="llama-3.1-8b",
        rate=40.0,
        input_tokens=1000.0,
        output_tokens=200.0,
        slo="ttft.p95<1s,tpot.p95<50ms",
        clouds=("aws",),
    )
    path = tmp_path_factory.mktemp("plans") / "plan.json"
    path.write_text(with_basis(gpufleet.plan_serve(request)), encoding="utf-8")
    return path


def test_a_week_is_one_screen_of_eighty_columns(plan: Path, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(WEEK), *FEW)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 50
    assert lines[0].startswith("Scale by 'predictive': $")
    for said in ("What to set", "> predictive", "perfect forecast", "to none: no", "a cold start takes"):
        assert said in done.stdout


def test_the_json_is_read_back_and_names_every_law(plan: Path, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(WEEK), *FEW, "-o", "json", "--cold-start", "300s")
    content = json.loads(done.stdout)
    result = AutoscaleResult.model_validate(content)
    origins = {row.name: row.origin for row in result.inputs}
    assert (origins["cold start"], origins["target"], origins["most machines"]) == ("given", "default", "default")
    assert {play.policy for play in result.plays} == {"static", "skyserve", "predictive", "schedule"}
    assert result.cold_start_s == 300
    assert result.cold_start is None
    assert content["is_feasible"] is True
    kept = [play for play in result.plays if play.meets_target]
    assert result.recommended.machine_hours == min(play.machine_hours for play in kept)
    for play in (*result.plays, result.perfect):
        assert play.usd == pytest.approx(play.machine_hours * result.machine.price_per_instance_usd_per_hour)
        assert play.kept_ratio_worst_day == min(play.kept_ratio_by_day)
        assert len(play.kept_ratio_by_day) == result.num_days == 7


@pytest.mark.skipif(not IS_COMPILED, reason="Numba is not installed")
def test_the_worst_day_is_replayed_request_by_request_where_that_is_asked(plan: Path, ask_gpufleet: Run) -> None:
    """At a fifth of the week's rate; ticks are at the plan's confidence, a replay takes steps as they are expected."""
    asked = ("autoscale", str(plan), "--trace", str(WEEK), "--mean-rate", "4/s", "--verify", "--documented")
    done = ask_gpufleet(*asked, "--policy", "predictive", "--cold-start", "300s", "-o", "json")
    result = AutoscaleResult.model_validate_json(done.stdout)
    day, best = result.replayed, result.recommended
    assert day is not None
    assert day.kept_ratio_played == pytest.approx(best.kept_ratio_worst_day) == min(best.kept_ratio_by_day)
    assert best.kept_ratio_by_day[day.day - 1] == best.kept_ratio_worst_day
    assert day.kept_ratio_played <= day.kept_ratio <= 1
    assert 200_000 < day.num_requests < result.requests / 3
    assert 0 < day.ttft_p95_s < 1


def test_a_tuned_law_that_keeps_the_target_on_other_days_is_the_headline_where_ours_is_dearer(
    plan: Path, ask_gpufleet: Run
) -> None:
    """The recommendation is the cheapest of all plays that keep the target, as documented and tuned."""
    asked = ("autoscale", str(plan), "--trace", str(WEEK), "--policy", "static,hpa-rate,predictive,keda-queue")
    result = AutoscaleResult.model_validate_json(ask_gpufleet(*asked, "-o", "json").stdout)
    assert result.num_tuned_days == 4
    assert {(p.policy, p.is_tuned) for p in result.plays} == {
        ("predictive", False),
        *((name, tuned) for name in ("static", "hpa-rate", "keda-queue") for tuned in (False, True)),
    }
    best = result.recommended
    kept = [play for play in result.plays if play.kept_ratio_worst_day >= 0.95]
    assert best.usd == min(play.usd for play in kept)
    assert (best.policy, best.is_tuned) == ("hpa-rate", True)
    assert best.kept_ratio_worst_unseen_day == min(best.kept_ratio_by_day[4:]) >= 0.95
    by_name = {(p.policy, p.is_tuned): p.kept_ratio_worst_day for p in result.plays}
    assert by_name["hpa-rate", False] > 0.95 > 0.7 > by_name["keda-queue", True] > by_name["keda-queue", False]
    page = " ".join(ask_gpufleet(*asked).stdout.split())
    assert page.startswith("Scale by 'hpa-rate', tuned on the first 4 days: $1,4")
    assert "on the worst that it was not tuned on" in page


def test_under_three_days_the_page_says_that_settings_were_searched_on_the_same_days(
    plan: Path, ask_gpufleet: Run, tmp_path: Path
) -> None:
    rows = WEEK.read_text(encoding="utf-8").splitlines()
    step = len(rows[1:]) // 7
    two_days = tmp_path / "two.csv"
    two_days.write_text("\n".join([rows[0], *rows[1 : 1 + 2 * step]]), encoding="utf-8")
    asked = ("autoscale", str(plan), "--trace", str(two_days), "--policy", "static,hpa-rate")
    done = ask_gpufleet(*asked)
    assert "tuned on the same days" in " ".join(done.stdout.split("\n\n")[0].split())
    result = AutoscaleResult.model_validate_json(ask_gpufleet(*asked, "-o", "json").stdout)
    assert result.num_tuned_days is None
    assert result.recommended.is_tuned
    assert result.recommended.kept_ratio_worst_unseen_day is None


def test_the_csv_has_a_row_for_every_law_and_the_perfect_forecast(plan: Path, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(WEEK), *FEW, "-o", "csv")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert len(rows) == 5
    assert float(rows[-1]["over_perfect_ratio"]) == 1
    assert all(float(row["cold_requests"]) >= 0 for row in rows)


def test_the_picture_is_svg_with_every_law_in_it(plan: Path, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(WEEK), *FEW, "-o", "svg")
    root = ElementTree.fromstring(done.stdout)
    hints = " ".join(title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title"))
    assert all(name in hints for name in ("static", "skyserve", "predictive", "schedule"))
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"static", "predictive"} <= texts


def test_a_trace_of_requests_is_counted_by_the_minute(plan: Path, ask_gpufleet: Run, tmp_path: Path) -> None:
    trace = tmp_path / "requests.csv"
    rows = [f"{second / 2},100,10" for second in range(3600)]
    trace.write_text("\n".join(["timestamp_s,input_tokens,output_tokens", *rows]), encoding="utf-8")
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(trace), "--policy", "static")
    assert done.returncode == 0
    assert "2.00/s on" in " ".join(done.stdout.split())
    assert "less than a day" in done.stdout


def test_nothing_that_keeps_the_target_ends_with_three(plan: Path, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(WEEK), "--max", "1", "--policy", "static,predictive")
    assert done.returncode == 3
    assert done.stdout.startswith("No law keeps 95% of requests in time")


@pytest.mark.parametrize(
    ("curve", "said"),
    [
        ("t_s,rate_rps\n", "no rows"),
        ("t_s,rate_rps\n0,1\n60,-2\n", "-2"),
        ("t_s,rate_rps\n0,nan\n60,1\n", "nan"),
        ("t_s,rate_rps\n0,0\n60,0\n120,0\n", "holds no requests"),
        ("t_s,rate_rps\n0,1\n1e9,1\n2e9,3\n", "too long"),
        ("t_s,rate_rps\n60,1\n0,1\n", "not later"),
    ],
)
def test_a_curve_that_cannot_be_played_is_one_message(
    plan: Path, ask_gpufleet: Run, tmp_path: Path, curve: str, said: str
) -> None:
    path = tmp_path / "curve.csv"
    path.write_text(curve, encoding="utf-8")
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(path))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--min", "5", "--max", "3"), "above the most"),
        (("--max", "0"), "serves nothing"),
        (("--min", "-1"), "out of range"),
        (("--target", "100%"), "below 100%"),
        (("--target", "0"), "out of range"),
        (("--policy", "hpaa"), "Did you mean hpa"),
        (("--policy", ","), "no policy is named"),
        (("--seed", "-1"), "seed"),
        (("--cold-start", "-5s"), "positive"),
    ],
)
def test_a_setting_that_nothing_can_be_done_with_is_one_message(
    plan: Path, ask_gpufleet: Run, words: tuple[str, ...], said: str
) -> None:
    done = ask_gpufleet("autoscale", str(plan), "--trace", str(WEEK), *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_without_limits_is_refused_with_what_to_type(ask_gpufleet: Run, tmp_path: Path) -> None:
    request = gpufleet.ServeRequest(model="llama-3.1-8b", rate=5.0, input_tokens=500.0, output_tokens=100.0)
    path = tmp_path / "plan.json"
    path.write_text(with_basis(gpufleet.plan_serve(request)), encoding="utf-8")
    done = ask_gpufleet("autoscale", str(path), "--trace", str(WEEK))
    assert done.returncode == 2
    assert "--slo" in done.stderr


def test_python_gives_what_the_command_gives(plan: Path, planned_once: Planned) -> None:
    result = gpufleet.autoscale(str(plan), str(WEEK), policies=["static", "predictive"], seed=0)
    planned_once.clear()
    again = gpufleet.autoscale(str(plan), str(WEEK), policies=["static", "predictive"], seed=0)
    assert result == again
    assert result.recommendation.policy == "predictive"
