"""A report has one number of GPUs that a training takes, whichever line says it."""

from __future__ import annotations

import pytest

from gpufleet.catalog.models import shipped_architecture
from gpufleet.compat.classic.options import GPU_COUNTS
from gpufleet.compat.classic.trainings import TrainedModel, fastest_on, fewest_on
from gpufleet.domain.training import Method


@pytest.mark.parametrize(("model", "gpu"), [("falcon-180b", "H100-SXM"), ("llama-30b", "L40S")])
def test_no_option_with_fewer_gpus_than_the_fewest_holds_a_training(model: str, gpu: str) -> None:
    trained = TrainedModel(shipped_architecture(model), "fp16", is_from_nothing=False)
    fewest = fewest_on(trained, gpu, Method.FULL)
    assert fewest is not None
    holding = [n for n in GPU_COUNTS if 2 * n > fewest.num_gpus and fastest_on(trained, gpu, n)]
    assert min(holding) == fewest.num_gpus
