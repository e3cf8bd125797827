"""Estimates of many candidates over a grid of batches."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, TypeVar

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.records import dataclass

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class PromptTimes:
    """A class's prompt of one length, per candidate.

    `lone_s` to its first token on an idle engine, of which the host takes `host_s`; `service_ratio` of the mean
    prompt's service on a busy one. It lies `deviations` standard deviations of the class's lengths from their mean.
    """

    lone_s: FloatArray
    host_s: FloatArray
    service_ratio: Floats
    deviations: float = 0.0


@dataclass(frozen=True, eq=False)
class LoadCurves:
    """How each candidate behaves as its mean batch grows: rows are candidates, columns the shared `batch` grid.

    `requests_per_s` is the arrival rate that keeps that batch decoding. `running_ratio` of the arrivals, per column,
    find others running, and a decode step of `step_s`; they wait for `gate_steps` of `gate_s`, the step under way and
    what comes in it, `queue_s` for prompts and `room_s` for room, `queue_ratio` and `room_ratio` of them at all, and
    see first tokens `late_s` late (by `late_variance`, per column). Prompts take `prompt_load_ratio` of the time: each
    `prompt_service_s`, of which a host that launches it takes `prompt_launch_s` whatever its length, and `own_step_s`
    of the steps that it shares where others run. Where requests differ, `prompt_squared_variation` says how much the
    times of prompts do, and `prompts` has those of (class, statistic); `prompt` is the mean one. No token takes longer
    than `full_step_s`.
    """

    batch: FloatArray
    requests_per_s: FloatArray
    largest_batch: FloatArray
    step_s: FloatArray
    prompt_service_s: FloatArray
    prompt_launch_s: FloatArray
    gate_s: FloatArray
    gate_steps: FloatArray
    own_step_s: FloatArray
    prompt_load_ratio: FloatArray
    queue_s: FloatArray
    queue_ratio: FloatArray
    running_ratio: FloatArray
    full_step_s: FloatArray
    late_s: FloatArray
    late_variance: FloatArray
    room_s: FloatArray
    room_ratio: FloatArray
    prompt: PromptTimes
    prompt_squared_variation: Floats = 0.0
    prompts: Mapping[tuple[str, str], PromptTimes] = field(default_factory=dict)

    def once(self, figure: Callable[..., Found], *of: Hashable) -> Found:
        """What a function finds of these curves and whatever else it is asked of: several figures share it."""
        key = (figure, of)
        if key not in self._found:
            self._found[key] = figure(self, *of)
        found: Found = self._found[key]
        return found

    @cached_property
    def _found(self) -> dict[Hashable, Any]:
        return {}
