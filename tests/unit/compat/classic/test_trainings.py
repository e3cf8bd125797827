"""Training in the classic tool: a setup holds it or names the GPUs that would, and what holds it has a speed."""

from __future__ import annotations

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.compat.classic.analyzer import AWSGPUMigrationAnalyzer
from gpufleet.compat.classic.trainings import TrainedModel, fastest_on, fewest_on
from gpufleet.domain.training import Method

TRAININGS = ("training_large_p4d", "fine_tuning_medium_p5", "research_training_g6e", "my_custom_workload")


@pytest.mark.slow
@pytest.mark.parametrize("workload", TRAININGS)
def test_a_setup_that_does_not_fit_names_the_number_that_would(workload: str) -> None:
    report = AWSGPUMigrationAnalyzer().report_of(workload)
    refuted = {reason for o in report.data["options"] for reason in o["refuted_because_today"]}
    assert "Fewest of today's GPUs that hold it: all weights on " in " ".join(report.split())
    assert any("of all weights takes " in reason for reason in refuted)


@pytest.mark.slow
def test_the_best_that_stands_holds_it_and_says_how_fast() -> None:
    report = AWSGPUMigrationAnalyzer().report_of("training_large_p4d")
    best = report.data["best_today"]
    assert not best["refuted_today"]
    text = " ".join(report.split())
    assert "tokens/s, " in text.partition("Not refuted")[0]


@pytest.mark.slow
def test_a_training_is_compared_by_tokens_a_second_where_both_setups_fit() -> None:
    report = AWSGPUMigrationAnalyzer().generate_migration_report("P5", 8, "training", "small", goal="performance")
    assert "today's tokens/s" in " ".join(report.split())


def test_what_the_fewest_hold_half_of_them_are_not_searched_for() -> None:
    model = TrainedModel(shipped_architecture("llama-2-70b"), "fp16", True)
    gpu = load_catalog().accelerators["A100-SXM4-80GB"].name
    least = fewest_on(model, gpu, Method.FULL)
    assert least is not None
    assert fastest_on(model, gpu, least.num_gpus // 2 - 1) is None
    assert fastest_on(model, gpu, least.num_gpus) == least
