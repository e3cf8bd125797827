"""Each worked example teaches one thing: here is that thing, checked on the commands that its page shows."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Planned
from tools.docs_examples import (
    ALONE,
    REPOSITORY,
    WORKED,
    Example,
    answered_here,
    environment_with,
    examples_of,
    installed_in,
    problem_of,
)

from gpufleet.units import GIB

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def answers(planned_once: Planned, tmp_path: Path) -> Iterator[Any]:
    """The answers to all commands of a page, as JSON; each of them prints what the page shows."""

    def of_page(number: int) -> list[dict[str, Any]]:
        [page] = EXAMPLES.glob(f"{number:02}-*.md")
        return [answer(example) for example in examples_of(page)]

    def answer(example: Example) -> dict[str, Any]:
        assert problem_of(example) is None
        alone = ALONE.fullmatch(example.command)
        assert alone is not None
        _, out, _ = answered_here(f"{alone['command']} -o json", environment_with(installed_in(tmp_path)), REPOSITORY)
        told: dict[str, Any] = json.loads(out or "{}")
        return told

    yield of_page
    planned_once.clear()


def best(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = plan["deployments"][0]
    return found


def usd_per_token(row: dict[str, Any], estimate: dict[str, Any]) -> float:
    """What a token costs on a GPU that is never idle."""
    return float(row["price_per_gpu_usd_per_hour"] / estimate["output_tokens_per_s"]["value"])


def test_every_page_is_asked_here() -> None:
    numbers = [name.split("_")[1] for name, test in globals().items() if name.startswith("test_") and callable(test)]
    assert [page.name for page in WORKED if page.name[:2] not in numbers] == []


def test_there_are_nineteen_and_the_index_leads_to_each() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [page.name[:2] for page in WORKED] == [f"{n:02}" for n in range(1, 20)]
    assert [page.name for page in WORKED if f"]({page.name})" not in index] == []


@pytest.mark.parametrize("page", WORKED, ids=lambda page: page.stem)
def test_a_page_shows_output_and_ends_with_what_it_teaches(page: Path) -> None:
    assert all(example.shown.strip() for example in examples_of(page))
    assert page.read_text(encoding="utf-8").splitlines()[-1].startswith("**Learn:**")


def test_01_the_cheapest_card_writes_fewer_tokens_and_dearer_ones_at_full_load(answers: Any) -> None:
    plan, cheap, fast, busy = answers(1)
    assert best(plan)["gpu"] == cheap["gpu"]
    assert fast["output_tokens_per_s"]["value"] > 2 * cheap["output_tokens_per_s"]["value"]
    assert fast["gpu"] == best(busy)["gpu"]
    assert fast["gpu"] != cheap["gpu"]
    assert best(plan)["price_per_gpu_usd_per_hour"] < best(busy)["price_per_gpu_usd_per_hour"]
    assert usd_per_token(best(busy), fast) < usd_per_token(best(plan), cheap)


def test_02_twice_the_gpus_shorten_a_prompt_on_nvlink_and_hardly_on_pcie(answers: Any) -> None:
    pcie4, pcie8, nvlink4, nvlink8, refused, served = answers(2)
    gain = {name: four["ttft_s"]["value"] / eight["ttft_s"]["value"]
            for name, four, eight in (("pcie", pcie4, pcie8), ("nvlink", nvlink4, nvlink8))}  # fmt: skip
    assert gain["pcie"] < 1.25 < 1.4 < gain["nvlink"]
    assert pcie8["tpot_s"]["value"] < 0.75 * pcie4["tpot_s"]["value"]
    assert refused["deployments"] == []
    assert served["deployments"]


def test_03_memory_for_keys_and_values_decides(answers: Any) -> None:
    short, long, plan, halved, doubled = answers(3)
    users = [result["users"]["value"] for result in (short, long, halved, doubled)]
    assert users[0] > 5 * users[1]
    assert min(users[2:]) > users[1]
    assert best(plan)["binding_limit"] == "KV room"


def test_04_the_first_token_decides_alone(answers: Any) -> None:
    strict, relaxed, both = answers(4)
    assert best(strict)["binding_limit"] == "ttft.p95"
    assert best(relaxed)["usd_per_hour"] < 0.6 * best(strict)["usd_per_hour"]
    assert best(both)["usd_per_hour"] == best(strict)["usd_per_hour"]


def test_05_an_eighth_of_the_card_holds_the_model_and_costs_less_by_the_hour(answers: Any) -> None:
    fit, prices, whole_cards, with_fractions = answers(5)
    eighth, whole = (
        next(row for row in prices["rows"] if row["instance"] == name) for name in ("g6f.large", "g6.xlarge")
    )
    assert eighth["gpu_count"] == 0.125
    assert fit["total_bytes"]["value"] < fit["device_bytes"] / 8
    assert eighth["price_per_instance_usd_per_hour"] < 0.3 * whole["price_per_instance_usd_per_hour"]
    assert eighth["price_per_gpu_usd_per_hour"] > whole["price_per_gpu_usd_per_hour"]
    assert best(with_fractions)["instance"] == "g6f.large"
    assert best(with_fractions)["usd_per_hour"] < best(whole_cards)["usd_per_hour"]


def test_06_three_years_beat_spot_and_one_does_not(answers: Any) -> None:
    shipped, three_years, one_year = answers(6)
    assert [best(plan)["price_kind"] for plan in (shipped, three_years, one_year)] == ["spot", "commit_3y", "spot"]


def test_07_with_a_quota_two_types_cost_less_than_one(answers: Any) -> None:
    free, bound, short = answers(7)
    scarce, other = (part["deployment"] for part in bound["mix"]["parts"])
    assert best(free)["gpu"] == scarce["gpu"]
    assert best(free)["instance_count"] > 2 >= scarce["instance_count"], "two can be had"
    assert scarce["gpu"] not in {other["gpu"], best(bound)["gpu"]}
    assert bound["mix"]["usd_per_hour"] < best(bound)["usd_per_hour"]
    assert best(free)["usd_per_hour"] < best(bound)["usd_per_hour"]
    rates = [part["requests_per_s"] for part in bound["mix"]["parts"]]
    assert sum(rates) == pytest.approx(free["rate_requests_per_s"])
    assert short["deployments"] == []
    assert sum(part["share_ratio"] for part in short["mix"]["parts"]) == pytest.approx(1.0)
    assert [part["can_be_had"] for part in short["mix"]["parts"]] == [2, 8]


def test_08_longer_prompts_want_other_gpus(answers: Any) -> None:
    plans = answers(8)
    assert len({best(plan)["gpu"] for plan in plans}) > 1
    cheap = best(plans[0])["gpu"]
    assert cheap not in {row["gpu"] for row in plans[-1]["deployments"]}


def test_09_an_embedding_needs_an_old_card_until_compute_binds(answers: Any) -> None:
    small, large, job, service, few, many = answers(9)
    assert service["deployments"][0]["usd_per_million_inputs"] > 2 * best(job)["usd_per_million_inputs"]["value"]
    assert large["inputs_per_s"]["value"] > 8 * small["inputs_per_s"]["value"]
    assert large["usd_per_million_inputs"]["value"] < small["usd_per_million_inputs"]["value"]
    assert few["output_tokens"] == 1
    assert best(few)["instance_count"] == 1
    assert best(many)["binding_limit"] in ("load", "ttft.p95"), "compute, not room for users"
    assert many["rate_requests_per_s"] == 100 * few["rate_requests_per_s"]


def test_10_a_plan_for_the_mean_does_not_carry_the_burst(answers: Any) -> None:
    whole, mean, repaired = answers(10)
    with (EXAMPLES / "bursts.csv").open(encoding="utf-8") as file:
        arrivals = [float(row["timestamp_s"]) for row in csv.DictReader(file)]
    by_minute = Counter(int(arrival // 60) for arrival in arrivals)
    busiest = max(by_minute.values()) / 60
    assert whole["busiest_requests_per_s"] == pytest.approx(busiest, rel=0.2)
    assert best(mean)["requests_per_s_capacity"]["high"] < busiest < best(whole)["requests_per_s_capacity"]["value"]
    assert best(whole)["usd_per_hour"] >= best(repaired)["usd_per_hour"] > best(mean)["usd_per_hour"]
    assert repaired["is_feasible"]
    assert repaired["verification"]["deployments"][1]["arrivals"] == "trace"
    assert repaired["verification"]["deployments"][1]["is_kept"]


def held(figure: dict[str, Any], published: float) -> bool:
    """Whether a published figure lies in a range."""
    return bool(figure["low"] <= published <= figure["high"])


def test_11_a_card_of_24_gb_fine_tunes_an_8b(answers: Any) -> None:
    fitted, plan = answers(11)
    memory = fitted["estimate"]["memory"]
    assert memory["verdict"] == "fits"
    assert memory["peak_bytes"]["value"] / GIB == pytest.approx(16.2, rel=0.15)  # torchtune, README
    assert fitted["estimate"]["speed"]["tokens_per_s_per_gpu"]["value"] == pytest.approx(3083, rel=0.25)
    assert best(plan)["usd"]["value"] < 5


def test_12_a_t4_holds_an_8b_in_4_bits_and_refuses_bf16(answers: Any) -> None:
    refused, fitted = answers(12)
    assert refused == {}
    assert fitted["estimate"]["memory"]["verdict"] == "fits"


def test_13_a_70b_in_mixed_precision_does_not_fit_one_node_and_the_smallest_change_is_named(answers: Any) -> None:
    [fitted] = answers(13)
    assert fitted["estimate"]["memory"]["verdict"] == "does not fit"
    assert fitted["changes"][0]["flag"] == "--precision bf16"
    states = {term["name"]: term["value"] for term in fitted["estimate"]["memory"]["terms"]}
    assert states["optimizer"] > fitted["estimate"]["memory"]["device_bytes"]


def test_14_the_seeds_hours_for_100m_tokens_were_many_times_too_long(answers: Any) -> None:
    [plan] = answers(14)
    assert best(plan)["work_s"] * 9 < 46 * 3600


def test_15_a_70b_on_2t_tokens_takes_somewhat_less_than_the_published_campaign(answers: Any) -> None:
    counted, by_deadline = answers(15)
    hours = best(counted)["gpu_hours"]["value"]
    assert 1.0 < 1_720_320 / hours < 1.4  # Llama 2 70B, arXiv:2307.09288, table 2
    assert best(by_deadline)["finish_s"]["value"] < by_deadline["deadline_s"]


def test_16_a_mixture_of_experts_runs_near_what_was_published(answers: Any) -> None:
    [plan] = answers(16)
    assert held(best(plan)["speed"]["tokens_per_s_per_gpu"], 8901)  # Megatron-Bridge, release 26.04
    assert best(plan)["speed"]["mfu_ratio"] < 0.3


def regions_of(plan: dict[str, Any]) -> set[str]:
    return {f"{m['cloud']} {m['region']}" for m in plan["machines"]}


def test_17_who_has_to_stay_is_served_there_and_staying_costs_more(answers: Any) -> None:
    free, stays, all_there = answers(17)
    assert free["usd_per_hour"] < stays["usd_per_hour"] <= all_there["usd_per_hour"]
    served = {a["users"]: stays["copies"][a["copies"]]["deployment"]["region"] for a in stays["at_users"]}
    assert not served[0].startswith("us-")
    assert served[1].startswith("us-")


def test_18_a_short_limit_takes_machines_on_both_sides_at_twenty_times_the_price(answers: Any) -> None:
    long, short = answers(18)
    assert all(region.startswith("aws us-") for region in regions_of(long))
    is_american = ["us" in region.split()[1] for region in regions_of(short)]
    assert any(is_american)
    assert not all(is_american)
    assert short["usd_per_hour"] > 18 * long["usd_per_hour"]
    assert all(r["usd_per_hour_alone"] is None for r in short["regions"])


def test_19_a_clean_grid_is_a_place_and_a_budget_holds(answers: Any) -> None:
    clean, budget = answers(19)
    assert all(r["grid"]["value"] <= 30 for r in clean["regions"])
    assert sum(e["g_co2e_per_hour"]["high"] for e in budget["emitted"]) <= 100
