"""Loads that are computed together take what each takes alone."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.api.configured import configured
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.performance.foreseen import ForeseenSteps
from gpufleet.performance.step import StepLoad, StepModel

LOADS = [
    StepLoad(np.full(1, 16.0), 1100.0),
    StepLoad(np.full(1, 15.0), 1100.0, np.ones(1), 1000.0),
    StepLoad(np.zeros(1), 1.0, np.ones(1), 1000.0),
    StepLoad(np.array([[0.0], [3.0], [700.0]]), 5000.0),
]


def model(name: str, gpus: int) -> StepModel:
    arch, tables = shipped_architecture(name), load_catalog()
    parts = (gpus, None, 1, None, 1)
    candidates = configured(tables, arch, "H200", load_engine("vllm"), parts, None, None, None).candidates
    return StepModel.build(arch, candidates, calibration_of(tables))


@pytest.mark.parametrize(("name", "gpus"), [("llama-3.1-8b", 1), ("gemma-3-12b-text", 2), ("deepseek-v3", 8)])
def test_foreseen_loads_take_what_they_take_alone(name: str, gpus: int) -> None:
    alone = model(name, gpus)
    foreseen = ForeseenSteps.of(alone)
    foreseen.foresee(LOADS)
    assert len(foreseen.known) == len(LOADS)
    for load in LOADS:
        np.testing.assert_allclose(foreseen.seconds(load), alone.seconds(load), rtol=1e-12)
        expected = alone.terms(load)
        assert list(foreseen.terms(load)) == list(expected)
        for term, seconds in foreseen.terms(load).items():
            np.testing.assert_allclose(seconds, expected[term], rtol=1e-12)


def test_a_load_that_nobody_foresaw_is_computed_when_it_is_asked_for() -> None:
    alone = model("llama-3.1-8b", 1)
    foreseen = ForeseenSteps.of(alone)
    np.testing.assert_allclose(foreseen.seconds(LOADS[1]), alone.seconds(LOADS[1]), rtol=1e-12)
    assert foreseen.known == {}
