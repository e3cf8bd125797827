"""Estimates of many candidates over a grid of batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from gpufleet.domain.arrays import FloatArray
from gpufleet.records import dataclass


@dataclass(frozen=True)
class LoadCurves:
    """How each candidate behaves as its mean batch grows: rows are candidates, columns the shared `batch` grid.

    `requests_per_s` is the arrival rate that keeps that batch decoding; `tpot_s` the mean time per output token;
    `idle_ttft_s` the TTFT of a request that meets no other prompt, `prompt_service_s` the time given to one prompt.
    Where requests differ, `prompt_squared_variation` says how much their prompts do, and `beyond_mean_s` how much later
    than the mean prompt's the first token of (class, statistic) comes on an idle engine, per candidate.
    """

    batch: FloatArray
    idle_ttft_s: FloatArray
    prompt_service_s: FloatArray
    tpot_s: FloatArray
    requests_per_s: FloatArray
    largest_batch: FloatArray
    prompt_squared_variation: float = 0.0
    beyond_mean_s: Mapping[tuple[str, str], FloatArray] = field(default_factory=dict)
