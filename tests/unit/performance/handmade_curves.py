"""Load curves that tests make by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpufleet.domain.estimate import LoadCurves, PromptTimes
from gpufleet.performance.arrivals import finds_others
from gpufleet.performance.load_curves import batch_grid


def curves_of(batch: np.ndarray, requests_per_s: np.ndarray, step_s: np.ndarray, **figures: Any) -> LoadCurves:
    """Curves [candidate, batch] whose first tokens take 50 ms and a decode step, and wait for nothing unless said."""
    nothing, rows = np.zeros_like(step_s), len(step_s)
    load = figures.get("prompt_load_ratio", nothing)
    quiet: dict[str, Any] = {
        "largest_batch": np.full(rows, np.inf),
        "prompt_service_s": nothing,
        "prompt_launch_s": nothing,
        "gate_s": step_s / (1 - load),
        "gate_steps": 0.5 + load,
        "own_step_s": step_s,
        "prompt_load_ratio": nothing,
        "queue_s": nothing,
        "queue_ratio": nothing,
        "running_ratio": np.ones_like(batch),
        "full_step_s": np.full_like(step_s, np.inf),
        "late_s": nothing,
        "late_variance": np.zeros_like(batch),
        "room_s": np.zeros_like(requests_per_s),
        "room_ratio": np.zeros_like(requests_per_s),
        "prompt": PromptTimes(np.full(rows, 0.05), np.full(rows, 0.05), 1.0),
    }
    return LoadCurves(batch=batch, requests_per_s=requests_per_s, step_s=step_s, **{**quiet, **figures})


def linear_curves(step_s: float = 0.01, per_sequence_s: float = 1e-4, largest: float = 256.0) -> LoadCurves:
    """One replica whose tokens take `step_s` and a little more for each sequence; prompts of 5 ms, answers of 100."""
    batch = batch_grid()
    step = step_s + per_sequence_s * (batch[None, :] + 1)
    rate, service = batch / (100 * step + 0.005 * batch), np.full_like(step, 0.005)
    load = rate * service
    return curves_of(
        batch, rate, step, largest_batch=np.array([largest]), running_ratio=finds_others(batch),
        prompt_service_s=service, prompt_load_ratio=load, queue_s=load / (1 - load) * service / 2, queue_ratio=load,
    )  # fmt: skip
