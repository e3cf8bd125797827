"""Steps of shipped models by the kernel curves that ship, on one layout of a real card."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates, Palette
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision_labels import kv_precision
from gpufleet.optimize.links import usual_link
from gpufleet.performance.step import StepModel

ACCELERATORS = tuple(load_catalog().accelerators.values())


@lru_cache(maxsize=1)
def calibration() -> Calibration:
    """The curves of every card."""
    return load_calibration(ACCELERATORS)


def shipped_step_model(name: str, profile: EngineProfile, gpu: str, tp: int) -> StepModel:
    """A model in the formats of its checkpoint under an engine."""
    arch, zero = shipped_architecture(name), np.zeros(1, dtype=np.int64)
    row = [a.name for a in ACCELERATORS].index(gpu)
    is_pcie, rate = usual_link(ACCELERATORS[row], Layout(tp).num_devices)
    candidates = Candidates(
        Palette(ACCELERATORS, (arch.weights,), (kv_precision(arch.weights, profile),), (profile,)),
        accelerator=zero + row,
        weight_format=zero,
        kv_precision=zero,
        engine=zero,
        tp=zero + tp,
        pp=zero + 1,
        ep=zero + 1,
        attention_dp=zero + 1,
        link_is_pcie=np.array([is_pcie]),
        through_host=np.array([False]),
        link_bytes_per_s=np.array([rate]),
    )
    return StepModel.build(arch, candidates, calibration())
