"""With quiet hours, everything that costs is a mean over the same day: machines, tokens, electricity, other lines."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpufleet.api import ServeRequest, plan_serve
from gpufleet.api.comparisons import compare
from gpufleet.api.inquiries import against_tokens, pareto
from gpufleet.api.serve_questions import prepare
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.bill import BillLine, Per
from gpufleet.report.comparison import comparison_page
from gpufleet.report.numbers import significant, usd, usd_per_hour
from gpufleet.report.plan import headline, plan_page
from gpufleet.report.text import page_as_text
from gpufleet.results.plan import Deployment, ServePlan

pytestmark = pytest.mark.usefixtures("rows_alone")

PEAK, NIGHT, HOURS = 40.0, 4.0, 10.0
ASKED = ServeRequest(
    "llama-3.1-8b", PEAK, 1000, 300, "tpot.p95<60ms", clouds=("aws", "gcp"), off_peak_rate=NIGHT, peak_hours=HOURS
)
MIXED = replace(ASKED, max_spot=0.5)
MEAN = (HOURS * PEAK + (24 - HOURS) * NIGHT) / 24
days = pytest.mark.parametrize("request_", [ASKED, MIXED], ids=["by the hour", "partly spot"])


def numbers(plan: ServePlan, figure: str) -> tuple[float, float]:
    """A figure of `--explain`, and what its numbers come to."""
    text = re.sub(r"\n +", " ", page_as_text(plan_page(plan, explain=True), 10_000))
    line = next(x for x in text.splitlines() if x.startswith(figure + "  "))
    value, formula = (part.strip() for part in re.split(r"  +", line.removeprefix(figure).strip(), maxsplit=1))
    formula = re.sub(r"[$,]|/s\b|tokens|\bs\b|\bh\b", "", formula).replace("x", "*")
    return float(re.sub(r"[^0-9.]", "", value)), eval(formula, {"__builtins__": {}})


@pytest.mark.slow
@days
def test_explained_money_is_what_its_numbers_come_to(request_: ServeRequest) -> None:
    plan = plan_serve(request_)
    assert plan.answer.quiet_instance_count < plan.answer.instance_count
    for figure in ("$/h", "$/month", "$/1M out", "$/request"):
        shown, computed = numbers(plan, figure)
        assert shown == pytest.approx(computed, rel=0.02), figure


@pytest.mark.slow
@days
def test_a_token_api_is_paid_for_the_tokens_of_the_whole_day(request_: ServeRequest) -> None:
    tables, plan = load_catalog(), plan_serve(request_)
    found = against_tokens(prepare(request_, tables), "0.2/0.4")
    per_request = (1000 * 0.2 + 300 * 0.4) / 1e6
    assert found.api_usd_per_hour * 24 == pytest.approx(per_request * 3600 * (HOURS * PEAK + (24 - HOURS) * NIGHT))
    assert found.own_usd_per_hour == plan.answer.usd_per_hour


@pytest.mark.slow
@days
def test_below_the_break_even_rate_machines_cost_more_and_at_it_no_more(request_: ServeRequest) -> None:
    tables = load_catalog()
    price = "0.08/0.2"
    first = against_tokens(prepare(request_, tables), price).first_requests_per_s
    assert first > NIGHT
    for ratio, is_dear in ((1.0001, False), (0.8, True)):
        at = against_tokens(prepare(replace(request_, rate=max(first * ratio, NIGHT)), tables), price)
        assert (at.own_over_api_ratio > 1) == is_dear


@pytest.mark.slow
def test_a_budget_does_not_make_machines_dearer_than_an_api() -> None:
    tables = load_catalog()
    free, bound = (against_tokens(prepare(r, tables), "2/4") for r in (ASKED, replace(ASKED, budget_usd_per_hour=60.0)))
    assert bound == free


@pytest.mark.slow
@days
def test_the_front_holds_the_answer_and_no_row_lies_below_it(request_: ServeRequest) -> None:
    plan, front = plan_serve(replace(request_, rows=100)), pareto(prepare(request_, load_catalog()))
    assert front.points[0].usd_per_hour == pytest.approx(plan.answer.usd_per_hour)
    for d in plan.deployments:
        beside = [p for p in front.points if counted_usd(p) <= counted_usd(d) * (1 + 1e-9)]
        assert min(p.latency[front.figure].value for p in beside) <= d.latency[front.figure].value * (1 + 1e-9)


def counted_usd(d: Deployment) -> float:
    """What a row counts in a choice: what one likely pays by now for each of its parts."""
    return d.counted_usd_per_hour


@days
@pytest.mark.parametrize(("first", "second"), [("L40S", "H100"), ("L4", "A100-80GB"), ("H100", "A100-80GB")])
def test_a_comparison_names_the_same_winner_in_its_headline_and_in_its_table(
    request_: ServeRequest, first: str, second: str
) -> None:
    found = compare(request_, first, second)
    assert found.first.deployment is not None
    assert found.second.deployment is not None
    cheap = min((found.first, found.second), key=lambda side: side.deployment.usd_per_hour)
    [here] = [r for r in found.ranges if r.from_requests_per_s < PEAK <= r.to_requests_per_s]
    assert here.cheaper == cheap.asked
    text = page_as_text(comparison_page(found), 100)
    assert f"{significant(here.from_requests_per_s)} to {significant(here.to_requests_per_s)}" in text


def test_beyond_the_budget_neither_is_called_as_cheap_as_the_other() -> None:
    found = compare(replace(ASKED, budget_usd_per_hour=30.0), "L40S", "H100")
    assert (found.ranges[-1].cheaper, found.ranges[-1].is_served) == (None, False)
    assert "neither serves" in page_as_text(comparison_page(found), 100)


@days
def test_the_first_line_says_the_hours_and_what_each_of_them_costs(request_: ServeRequest) -> None:
    plan = plan_serve(request_)
    d, first = plan.answer, headline(plan)
    quiet_usd = (24 * d.usd_per_hour - HOURS * d.busy_usd_per_hour) / (24 - HOURS)
    assert f"{PEAK:g} requests/s (10 h a day, else 4/s)" in first
    hours = f"({usd(d.busy_usd_per_hour)} at the peak, {usd(quiet_usd)} off it)"
    assert f"{usd_per_hour(d.usd_per_hour)} on average {hours}" in first
    assert "on average" not in headline(plan_serve(replace(request_, off_peak_rate=None, peak_hours=None)))


def test_electricity_is_that_of_the_day() -> None:
    d, flat = plan_serve(ASKED).answer, plan_serve(replace(ASKED, off_peak_rate=PEAK)).answer
    assert (d.instance, d.instance_count) == (flat.instance, flat.instance_count)
    energy = d.energy
    mean_gpus = d.gpus_per_instance * (HOURS * d.instance_count + (24 - HOURS) * d.quiet_instance_count) / 24
    assert energy.num_gpus == pytest.approx(mean_gpus)
    assert energy.kwh_per_hour.high == pytest.approx(mean_gpus * energy.board_power_watts / 1000)
    assert energy.kwh_per_hour.low <= energy.kwh_per_hour.value <= energy.kwh_per_hour.high
    assert energy.kwh_per_hour.value < flat.energy.kwh_per_hour.value
    millions_per_hour = MEAN * 300 * 3600 / 1e6
    per_million = energy.kwh_per_million_output_tokens
    assert per_million.value * millions_per_hour == pytest.approx(energy.kwh_per_hour.value)


def test_lines_by_the_request_are_charged_for_the_requests_of_the_day() -> None:
    egress = BillLine("egress", "all", "all", 2.0, Per.MILLION_REQUESTS, "GB", 0.09, "your-tables")
    disk = BillLine("disk", "all", "all", 100.0, Per.INSTANCE, "GiB", 0.10, "your-tables")
    plan = plan_serve(ASKED, replace(load_catalog(), bill_lines=(egress, disk)))
    by_request, by_machine = plan.rest_of_bill
    assert by_request.usd_per_month == pytest.approx(2 * 0.09 * MEAN * 3600 * 730 / 1e6)
    assert by_machine.usd_per_month == pytest.approx(10.0 * plan.answer.mean_instance_count)
    assert plan.answer.mean_instance_count < plan.answer.instance_count
