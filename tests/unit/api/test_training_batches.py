"""Sequences of a step where nobody says how many."""

from __future__ import annotations

import pytest

from gpufleet.api import plan_finetune, plan_train
from gpufleet.api.training_estimates import trained_model, usual_step_tokens


@pytest.mark.parametrize("num_gpus", [3, 6, 7])
def test_a_stated_number_of_gpus_shares_the_batch(num_gpus: int) -> None:
    plan = plan_finetune("llama-3.2-1b", tokens="50M", gpus=[f"A100:{num_gpus}"], clouds=["gcp"])
    assert plan.is_feasible
    assert plan.global_batch % (num_gpus // (num_gpus & -num_gpus)) == 0


@pytest.mark.slow
def test_few_tokens_are_few_sequences() -> None:
    assert plan_finetune("llama-3.2-1b", tokens=20_000, sequence_tokens=4096).global_batch == 4


@pytest.mark.parametrize(("model", "tokens"), [("llama-3.1-8b", 4_194_304), ("llama-3.1-405b", 16_777_216)])
def test_the_largest_models_take_more_tokens_a_step(model: str, tokens: float) -> None:
    assert usual_step_tokens(trained_model(model), is_from_nothing=True) == tokens


def test_a_step_of_pretraining_is_shared_by_odd_machines() -> None:
    plan = plan_train("llama-3.2-1b", tokens="10B", gpus=["H100:24"])
    assert plan.is_feasible
    assert plan.global_batch % 24 == 0
