"""What one replica of a model that writes sustains: which hold their requests, and what they get done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import BoolArray, FloatArray
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.estimate import LoadCurves
from gpufleet.domain.instance import Instance
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.optimize.copies.work import Hosts, WorkRates
from gpufleet.optimize.placement import is_host, once_per_host
from gpufleet.optimize.replicas import (
    NO_CURVE,
    MemoryModel,
    Rejections,
    Room,
    describe,
    keep_fitting,
)
from gpufleet.performance.queueing import normal_quantile
from gpufleet.performance.request_mix import RequestMix
from gpufleet.performance.serving import Lengths
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import time_bounds

FULL_QUANTILE = 0.95
LONGEST = Reason("longest_too_long")


def keep_runnable(
    arch: Architecture, mix: RequestMix, every: Candidates, calibration: Calibration, rejections: Rejections
) -> tuple[Room, BoolArray]:
    """The memory of every candidate, and which hold their requests and have kernels."""
    memory = MemoryModel.build(arch, every)
    space = mixed_room(memory, mix)
    kept = keep_fitting(every, space, rejections)
    kept &= keep_holding_longest(memory, mix, kept, rejections)
    kept &= keep_supported(StepModel.build(arch, every, calibration), kept, rejections)
    return space, kept


def mixed_room(memory: MemoryModel, mix: RequestMix) -> Room:
    """Room for sequences of the size that is held on average, less what a shared prefix takes once."""
    space = memory.room(mix.lengths, mix.held_tokens)
    if not mix.shared_tokens:
        return space
    once = memory.candidates.attention_dp * mix.shared_tokens / mix.held_tokens
    return replace(space, largest_batch=np.maximum(space.largest_batch - once, 0.0))


def holds_longest(memory: MemoryModel, mix: RequestMix) -> BoolArray:
    """Candidates that hold the longest request too; where requests differ, the mean alone does not say so."""
    if mix.longest_tokens <= mix.held_tokens:
        return all_had(memory.candidates)
    return np.asarray(memory.room(mix.lengths, mix.longest_tokens).largest_batch >= 1)


def keep_holding_longest(memory: MemoryModel, mix: RequestMix, fits: BoolArray, rejections: Rejections) -> BoolArray:
    """The same; of those that fit, the others are counted."""
    holds = holds_longest(memory, mix)
    for row in np.flatnonzero(fits & ~holds):
        miss = Reason.of("needs_tokens", longest_tokens=mix.longest_tokens)
        rejections.add(Rejection(LONGEST, describe(memory.candidates, int(row)), miss))
    return holds


def all_had(candidates: Candidates) -> BoolArray:
    """Every candidate: machines that somebody has need no price."""
    return np.ones(len(candidates), dtype=np.bool_)


def keep_supported(model: StepModel, fits: BoolArray, rejections: Rejections) -> BoolArray:
    """Candidates whose kernels are known; of those that fit, the others are counted."""
    supported = model.is_supported
    for row in np.flatnonzero(fits & ~supported):
        rejections.add(Rejection(NO_CURVE, describe(model.candidates, int(row))))
    return supported


def generation_rates(curves: LoadCurves, held_squared_variation: float) -> WorkRates:
    """What a full queue gets done at each batch that memory holds; one sequence at least.

    A batch fits where B + z sqrt(B c^2) <= largest: sequences differ by c^2 in what they hold, z at 95 %.
    """
    spread = normal_quantile(FULL_QUANTILE) * np.sqrt(curves.batch * held_squared_variation)
    fits = (curves.batch + spread)[None, :] <= curves.largest_batch[:, None]
    return WorkRates(curves.batch, np.where(fits, curves.requests_per_s, 0.0))


def high_ratio_of(model: StepModel, rates: WorkRates, lengths: Lengths) -> FloatArray:
    """How many times as long as expected each candidate works at the high end of its range, at its best batch."""
    return np.asarray(time_bounds(model, rates.best_batch, lengths)["tpot"].high_ratio)


def hosts_of(instances: Iterable[Instance], candidates: Candidates, rates: WorkRates, slow: FloatArray) -> Hosts:
    """Which candidates that get anything done each machine type can host."""
    works = rates.best_per_s > 0
    hosted = once_per_host(tuple(instances), lambda i: np.flatnonzero(is_host(i, candidates) & works))
    machines = {(i.cloud, i.name): i for i, _ in hosted}
    rows = {(i.cloud, i.name): found for i, found in hosted}
    return Hosts(machines, rows, np.asarray(candidates.num_devices), slow)
