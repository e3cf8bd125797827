"""What a request that comes by chance (Poisson) meets: steps that run, prompts before it, tokens that are seen late.

The rules are those that the simulator plays. A request that finds nothing running is prefilled at once. Else it waits
for the step under way and joins the next one, with the other prompts that came: beside a decode step, which it waits
for too, or in a step of prompts alone. Where prompts fill steps, they queue.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.performance.queueing import gated_wait_s, mean_wait_s
from gpufleet.performance.serving import Lengths, Phases, by_length, prompt_service_s
from gpufleet.performance.shared_steps import step_rules
from gpufleet.performance.step import StepModel
from gpufleet.records import dataclass

MOST_BUSY_RATIO = 0.98
"""Load of the prompts' queue up to which waits are told apart."""
FEWEST = 1e-12


@dataclass(frozen=True, eq=False)
class Met:
    """What arrivals meet, [batch, candidate]; a column of batches where it depends on these alone.

    `running_ratio` of them find others running, and wait for `gate_steps` of `gate_s`. They wait `queue_s` for prompts,
    `queue_ratio` of them at all; their own takes `own_step_s` of the steps that it shares, where others run, beside its
    `service_s`, of which a host that launches it takes `launch_s` whatever its length; services vary by
    `squared_variation`. `prompt_load_ratio`: share of the time that prompts take. First tokens are seen
    `late_s` late on average, with a `late_variance`   [s^2]. A token takes `full_step_s` at most: a decode step and all
    the prompts that it has room for.
    """

    running_ratio: FloatArray
    gate_s: FloatArray
    gate_steps: FloatArray
    own_step_s: FloatArray
    service_s: FloatArray
    launch_s: FloatArray
    squared_variation: FloatArray
    prompt_load_ratio: FloatArray
    queue_s: FloatArray
    queue_ratio: FloatArray
    full_step_s: FloatArray
    late_s: FloatArray
    late_variance: FloatArray


def finds_others(batch: Floats) -> FloatArray:
    """Share of arrivals that find a sequence running, where `batch` run on average: 1 - exp(-B)   [1].

    >>> finds_others([0.0, 1.0]).round(3).tolist()
    [0.0, 0.632]
    """
    return np.asarray(-np.expm1(-np.asarray(batch, dtype=np.float64)))


def share_of_others(batch: Floats) -> FloatArray:
    """Mean of n / (n + 1) over the n others that an arrival finds: 1 - (1 - exp(-B)) / B   [1].

    >>> share_of_others([1.0, 100.0]).round(3).tolist()
    [0.368, 0.99]
    """
    mean = np.maximum(np.asarray(batch, dtype=np.float64), FEWEST)
    return np.asarray(np.maximum(1 - finds_others(mean) / mean, 0.0))


class Ahead(NamedTuple):
    """What is ahead of a request that finds others running: `gate_steps` of `gate_s` until its own step begins,
    `queue_s` for prompts, and `own_step_s` of its own step beside its service.
    """

    gate_s: FloatArray
    gate_steps: FloatArray
    queue_s: FloatArray
    own_step_s: FloatArray

    def where(self, chosen: BoolArray, other: Ahead) -> Ahead:
        """This where it is chosen, else the other."""
        return Ahead(*(np.where(chosen, mine, its) for mine, its in zip(self, other, strict=True)))


def ahead_of_apart(
    at: Phases, step_s: FloatArray, service_s: FloatArray, load: FloatArray, wait_s: FloatArray, variation: Floats
) -> Ahead:
    """Of a request whose prompt joins the next step of prompts alone, which comes before any decoding.

    gate = (1 - rho) t + rho (n + c^2) S, of which half is left; own = (n - 1) S   [s]
    n prompts share a step of n S; rho: share of the time that prompts take; c^2: `variation` of their services. What
    they would wait in a queue of single prompts, `wait_s`, counts as far as it is longer.
    """
    number = at.prompts.sharing
    gate_s = (1 - load) * step_s + load * (number + variation) * service_s
    return Ahead(gate_s, np.full_like(gate_s, 0.5), np.maximum(wait_s - gate_s / 2, 0.0), (number - 1) * service_s)


def met_by_arrivals(
    model: StepModel, at: Phases, step_s: FloatArray, batch: FloatArray, rate: FloatArray, lengths: Lengths,
    squared_variation: Floats,
) -> Met:  # fmt: skip
    """What requests at `rate` meet at a mean `batch`; `step_s`: a decode step as they find it.

    Prompts wait for each other's in the steps that they share (`gated_wait_s`), or, where a step has no room for more,
    in a queue of prompts that take n / room decode steps each beside their own service: M/G/1 and half a step.
    The longer of both counts. Prompts that wait for the host stand apart (`ahead_of_apart`).
    """
    rules, c = model.once(step_rules), model.candidates
    running, service_s = finds_others(batch), prompt_service_s(model, at)
    squared_variation = squared_variation * by_length(service_s, at.launch_extra_s) ** 2
    others_s, each_per_s = running * step_s, rate / c.num_groups
    beside = rules.own_steps * batch * c.verified_tokens / c.num_groups
    room = rules.room_for(lengths.input_tokens, lengths.output_tokens)
    room = rules.room_beside(room, beside, lengths.input_tokens)
    steps = lengths.input_tokens / np.maximum(room, 1.0)
    load = np.minimum(each_per_s * service_s * at.prompts.stalls, MOST_BUSY_RATIO)
    full_s = service_s + rules.own_steps * others_s * steps
    full_load = np.minimum(each_per_s * full_s, MOST_BUSY_RATIO)
    steps_s = gated_wait_s(load, others_s, 0.0)
    shared_s = gated_wait_s(load, 0.0, service_s, squared_variation)
    queued_s = others_s / 2 + mean_wait_s(full_load, full_s, squared_variation)
    own_step_s = rules.own_steps * step_s * np.maximum(steps, 1.0)
    ahead = Ahead(step_s / (1 - load), 0.5 + load, np.maximum(shared_s, queued_s - steps_s), own_step_s)
    if rules.waits_for_host.any():
        apart = ahead_of_apart(at, step_s, service_s, load, queued_s - others_s / 2, squared_variation)
        ahead = apart.where(rules.waits_for_host, ahead)
    stream_s = model.hardware.calibration.formulas.engine_steps.stream_s.value
    return Met(
        running_ratio=running,
        **ahead._asdict(),
        service_s=service_s,
        launch_s=at.launch_extra_s,
        squared_variation=squared_variation,
        prompt_load_ratio=load,
        queue_ratio=full_load,
        full_step_s=np.where(rules.own_steps > 0, step_s + service_s / np.maximum(steps, FEWEST), np.inf)
        / c.tokens_per_step,
        late_s=rules.late_steps * step_s * share_of_others(batch) + stream_s * batch,
        late_variance=stream_s**2 * batch,
    )
