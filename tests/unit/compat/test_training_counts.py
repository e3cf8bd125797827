"""How many GPUs a training takes: the fewest that hold it hold it, half of them do not, and more time takes fewer."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.api.training_estimates import trained_model
from gpufleet.catalog.load import load_catalog
from gpufleet.compat.rules_today.training_counts import TrainingCounts, seconds_for
from gpufleet.domain.training import ADAMW, BF16_MIXED, BF16_PURE, QLORA_BASE, Adapter, Method, Recipe
from gpufleet.units import DAY

FULL = Recipe(Method.FULL, BF16_MIXED, ADAMW, 4096)
LORA = Recipe(Method.LORA, BF16_PURE, ADAMW, 4096, Adapter(16))
QLORA = Recipe(Method.QLORA, BF16_PURE, ADAMW, 4096, Adapter(16), QLORA_BASE)


def counts(model: str, recipe: Recipe, gpu: str = "A100-SXM4-80GB", batch: int | None = None) -> TrainingCounts:
    return TrainingCounts(
        trained_model(model), recipe, load_catalog().accelerators[gpu], load_catalog(), most_micro_batch=batch
    )


@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-2-70b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("recipe", [FULL, LORA, QLORA], ids=lambda recipe: recipe.method.value)
def test_the_fewest_hold_it_and_half_of_them_do_not(model: str, recipe: Recipe) -> None:
    asked = counts(model, recipe)
    found = asked.fewest()
    assert found is not None
    assert found.memory.fits
    assert found.layout.num_gpus == found.num_gpus
    if found.num_gpus > 1:
        half = asked.memory(asked.layouts(found.num_gpus // 2))
        assert np.asarray(half.total.expected).min() > found.memory.device_bytes


def test_adapters_take_no_more_gpus_than_all_weights() -> None:
    found = [counts("llama-2-70b", recipe, "H100-SXM").fewest() for recipe in (FULL, LORA, QLORA)]
    assert [each and each.num_gpus for each in found] == [16, 2, 1]


def test_the_range_of_a_number_of_gpus_is_that_of_their_memory() -> None:
    figure = counts("llama-2-70b", FULL).fewest_figure()
    assert figure is not None
    assert (figure.low, figure.value, figure.high) == (16, 16, 32)
    assert figure.grade == "transferred"


def test_more_time_takes_no_more_gpus() -> None:
    asked, tokens = counts("llama-3.1-8b", FULL), 20e9
    slow, fast = asked.fewest(tokens, 30 * DAY), asked.fewest(tokens, 3 * DAY)
    assert slow is not None
    assert fast is not None
    assert slow.num_gpus < fast.num_gpus
    assert seconds_for(fast, tokens) <= 3 * DAY < seconds_for(slow, tokens)


def test_the_range_of_gpus_in_time_is_that_of_the_rate() -> None:
    figure = counts("llama-2-13b", LORA, "A10G").in_time_figure(10e9, 3 * DAY)
    assert figure is not None
    assert figure.low is not None
    assert figure.high is not None
    assert figure.low <= figure.value <= figure.high
    assert figure.low < figure.high


def test_no_time_at_all_is_kept_by_no_number_of_gpus() -> None:
    asked = counts("gpt2", Recipe(Method.FULL, BF16_MIXED, ADAMW, 1024))
    assert asked.fewest(1e15, 1.0) is None
    assert asked.in_time_figure(1e15, 1.0) is None


@pytest.mark.parametrize("gpu", ["T4", "V100-SXM2-16GB"])
def test_gpus_without_the_arithmetic_train_nothing(gpu: str) -> None:
    known = load_catalog().accelerators
    asked = counts("gpt2", Recipe(Method.FULL, BF16_MIXED, ADAMW, 1024), next(n for n in known if n.startswith(gpu)))
    assert not asked.runs
    assert (asked.fewest(), asked.fewest_figure(), asked.fastest(1)) == (None, None, None)


def test_a_micro_batch_is_no_larger_than_was_said() -> None:
    found = counts("llama-3.1-8b", LORA, batch=2).fewest()
    assert found is not None
    assert found.layout.micro_batch <= 2


@pytest.mark.parametrize("num_gpus", [3, 5, 6, 7])
def test_every_number_of_gpus_shares_the_batch(num_gpus: int) -> None:
    asked = counts("llama-3.1-8b", LORA)
    assert asked.global_batch(num_gpus) % num_gpus == 0
    assert asked.fastest(num_gpus) is not None
