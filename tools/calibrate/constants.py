"""The step constants that a fit may move, a row each: what draws them, how far, and the stage that finds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Constant:
    """A step constant: prior, how far a fit may pull it from there, hard bounds, and what adds nothing to kernels.

    `neutral` None: only eras that have a prior for it have it at all.
    """

    name: str
    unit: str
    neutral: float | None
    prior: float
    spread: float
    low: float
    high: float


# sequence and mixing: medians of what the engines fit that several models were measured on
OF_STEPS = (
    Constant("decode_scale_ratio", "ratio", 1.0, 1.0, 0.1, 0.7, 2.0),
    Constant("step_overhead_s", "s", 0.0, 0.5e-3, 1.5e-3, 0.0, 20e-3),
    Constant("kernel_overhead_s", "s", 0.0, 0.0, 1e-6, -4e-6, 50e-6),
    Constant("reduction_overhead_s", "s", 0.0, 0.0, 5e-6, 0.0, 1e-3),
    Constant("sequence_overhead_s", "s", 0.0, 10e-6, 20e-6, 0.0, 5e-4),
    Constant("prefill_mixing_ratio", "ratio", 1.0, 1.15, 0.15, 0.3, 2.0),
    Constant("eager_kernel_s", "s", 0.0, 45e-6, 15e-6, 0.0, 2e-4),
    Constant("eager_int8_wo_ratio", "ratio", None, 1.0, 0.1, 0.5, 2.0),
    Constant("eager_int4_ratio", "ratio", None, 1.0, 0.1, 0.5, 2.0),
    Constant("eager_awq_ratio", "ratio", None, 1.0, 0.1, 0.5, 2.0),
)
OF_FIRST_TOKENS = (
    Constant("prefill_scale_ratio", "ratio", 1.0, 1.2, 0.05, 1.0, 3.0),  # below 1: faster than what was measured
    Constant("request_overhead_s", "s", 0.0, 5e-3, 1e-3, 0.0, 0.3),
    Constant("token_overhead_s", "s", 0.0, 6e-6, 1e-6, 0.0, 5e-5),
    Constant("first_token_steps", "count", 0.5, 2.5, 0.5, 0.5, 20.0),
    Constant("poll_wait_ratio", "ratio", 0.5, 0.5, 0.1, 0.0, 1.0),
    Constant("prefill_launch_ratio", "ratio", 1.0, 1.0, 0.15, 0.0, 10.0),
    Constant("rank_overhead_s", "s", 0.0, 0.0, 1e-3, 0.0, 50e-3),
)
CONSTANTS = (*OF_STEPS, *OF_FIRST_TOKENS)
NEUTRAL = {c.name: c.neutral for c in CONSTANTS if c.neutral is not None}
UNITS_OF_CONSTANTS = {c.name: c.unit for c in CONSTANTS}


def names_of(constants: Iterable[Constant]) -> tuple[str, ...]:
    """Their names."""
    return tuple(c.name for c in constants)
