"""The neighbours of one configuration that are tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpufleet.api.configured import configured
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.workload import Workload
from gpufleet.optimize.estimate import EVERY_FIGURE, EstimateQuestion, Load
from gpufleet.optimize.faster import Alternative, Goal, SolvedAlternative, alternatives, fastest
from gpufleet.performance.serving import Client


def neighbours(model: str, tp: int, ep: int, load: Load) -> dict[str, Alternative]:
    """Those of one layout that are of another size, by name."""
    arch, profile = shipped_architecture(model), load_engine("vllm")
    parts = (tp, tp, 1, ep, 1)
    placed = configured(load_catalog(), arch, "H100", profile, parts, None, None, None).candidates
    question = EstimateQuestion(arch, placed, Workload(1000.0, 200.0, slo=EVERY_FIGURE), load, Client())
    return {a.name: a for a in alternatives(question) if a.kind == "size"}


@pytest.mark.parametrize(
    ("model", "tp", "ep", "twice", "half"),
    [
        ("qwen3-30b-a3b", 4, 4, "TP8/EP8", "TP2/EP2"),
        ("qwen3-30b-a3b", 4, 1, "TP8", "TP2"),
        ("qwen3-30b-a3b", 2, 2, "TP4/EP4", "TP1"),
        ("llama-3.1-8b", 2, 1, "TP4", "TP1"),
    ],
)
def test_twice_and_half_the_gpus_keep_experts_spread_as_they_are(
    model: str, tp: int, ep: int, twice: str, half: str
) -> None:
    found = neighbours(model, tp, ep, Load("closed_loop", 16.0))
    assert list(found) == [twice, f"two copies of {half}, half of the load each"]
    larger, smaller = (a.question for a in found.values())
    assert (larger.candidates.num_devices[0], smaller.candidates.num_devices[0]) == (2 * tp, tp // 2)
    assert (larger.load.amount, smaller.load.amount) == (16.0, 8.0)


@pytest.mark.parametrize(("scenario", "amount", "halves"), [("closed_loop", 1.0, 0), ("closed_loop", 2.0, 1)])
def test_one_client_is_not_shared_by_two_copies(scenario: str, amount: float, halves: int) -> None:
    found = neighbours("llama-3.1-8b", 2, 1, Load(scenario, amount))
    assert sum("two copies" in name for name in found) == halves


def test_few_of_a_kind_are_shown_and_the_most_work_per_gpu_at_the_end() -> None:
    """Two kinds of three, the greatest gains first; a gain of 2 % or less is none."""
    ratios = [("weights", 0.5), ("weights", 0.6), ("weights", 0.7), ("layout", 0.8), ("gpu", 0.9), ("cache", 0.99)]
    [some, *_] = neighbours("llama-3.1-8b", 2, 1, Load("closed_loop", 2.0)).values()
    tried = [
        SolvedAlternative(replace(some, kind=kind, name=str(tpot)), None, tpot, 1.0, 1.0)  # type: ignore[arg-type]
        for kind, tpot in ratios
    ]
    assert [s.tpot_ratio for s in fastest(tried, Goal.TPOT)] == [0.5, 0.6, 0.8, 0.9]
    busiest = replace(tried[-1], throughput_per_gpu_ratio=1.5)
    assert fastest([*tried[:2], busiest], Goal.TPOT) == [*tried[:2], busiest]


def test_any_rate_can_be_halved() -> None:
    found = neighbours("llama-3.1-8b", 2, 1, Load("open_loop", 0.5))
    [half] = [a for name, a in found.items() if "two copies" in name]
    assert half.question.load.amount == 0.25
