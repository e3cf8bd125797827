"""Pages of training: a bar for each term, shares that add up, and a screen that holds the answer."""

from __future__ import annotations

import math
import re

import pytest

from gpufleet.api.training import plan_finetune, plan_train
from gpufleet.api.training_fits import fit_training
from gpufleet.report.detail import details_of
from gpufleet.report.formats import page_as_csv, page_as_markdown
from gpufleet.report.html import page_as_html
from gpufleet.report.job_page import job_page, job_rows_page
from gpufleet.report.page import Page
from gpufleet.report.text import page_as_text
from gpufleet.report.training import WORDS, step_table, whole_shares
from gpufleet.report.training_fit import training_fit_page
from gpufleet.report.training_memory import bar, memory_table
from gpufleet.results.base import Figure
from gpufleet.results.training import TrainingPlan

SCREEN_LINES, WIDTH = 45, 80


@pytest.fixture(scope="module")
def tuned() -> TrainingPlan:
    return plan_finetune("llama-3.1-8b", tokens="50M")


@pytest.fixture(scope="module")
def trained() -> TrainingPlan:
    return plan_train("llama-3.1-8b", tokens="10B", gpus=["H100:64"])


def screen(plan: TrainingPlan, show: str | None = None, *, explain: bool = False) -> str:
    """The page as a terminal of 80 columns shows it."""
    return page_as_text(job_page(plan, WORDS, details=details_of(show), explain=explain, width=WIDTH), WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tuned", "trained"])
def test_the_answer_is_one_screen(name: str, request: pytest.FixtureRequest) -> None:
    lines = screen(request.getfixturevalue(name)).splitlines()
    assert len(lines) <= SCREEN_LINES
    assert all(len(line) <= WIDTH for line in lines)


@pytest.mark.slow
def test_the_ranking_names_layouts_and_no_range_without_a_deadline(tuned: TrainingPlan) -> None:
    header = next(line for line in screen(tuned).splitlines() if "machines" in line and "cost" in line)
    assert "layout" in header
    assert "replicas" not in header
    assert "range" not in header


def test_limits_show_step_memory_and_run(tuned: TrainingPlan) -> None:
    shown = screen(tuned, "limits")
    for told in ("GPU-hours paid", "energy of the GPUs", "checkpoint", "MFU", "HFU", "a step's time", "100.0%",
                 "memory of the fullest GPU", "activations"):  # fmt: skip
        assert told in shown
    assert "Memory: formulas" not in shown


def test_explained_says_formulas_and_the_convention_of_mfu_once(tuned: TrainingPlan) -> None:
    shown = screen(tuned, "limits", explain=True)
    assert shown.count("a step's time") == shown.count("memory of the fullest GPU") == 1
    assert "Memory: formulas and numbers" in shown
    assert "PaLM" in shown
    assert all(len(line) <= WIDTH for line in shown.splitlines())


def test_what_nobody_said_of_precision_is_no_fact_of_a_checkpoint(tuned: TrainingPlan) -> None:
    assert {i.name: i.origin for i in tuned.inputs}["precision"] == "default"


def test_shares_of_a_step_add_up(trained: TrainingPlan) -> None:
    for d in trained.deployments:
        rows = step_table(d.speed).rows[:-1]
        shares = [float(str(row["share"]).removesuffix("%")) for row in rows]
        assert sum(shares) == pytest.approx(100.0)
        assert sum(d.speed.exposed_s.values()) == pytest.approx(d.speed.step_s.value)


def test_shares_round_to_a_hundred() -> None:
    parts = [1 / 3, 1 / 7, 1 / 11, 1e-5]
    assert sum(float(share.removesuffix("%")) for share in whole_shares(parts)) == pytest.approx(100.0)


def test_the_longest_bar_is_the_total_and_the_limit_stands_where_memory_ends() -> None:
    memory = fit_training("llama-3.3-70b", "L4", "lora").estimate.memory
    rows = memory_table(memory).rows
    lengths = [str(row["bar"]).count("#") for row in rows]
    assert lengths[-1] == max(lengths)
    assert len({str(row["bar"]).index("|") for row in rows}) == 1


def test_a_bar_never_runs_backwards() -> None:
    assert bar(0.0, None, 10.0, 10.0, width=10) == "          |"
    assert bar(-1.0, None, 10.0, 10.0, width=10) == "          |"


@pytest.mark.parametrize(("gpus", "method"), [("RTX-4090", "lora"), ("H100:8", "full"), ("L4", "lora")])
def test_a_fit_reads_in_every_format(gpus: str, method: str) -> None:
    result = fit_training("llama-3.1-8b", gpus, method)
    page = training_fit_page(result, explain=True)
    assert all(len(line) <= WIDTH for line in page_as_text(page, WIDTH).splitlines())
    assert re.search(r"(fits|tight|does not fit), [\d,.]+ of [\d.]+ GiB \([\d.]+-[\d.]+\)", page.headline)
    assert result.gpu in page_as_markdown(page)
    assert page_as_html(page).count('class="bar"') >= 5
    header, *rows = page_as_csv(page).splitlines()
    assert header == "name,bytes,low_bytes,high_bytes"
    assert float(rows[-1].split(",")[1]) == pytest.approx(result.estimate.memory.total_bytes.value)


def test_a_plan_reads_in_every_format(tuned: TrainingPlan) -> None:
    page: Page = job_page(tuned, WORDS, explain=True)
    assert "a step&#x27;s time" in page_as_html(page)
    assert "layout" in page_as_markdown(page)
    header, first, *_ = page_as_csv(job_rows_page(tuned, WORDS)).splitlines()
    cells = dict(zip(header.split(","), first.split(","), strict=True))
    assert cells["layout"] == tuned.answer.layout.label
    assert float(cells["mfu_ratio"]) == tuned.answer.speed.mfu_ratio


def test_a_run_without_a_deadline_draws_no_limit(tuned: TrainingPlan) -> None:
    assert math.isinf(tuned.deadline_s)
    assert 'class="limit"' not in job_page(tuned, WORDS).pictures[0].wide


def test_a_deadline_that_these_gpus_miss_says_how_many_meet_it() -> None:
    plan = plan_finetune("llama-3.1-8b", tokens="50M", gpus=["H100:8"], deadline="11min")
    assert plan.least_gpus is not None
    assert f"At least {plan.least_gpus} GPUs of any type on offer meet it." in job_page(plan, WORDS).headline


@pytest.mark.slow
def test_a_deadline_that_nothing_meets_says_so() -> None:
    plan = plan_finetune("llama-3.1-8b", tokens="50B", deadline="15min")
    assert plan.least_gpus is None
    unmet = "No number of GPUs meets it with 32 sequences a step (--batch)."
    assert job_page(plan, WORDS).headline.endswith(unmet)


@pytest.fixture(scope="module")
def on_spot() -> TrainingPlan:
    return plan_finetune("llama-3.1-8b", tokens="50M", deadline="72h", pricing=["spot"])


@pytest.mark.slow
def test_a_played_run_says_its_own_losses_and_no_other_count_of_them(on_spot: TrainingPlan) -> None:
    """Stops by the advisor's rate and its checkpoints are not those of the market that gives time and cost."""
    assert on_spot.answer.played is not None
    said = " ".join(screen(on_spot).split())
    assert "Cost and time as played" in said
    assert "A checkpoint of" in said
    assert "stops expected" not in said
    assert "one at the end" not in said


@pytest.mark.slow
def test_a_page_does_not_call_spot_dearer_beside_a_cheaper_spot_price(on_spot: TrainingPlan) -> None:
    """A price without a date is never the answer, and what is said of spot keeps it apart."""
    dear, cheap = on_spot.answer, on_spot.answer.model_copy(update={"usd": Figure(value=0.1, unit="USD")})
    steady = dear.model_copy(update={"price_kind": "on_demand", "played": None})
    plan = on_spot.model_copy(update={"deployments": [steady, dear], "undated_alternative": None})
    assert "Spot is not worth it: dearer." in screen(plan)
    both = " ".join(screen(plan.model_copy(update={"undated_alternative": cheap})).split())
    assert "Cheaper if still true" in both
    assert "Spot is not worth it" not in both
    assert "Spot at a price with a date is not worth it: dearer; the older price above would be cheaper." in both
