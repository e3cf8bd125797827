"""`gpufleet spot` as it is typed: one page, a policy as data, a log checked by it, one message for every mistake."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpufleet
from gpufleet.ask.spot.audit import audit_spot
from gpufleet.ask.spot.job_shape import SpotAudit, SpotPlan
from gpufleet.ask.spot.rules_file import read_spot_rules
from gpufleet.domain.arrays import IntArray
from gpufleet.domain.spot import NAMES, DeadlineJob, SpotMarket
from gpufleet.errors import UsageError
from gpufleet.optimize.spot_policies import BySlack, NeverLate
from gpufleet.simulate.spot_jobs import Sight, SpotPolicy, replay_jobs

Run = Callable[..., "subprocess.CompletedProcess[str]"]
V100 = ("--spot-price", "0.9731/h", "--on-demand-price", "3.06/h")
JOB = ("--work", "20h", "--deadline", "30h", *V100, "--draws", "60")


@pytest.fixture(scope="module")
def answer() -> SpotPlan:
    """One answer in Python."""
    return gpufleet.plan_spot(
        work_s="20h", deadline_s="30h", spot_price=0.9731, on_demand_price=3.06, draws=60, zones=2
    )


def test_the_page_says_cost_saving_risk_and_rules_at_eighty_columns(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("spot", *JOB)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("On spot, with on demand as the net: $")
    for said in ("less than on", "> slack", "uniform", "on-demand", "maximum price", "wait while there is slack"):
        assert said in done.stdout


def test_the_same_seed_gives_the_same_answer(answer: SpotPlan) -> None:
    again = gpufleet.plan_spot(
        work_s="20h", deadline_s="30h", spot_price=0.9731, on_demand_price=3.06, draws=60, zones=2
    )
    assert again == answer
    assert SpotPlan.model_validate_json(answer.model_dump_json()) == answer


def test_the_answer_saves_and_is_hardly_ever_late(answer: SpotPlan) -> None:
    assert 0.2 < answer.saved_ratio < 1 - 0.9731 / 3.06
    assert answer.answer.late_ratio <= 0.01
    on_demand = next(play for play in answer.plays if play.policy == "on-demand")
    assert on_demand.usd.value == pytest.approx(3.06 * (20 + 0.2), rel=0.02)
    assert 0.9731 < answer.most_usd_per_hour < 3.06
    assert answer.late_if_refused_ratio >= answer.answer.late_ratio


@pytest.mark.parametrize(
    ("zones", "restart", "deadline"), [(1, "12min", "52h"), (3, "1.2min", "60h"), (6, "12min", "52h")]
)
def test_the_headline_is_the_cheapest_that_is_never_late(zones: int, restart: str, deadline: str) -> None:
    """At the first of these ours stood above uniform progress in its own table."""
    plan = gpufleet.plan_spot(
        work_s="48h", deadline_s=deadline, spot_price=0.9731, on_demand_price=3.06, zones=zones, restart_s=restart
    )
    assert all(play.late_ratio == 0 for play in plan.plays)
    assert plan.answer.usd.value == min(play.usd.value for play in plan.plays)
    assert plan.market.usd.value == pytest.approx(plan.answer.usd.value)
    assert plan.rules.policy == plan.answer.policy


def test_a_deadline_that_leaves_no_time_for_spot_is_kept_on_demand(tmp_path: Path, ask_gpufleet: Run) -> None:
    """48.2 h on demand fit 52 h; with checkpoints every ten minutes they do not, which was said of on demand too."""
    rules = tmp_path / "rules.json"
    asked = ("--work", "48h", "--deadline", "52h", *V100, "--restart", "12min", "--draws", "20", "--zones", "1")
    often = ("--availability", "30%", "--mean-up", "1h", "--rules", str(rules))
    done = ask_gpufleet("spot", *asked, *often)
    assert done.returncode == 0
    page = " ".join(done.stdout.split())
    assert page.startswith("Run it on demand: $147.49. 52.0 h leave no time for spot.")
    assert "12.0 min of start and 10.0 min until a loss is seen do not fit 52.0 h" in page
    held = read_spot_rules(rules)
    assert json.loads(rules.read_text(encoding="utf-8"))["policy"] == "on-demand"
    job, market = held.worst, SpotMarket(np.ones((1, 330), dtype=bool), held.tick_s, np.array([1.0]), 3.0)
    ran = replay_jobs(job, market, np.array([0]), NeverLate(BySlack(held.rules), job, held.tick_s))
    assert float(ran.spot_s[0]) == 0.0


def test_a_checkpoint_that_takes_no_time_costs_none() -> None:
    plan = gpufleet.plan_spot(
        work_s="20h", deadline_s="30h", spot_price=1.0, on_demand_price=3.0, draws=20, checkpoint_write_s=0
    )
    alone = next(play for play in plan.plays if play.policy == "on-demand")
    assert alone.usd.value == pytest.approx(3.0 * (20 + plan.restart.value / 3600), rel=0.02)


def test_spot_that_is_always_there_is_taken_whatever_it_is_said_to_last() -> None:
    plan = gpufleet.plan_spot(
        work_s="48h", deadline_s="72h", spot_price=0.4, on_demand_price=1.0, draws=20, availability=1.0, mean_up_s="6h"
    )
    assert plan.answer.usd.value == pytest.approx(0.4 * 48.5, rel=0.03)
    assert plan.checkpoint_interval_s < 24 * 3600


def test_a_plan_keeps_its_machines_and_may_be_of_an_encoder(tmp_path: Path) -> None:
    """Nobody says how long other machines take."""
    asked = gpufleet.EncoderBatchRequest(
        "bge-base-en-v1.5", 1e7, 8 * 3600.0, input_tokens=256, clouds=["aws"], pricing=["on_demand"]
    )
    plan = gpufleet.plan_encoder_batch(asked)
    file = tmp_path / "plan.json"
    file.write_text(plan.model_dump_json(), encoding="utf-8")
    prices = {"spot_price": 0.4, "on_demand_price": 1.0, "draws": 20}
    assert gpufleet.plan_spot(file, **prices).work.value == pytest.approx(plan.answer.work_s)
    with pytest.raises(UsageError, match="how long its own machines work"):
        gpufleet.plan_spot(file, machine=["aws:p5.48xlarge"], **prices)


def test_savings_are_counted_from_the_cheapest_machine_on_demand(ask_gpufleet: Run) -> None:
    """Spot of an H100 machine is cheapest where the same machine on demand is dearest."""
    done = ask_gpufleet(
        "spot", "--work", "20h", "--deadline", "30h", "--machine", "aws:p5.48xlarge", "--draws", "40", "-o", "json"
    )
    plan = SpotPlan.model_validate_json(done.stdout)
    assert plan.alone.price.usd_per_hour < plan.market.on_demand.usd_per_hour
    assert plan.saved_ratio == pytest.approx(1 - plan.answer.usd.value / plan.alone.usd)
    assert plan.most_usd_per_hour < plan.alone.price.usd_per_hour
    here = next(play for play in plan.plays if play.policy == "on-demand")
    ratio = plan.alone.price.usd_per_hour / plan.market.on_demand.usd_per_hour
    assert plan.alone.usd == pytest.approx(here.usd.value * ratio, rel=1e-6)


def test_prices_have_source_and_day_and_an_estimate_warns(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("spot", "--work", "20h", "--deadline", "30h", "--machine", "aws:g5.xlarge", "--draws", "40")
    page = " ".join(done.stdout.split())
    assert "Warning: the price of spot is an estimate of 2025-06-28: say yours with --spot-price." in page
    assert "Prices, never live. Spot: aws-spot-advisor, estimated, 2025-06-28; on demand: aws-" in page
    assert page.index("Warning") < page.index("Policies")


def test_a_reserve_is_kept_for_a_refusal_of_an_hour() -> None:
    """Every refusal of an hour is met by an hour that was kept."""
    said = {"work_s": "20h", "deadline_s": "30h", "spot_price": 0.9731, "on_demand_price": 3.06, "draws": 60}
    kept = gpufleet.plan_spot(reserve_s="1h", **said)
    assert kept.late_if_refused_ratio <= 0.02
    assert kept.answer.usd.value >= gpufleet.plan_spot(**said).answer.usd.value


def test_zones_that_always_have_machines_cost_the_work_and_one_start() -> None:
    plan = gpufleet.plan_spot(
        work_s="20h", deadline_s="30h", spot_price=1.0, on_demand_price=3.0, draws=20, restart_s="12min",
        availability=1.0, mean_up_s="1000h", checkpoint_every_s="1h", checkpoint_write_s="1s",
    )  # fmt: skip
    assert plan.answer.usd.value == pytest.approx(20.2, rel=1e-3)
    assert plan.answer.on_demand_ratio == 0


def test_a_trace_of_ones_own_is_replayed_every_hour(tmp_path: Path, ask_gpufleet: Run) -> None:
    trace = tmp_path / "zone.json"
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1, 1, 0, 1] * 100}), encoding="utf-8")
    done = ask_gpufleet("spot", *JOB, "--trace", str(trace), "-o", "json")
    plan = SpotPlan.model_validate_json(done.stdout)
    assert (plan.zones, plan.grade) == (1, "measured")
    assert plan.availability_ratio == pytest.approx(0.75)
    assert plan.num_draws == (400 - 180) // 6 + 1
    assert plan.answer.late_ratio == 0


def test_what_is_stated_of_a_market_is_not_what_comes(answer: SpotPlan) -> None:
    """Measured ones moved a fifth of the way from spot alone to on demand alone; draws of 100 % all cost the same."""
    stated = gpufleet.plan_spot(
        work_s="20h", deadline_s="30h", spot_price=1.0, on_demand_price=3.0, draws=20, availability=1.0, mean_up_s="9h",
        checkpoint_every_s="1h", checkpoint_write_s=0, restart_s="12min",
    )  # fmt: skip
    cost, (least, most) = stated.answer.usd, (20.2, 3 * 21.2 + 8.8)
    assert cost.low == pytest.approx(least)
    assert cost.high == pytest.approx(cost.value + 0.2 * (most - least), rel=0.01)
    assert (stated.market.usd.low, stated.market.usd.high) == pytest.approx((cost.low, cost.high))
    alone = next(play.usd for play in stated.plays if play.policy == "on-demand")
    assert (alone.low, alone.high) == pytest.approx((60.6, 60.6))
    assert not any("moves" in note for note in answer.notes)


def test_the_range_of_a_trace_reaches_to_draws_alike(tmp_path: Path) -> None:
    """Days that are all the same leave no doubt of themselves; days to come need not be the same."""
    trace = tmp_path / "zone.json"
    points = ([1] * 18 + [0] * 6) * 20
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": points}), encoding="utf-8")
    plan = gpufleet.plan_spot(
        work_s="20h", deadline_s="30h", spot_price=0.97, on_demand_price=3.06, trace=str(trace), draws=40
    )
    cost = plan.answer.usd
    assert cost.low is not None
    assert cost.high is not None
    assert 0.97 * 20 < cost.low < cost.value < cost.high < 3.06 * 22
    assert cost.high - cost.low > 0.05 * cost.value
    assert (plan.market.usd.low, plan.market.usd.high) == pytest.approx((cost.low, cost.high))


class Logged:
    """A policy whose ticks are written down."""

    def __init__(self, policy: SpotPolicy) -> None:
        self.policy, self.rows = policy, list[tuple[object, ...]]()

    def choose(self, job: DeadlineJob, sight: Sight) -> IntArray:
        """What the policy chooses, noted."""
        chosen = self.policy.choose(job, sight)
        seen = (sight.elapsed_s, int(sight.is_available[0]), NAMES[int(chosen[0])])
        self.rows.append((*seen, float(sight.work_s[0]), float(sight.starting_s[0])))
        return chosen


def test_a_log_that_follows_the_policy_passes_and_another_is_told_where(tmp_path: Path, ask_gpufleet: Run) -> None:
    rules, log = tmp_path / "rules.json", tmp_path / "log.csv"
    assert ask_gpufleet("spot", *JOB, "--rules", str(rules)).returncode == 0
    held = read_spot_rules(rules)
    has_one = np.repeat(np.random.default_rng(3).random(40) < 0.6, 6)[None]
    market = SpotMarket(has_one, held.tick_s, np.array([1.0]), 3.0)
    logged = Logged(NeverLate(BySlack(held.rules), held.worst, held.tick_s))
    replay_jobs(held.worst, market, np.array([0]), logged)
    write_log(log, logged.rows)
    done = ask_gpufleet("spot", str(rules), "--replay", str(log))
    assert (done.returncode, done.stdout.split(";")[0]) == (
        0,
        f"The policy was followed in all {len(logged.rows)} ticks",
    )
    idle = [(at, there, "waiting" if ran == "spot" else ran, *left) for at, there, ran, *left in logged.rows]
    write_log(log, idle)
    done = ask_gpufleet("spot", str(rules), "--replay", str(log), "-o", "json")
    assert done.returncode == 4
    audit = SpotAudit.model_validate_json(done.stdout)
    assert {(each.ran, each.should) for each in audit.deviations} >= {("waiting", "spot")}


def write_log(path: Path, rows: list[tuple[object, ...]]) -> None:
    """A log as it is read."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["elapsed_s", "available", "ran", "work_left_s", "starting_s"])
        writer.writerows(rows)


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ((), 2, "nothing says what the job is"),
        (("--work", "48h", "--deadline", "72h"), 2, "nothing says on which machine"),
        (("--work", "48h", "--deadline", "40h", *V100), 3, "on demand alone takes"),
        (("--work", "60h-40h", "--deadline", "80h", *V100), 2, "cannot be read"),
        (("--work", "48h", "--deadline", "72h", "--machine", "aws:p99.large"), 2, "unknown instance"),
        (("--work", "48h", "--deadline", "72h", *V100, "--zones", "0"), 2, "zones"),
        (("--work", "48h", "--deadline", "72h", *V100, "--availability", "60%"), 2, "--mean-up"),
        (("--work", "48h", "--deadline", "72h", *V100, "--trace", "nowhere.json"), 2, "nowhere.json"),
        (("--work", "48h", "--deadline", "72h", "--spot-price", "-1/h", "--on-demand-price", "3/h"), 2, "--spot-price"),
        (("nowhere.json",), 2, "nowhere.json"),
        (("--replay", "log.csv"), 2, "RULES.json"),
    ],
)
def test_a_mistake_has_one_message(typed: tuple[str, ...], code: int, said: str, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("spot", *typed)
    assert done.returncode == code
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


HEAD = "elapsed_s,available,ran,work_left_s\n"
BROKEN = ("", "elapsed_s,available\n0,1\n", "0,maybe,spot,5\n", "0,1,spot,nan\n", "9,1,spot,5\n9,1,spot,5\n")


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_log_has_one_message(text: str, tmp_path: Path, ask_gpufleet: Run) -> None:
    rules, log = tmp_path / "rules.json", tmp_path / "log.csv"
    ask_gpufleet("spot", *JOB, "--rules", str(rules))
    log.write_text(HEAD + text if text[:1].isdigit() else text, encoding="utf-8")
    done = ask_gpufleet("spot", str(rules), "--replay", str(log))
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert ask_gpufleet("spot", str(log), "--replay", str(log)).returncode == 2


def test_a_long_job_is_played_on_longer_ticks_and_fewer_draws_which_is_said(
    answer: SpotPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coarser play hardly moves the cost, and availability is still that of ten minutes."""
    monkeypatch.setattr("gpufleet.ask.spot.supply.MOST_PLAYED_TICKS", 60)
    monkeypatch.setattr("gpufleet.ask.spot.supply.MOST_DRAWN_TICKS", 60 * 180)
    coarse = gpufleet.plan_spot(
        work_s="20h", deadline_s="30h", spot_price=0.9731, on_demand_price=3.06, draws=90, zones=2
    )
    assert coarse.rules.tick_s == 1800.0
    assert coarse.num_draws == 60
    assert coarse.answer.usd.value == pytest.approx(answer.answer.usd.value, rel=0.15)
    assert coarse.availability_ratio == pytest.approx(answer.availability_ratio, rel=0.1)
    assert [note for note in coarse.notes if "every 30 min" in note]
    assert [note for note in coarse.notes if "60 times, not 90" in note]
    assert answer.notes == []


def test_our_rules_take_spot_in_a_market_that_was_never_seen_to_change(tmp_path: Path) -> None:
    """A change that nobody saw is not as likely as not: it is as likely as in zones that were measured, or less."""
    trace = tmp_path / "always.json"
    trace.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [1] * 400}))
    plan = gpufleet.plan_spot(work_s="20h", deadline_s="30h", spot_price=0.97, on_demand_price=3.06, trace=str(trace))
    ours = next(play for play in plan.plays if play.policy == "slack")
    assert ours.on_demand_ratio == 0.0
    assert ours.usd.value == pytest.approx(0.97 * 20.6, rel=0.02)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(0, 1, "spot", 72000), (600, 1, "spot", 71400), (6000, 1, "spot", 66000)], "leaves ticks out before line 4"),
        ([(107400, 1, "spot", 600), (108000, 1, "spot", 600)], "after the deadline of the policy, from line 3 on"),
    ],
)
def test_a_log_with_gaps_or_past_its_deadline_is_refused(
    rows: list[tuple[object, ...]], said: str, answer: SpotPlan, tmp_path: Path
) -> None:
    rules, log = tmp_path / "rules.json", tmp_path / "log.csv"
    rules.write_text(answer.rules.model_dump_json(), encoding="utf-8")
    write_log(log, rows)
    with pytest.raises(UsageError, match=said):
        audit_spot(rules, log)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("rules.json", "--replay", "log.csv", "--deadline", "9h"), "by the policy alone; found '--deadline'"),
        ((*JOB, "--target", "0.9"), "--target is of a service"),
        ((*JOB, "--seed", "-1"), "expected a whole number from 0."),
        (("--work", "4h", "--deadline", "8h", "--spot-price", "x"), "cannot read USD per time"),
    ],
)
def test_a_word_that_has_no_place_is_not_passed_over(typed: tuple[str, ...], said: str, ask_gpufleet: Run) -> None:
    done = ask_gpufleet("spot", *typed)
    assert done.returncode == 2
    assert said in done.stderr
