"""Figures that stand in the text of documents, where no command prints them, are those of the tables."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from gpufleet.api.training import CAMPAIGN_GPU_HOURS
from gpufleet.api.training_estimates import MOST_TIMES_BATCH
from gpufleet.catalog.areas import area_words
from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.interruptions import load_interruptions
from gpufleet.catalog.listing import list_prices
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.offer_index import EVERYWHERE
from gpufleet.catalog.places import list_coverage
from gpufleet.catalog.query import OfferFilter
from gpufleet.catalog.training_runs import load_training_runs
from gpufleet.catalog.training_time import load_training_time
from gpufleet.domain.offer import PriceKind
from gpufleet.domain.training import NUMBER_FORMATS, OPTIMIZERS
from gpufleet.inputs.training_layout import SIZES
from gpufleet.optimize.training import MOST_SPOT_MACHINES, NEVER_S
from gpufleet.questions.training import FinetuneRequest, words_of_training
from gpufleet.units import HOUR, HOURS_PER_YEAR

REPOSITORY = Path(__file__).resolve().parents[2]
CATALOG = load_catalog()
COVERAGE = {(row.cloud, row.price_kind): row for row in list_coverage(CATALOG).rows}


def said(page: str) -> str:
    return " ".join((REPOSITORY / page).read_text(encoding="utf-8").split())


def number(page: str, pattern: str) -> tuple[float, ...]:
    match = re.search(pattern, said(page))
    assert match is not None, f"{page} no longer says {pattern!r}"
    return tuple(float(group.replace(",", "")) for group in match.groups())


def test_what_an_h100_costs() -> None:
    wanted = OfferFilter(accelerators={"H100-SXM"}, price_kinds={PriceKind.ON_DEMAND})
    prices = [row.price_per_gpu_usd_per_hour for row in list_prices(CATALOG, wanted).rows]
    low, high = number("docs/data.md", r"H100 on demand costs ([\d.]+) to ([\d.]+) USD an hour")
    assert (low, high) == (round(min(prices), 2), round(max(prices), 2))


def test_which_clouds_have_prices_where() -> None:
    text = said("README.md")
    assert "AWS is held for thirty regions and its local zones" in text
    assert len([r for r in COVERAGE["aws", "on_demand"].regions if r.count("-") == 2 and "gov" not in r]) >= 28
    assert "Azure has spot in one" in text
    assert COVERAGE["azure", "spot"].regions == ["eastus"]
    assert "OCI, Lambda, RunPod and most smaller clouds name no region" in text
    nowhere = {cloud for (cloud, _), row in COVERAGE.items() if row.regions == [EVERYWHERE]}
    assert {"oci", "lambda", "runpod"} < nowhere
    assert not nowhere & {"aws", "azure", "gcp", "nebius", "verda"}


def test_how_often_spot_machines_are_taken_away() -> None:
    table = load_interruptions()
    band, unknown = table.per_hour("10-15%"), table.per_hour(None)
    expected, high = number(
        "docs/batch.md", r"10-15 % a month is ([\d.]+) an hour where .*?, and ([\d.]+) where each ran"
    )
    assert (expected, high) == (pytest.approx(band.expected, rel=0.03), pytest.approx(band.high, rel=0.03))
    prior, times = number(
        "docs/batch.md", r"get a prior of ([\d.]+) an hour: .*? and (\d+) times AWS's band of 10-15 %"
    )
    assert (prior, times) == (
        pytest.approx(unknown.expected, rel=0.03),
        pytest.approx(unknown.expected / band.expected, rel=0.06),
    )
    [most] = number("docs/batch.md", r"from AWS's lowest band to ([\d.]+) an hour")
    assert most == pytest.approx(unknown.high, rel=0.03)
    wait = number("docs/batch.md", r"is available, ([\d.]+) h \(([\d.]+)-([\d.]+)\)")
    assert wait == pytest.approx(
        [table.wait_s.expected / HOUR, table.wait_s.low / HOUR, table.wait_s.high / HOUR], rel=0.01
    )


def test_the_members_of_the_union() -> None:
    assert number("docs/prices.md", r"`eu` is the (\d+) members") == (len(area_words(CATALOG)["eu"]),)


def test_up_to_which_version_engines_run_on_old_cards() -> None:
    until = {name: find_engine(name).dropped[0].until for name in ("vllm", "sglang")}
    assert until == {"vllm": "0.20", "sglang": "0.5"}
    assert "vLLM runs on V100 up to 0.19, SGLang on T4 up to 0.4" in said("docs/memory.md")


def test_the_day_of_undated_copies() -> None:
    first_seen = {source.first_seen for source in CATALOG.sources.values() if source.first_seen}
    assert {f"{day.day} {day:%B} {day.year}" for day in first_seen} == {
        "21 November 2026", "22 November 2026", "28 November 2026"
    }  # fmt: skip
    assert "first seen here, 21, 22 or 28 November 2026" in said("docs/data.md")


def test_what_training_assumes() -> None:
    page, time, runs, habits = "docs/training.md", load_training_time(), load_training_runs(), load_habits()
    per_year = math.exp(time.value("immaturity")) - 1
    assert number(page, r"a step takes ([\d.]+) % longer") == (round(per_year * 100),)
    assert "matures for two and a half years" in said(page)
    assert time.value("mature_years") == 2.5
    assert "does not know your software and takes half a year" in said(page)
    assert time.value("unknown_immaturity_years") == 0.5
    networks = number(page, r"([\d,]+) Gbit/s are assumed .*? 8 GPUs or more, (\d+) for .*? 4 GPUs .*? and (\d+) for")
    usual = (runs.network_switched_gbit_per_s, runs.network_several_gbit_per_s, runs.network_few_gbit_per_s)
    assert networks == tuple(each.value for each in usual)
    assert number(page, r"than (\d+) machines on spot at once") == (MOST_SPOT_MACHINES,)
    assert "might not end within ten years" in said(page)
    assert NEVER_S == 10 * HOURS_PER_YEAR * HOUR
    campaigns = number(page, r"from nothing of ([\d,]+) GPU-hours .*?: ([\d.]+) to ([\d.]+) times")
    assert campaigns == (CAMPAIGN_GPU_HOURS, runs.campaign_ratio.low, runs.campaign_ratio.high)
    tuned, trained = habits.fine_tuning_batch_tokens.value, habits.pretraining_batch_tokens.value
    assert "131k tokens in fine-tuning and 4M in pre-training (16M of the largest models)" in said(page)
    assert (tuned, trained, trained * MOST_TIMES_BATCH) == (2**17, 4 * 2**20, 16 * 2**20)


def test_every_format_optimizer_and_part_of_a_layout_of_training_is_named() -> None:
    words, page = words_of_training(FinetuneRequest), said("docs/training.md")
    for name in NUMBER_FORMATS:
        assert name in words["precision"].says
        assert f"`{name}`" in page
    for name in OPTIMIZERS:
        plain = name.removesuffix("-in-backward")
        assert plain in words["optimizer"].says
        assert f"`{plain}`" in page
    assert all(f"{part}=" in words["layout"].says for part in (*SIZES, "recompute", "sharding"))


def test_how_many_worked_examples_there_are() -> None:
    assert len(list((REPOSITORY / "examples").glob("[0-9]*.md"))) == 19
    for page in ("README.md", "docs/index.md", "docs/tutorial.md"):
        assert re.search(r"nineteen \[?(worked examples)|\[nineteen worked examples", said(page), re.IGNORECASE), page
