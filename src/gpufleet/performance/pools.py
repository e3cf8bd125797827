"""Prefill and decode apart: what P copies that only prefill and D copies that only decode deliver, in closed form.

A prompt waits for a prefill copy, is prefilled there, hands its keys and values over, and decodes on a decode copy,
whose steps carry no prompts. Rates match: no more requests pass than either pool carries.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import FloatArray, Floats
from gpufleet.memory.kv import kv_bytes_per_sequence_per_device, state_bytes_per_sequence_per_device
from gpufleet.performance.queueing import loop_wait_s, mean_wait_s, poisson_percentile, wait_tail_s
from gpufleet.performance.serving import Lengths, decode_step_s, prefill_step_s, prompts_load, request_host_s
from gpufleet.performance.shared_steps import kernels_in_pieces_s
from gpufleet.performance.step import StepModel
from gpufleet.records import dataclass

PREFILL_POINTS, DECODE_POINTS, HALVINGS = 13, 40, 60


@dataclass(frozen=True, eq=False)
class Pools:
    """Copies that prefill and copies that decode; row i of both models is one pair of pools.

    A prefill copy takes `most_prompts` into a step, a decode copy holds `largest_batch` sequences; `handover_s` is what
    a prompt's keys and values take from one to the other.
    """

    prefill: StepModel
    decode: StepModel
    prefill_copies: Floats
    decode_copies: Floats
    most_prompts: FloatArray
    largest_batch: FloatArray
    handover_s: Floats


@dataclass(frozen=True)
class Passage:
    """What requests meet at a rate, on average: each part of the time to first token, then every step.

    `prompts` are prefilled together by a copy, `batch` sequences decode together on one.
    """

    requests_per_s: FloatArray
    host_s: FloatArray
    wait_s: FloatArray
    prefill_s: FloatArray
    handover_s: Floats
    first_step_s: FloatArray
    tpot_s: FloatArray
    prompts: FloatArray
    batch: FloatArray

    @property
    def ttft_s(self) -> FloatArray:
        """Host, wait, prefill, hand-over and the first steps of the decode pool."""
        return np.asarray(self.host_s + self.wait_s + self.prefill_s + self.handover_s + self.first_step_s)


@dataclass(frozen=True, eq=False)
class PoolCurves:
    """Steps of both pools under rising load, a row a load and a column a pair: rates are of one copy.

    Prompts differ by `prompt_squared_variation` in length; `prompt_work_ratio` is their mean work over that of the
    prompt of mean length.
    """

    pools: Pools
    lengths: Lengths
    prompt_squared_variation: float = 0.0
    prompt_work_ratio: Floats = 1.0

    @cached_property
    def prompts(self) -> FloatArray:
        """Prompts of a prefill step, from one to the most, each times as many as the one before."""
        return geometric(self.pools.most_prompts, PREFILL_POINTS)

    @cached_property
    def prefill_s(self) -> FloatArray:
        """Seconds of a step of a prefill copy that always has the next one at hand."""
        steps_s = busy_prefill_s(self.pools.prefill, self.prompts, self.lengths) * self.prompt_work_ratio
        return np.asarray(np.maximum.accumulate(steps_s))

    @cached_property
    def lone_beyond_busy_s(self) -> FloatArray:
        """What a prompt that finds a copy idle takes longer than one whose step was at hand."""
        lone_s = prefill_step_s(self.pools.prefill, self.prompts[0], self.lengths) * self.prompt_work_ratio
        return np.asarray(np.maximum(lone_s - self.prefill_s[0], 0.0))

    @cached_property
    def prefill_per_s(self) -> FloatArray:
        """Prompts that a prefill copy gets done in steps of so many."""
        return np.asarray(np.maximum.accumulate(self.prompts / self.prefill_s))

    @cached_property
    def batch(self) -> FloatArray:
        """Sequences of a decode copy: none, then from one to the most."""
        held = geometric(self.pools.largest_batch, DECODE_POINTS)
        return np.concatenate([np.zeros_like(held[:1]), held])

    @cached_property
    def step_s(self) -> FloatArray:
        """Seconds of a decode step; one sequence at least decodes in it."""
        steps_s = decode_step_s(self.pools.decode, np.maximum(self.batch, 1.0), self.lengths)
        return np.asarray(np.maximum.accumulate(steps_s))

    @cached_property
    def decode_per_s(self) -> FloatArray:
        """Requests that a decode copy gets done at each batch: B / (output_tokens t(B))."""
        return np.asarray(np.maximum.accumulate(self.batch / (self.lengths.output_tokens * self.step_s)))

    @property
    def prefill_pool_per_s(self) -> FloatArray:
        """The most requests per second that the prefill pool carries."""
        return np.asarray(self.pools.prefill_copies * self.prefill_per_s[-1])

    @property
    def decode_pool_per_s(self) -> FloatArray:
        """The most requests per second that the decode pool carries within its room."""
        return np.asarray(self.pools.decode_copies * self.decode_per_s[-1])

    @property
    def carried_per_s(self) -> FloatArray:
        """The most requests per second that pass both pools."""
        return np.minimum(self.prefill_pool_per_s, self.decode_pool_per_s)

    @property
    def pooled_service_s(self) -> FloatArray:
        """Time between two prompts that leave a pool which is full of them."""
        return 1.0 / self.prefill_pool_per_s


def busy_prefill_s(model: StepModel, prompts: FloatArray, lengths: Lengths) -> FloatArray:
    """A step of prompts in an engine that has others at hand: min(phi t_kernels, a lone step)   [s].

    phi: `prefill_mixing_ratio`, what prompts of a busy engine cost; the host prepares the next step while the device
    runs this one.
    """
    kernels_s = kernels_in_pieces_s(model, prompts_load(prompts, lengths))
    busy_s = model.candidates.engine_constant("prefill_mixing_ratio") * kernels_s
    return np.minimum(busy_s, prefill_step_s(model, prompts, lengths))


def geometric(most: FloatArray, points: int) -> FloatArray:
    """Numbers from 1 to `most`, each times as many as the one before: [point, pair].

    >>> geometric(np.array([1.0, 16.0]), 3).tolist()
    [[1.0, 1.0], [1.0, 4.0], [1.0, 16.0]]
    """
    return np.asarray(np.maximum(most, 1.0) ** (np.arange(points) / (points - 1))[:, None])


def at_rate(rates: FloatArray, figure: FloatArray, rate: FloatArray) -> FloatArray:
    """A figure of each pair at its own rate, between two rows of rising rates; outside, that of the nearest row.

    >>> at_rate(np.array([[0.0], [2.0]]), np.array([[10.0], [20.0]]), np.array([0.5])).tolist()
    [12.5]
    """
    below = np.clip(np.sum(rates <= rate, axis=0) - 1, 0, len(rates) - 2)
    columns = np.arange(rates.shape[1])
    start, end = rates[below, columns], rates[below + 1, columns]
    share = np.clip((rate - start) / np.where(end > start, end - start, 1.0), 0.0, 1.0)
    return np.asarray(figure[below, columns] * (1 - share) + figure[below + 1, columns] * share)


def handed_over_bytes(prefill: StepModel, decode: StepModel, input_tokens: Floats) -> FloatArray:
    """Bytes of a prompt's keys, values and states that the busiest pair of devices hands over.

    max over both pools of `kv_bytes_per_sequence_per_device`   [bytes]   The GPUs of a group send and receive at once.
    """
    return np.maximum(cache_bytes(prefill, input_tokens), cache_bytes(decode, input_tokens))


def cache_bytes(model: StepModel, input_tokens: Floats) -> FloatArray:
    """Bytes of a prompt's cache on the fullest device of a copy."""
    c = model.candidates
    element = np.array([p.bytes_per_element for p in c.palette.kv_precisions])[c.kv_precision]
    states = state_bytes_per_sequence_per_device(model.arch, c.tp, c.pp)
    held = kv_bytes_per_sequence_per_device(model.arch, element, input_tokens, c.tp, c.pp)
    return np.asarray(held + states + np.zeros(len(c)), dtype=np.float64)


def handover_s(handed_bytes: Floats, link_bytes_per_s: Floats, link_ratio: Floats, overlap_ratio: Floats) -> FloatArray:
    """What a hand-over adds to a first token: (1 - overlap) bytes / (link_ratio x link)   [s].

    `link_ratio`: share of the link that a copy of many blocks reaches; `overlap_ratio`: share of the hand-over that is
    hidden behind the prefill of later layers.

    >>> float(handover_s(4e9, 50e9, 0.8, 0.0))
    0.1
    """
    return np.asarray((1 - np.asarray(overlap_ratio)) * handed_bytes / (link_ratio * np.asarray(link_bytes_per_s)))


def passage(curves: PoolCurves, requests_per_s: FloatArray, queued_s: FloatArray, met_ratio: Floats = 1.0) -> Passage:
    """Requests that pass at a rate, `queued_s` of which they wait behind others for a full prefill pool.

    A copy prefills what came during its last step: n = x t(n) prompts, one at least, as many as it takes at most.
    Where all P copies work, a request waits for the rest of a step too: met busy^P t(n) / (P + 1)   [s]
    busy = min(x t(1), 1); met: 1 for arrivals from outside, (C - 1) / C among C clients.
    """
    pools, lengths = curves.pools, curves.lengths
    each = requests_per_s / np.asarray(pools.prefill_copies)
    prompts = at_rate(curves.prefill_per_s, curves.prompts, each)
    prefill_s = at_rate(curves.prefill_per_s, curves.prefill_s, each)
    on_each = requests_per_s / np.asarray(pools.decode_copies)
    batch = at_rate(curves.decode_per_s, curves.batch, on_each)
    step_s = at_rate(curves.decode_per_s, curves.step_s, on_each)
    return Passage(
        requests_per_s=requests_per_s,
        host_s=request_host_s(pools.prefill, lengths) + request_host_s(pools.decode, lengths),
        wait_s=queued_s + met_ratio * running_step_s(curves, each),
        prefill_s=prefill_s + curves.lone_beyond_busy_s,
        handover_s=pools.handover_s,
        first_step_s=first_steps(pools, batch) * step_s,
        tpot_s=step_s,
        prompts=prompts,
        batch=batch,
    )


def running_step_s(curves: PoolCurves, each_per_s: FloatArray) -> FloatArray:
    """What a request waits on average until one of the running prefill steps ends: busy^P t(n) / (P + 1)   [s]."""
    copies = np.asarray(curves.pools.prefill_copies, dtype=np.float64)
    busy = np.minimum(each_per_s * curves.prefill_s[0], 1.0)
    running_s = at_rate(curves.prefill_per_s, curves.prefill_s, each_per_s)
    return np.asarray(busy**copies * running_s / (copies + 1))


def first_steps(pools: Pools, batch: FloatArray) -> FloatArray:
    """Decode steps between the hand-over and the first token: one, or the engine's own where others decode.

    max(1, n B / (B + 1)); n: `first_token_steps` of the engine.
    """
    steps = pools.decode.candidates.engine_constant("first_token_steps")
    return np.asarray(np.maximum(1.0, steps * batch / (batch + 1.0)))


def behind_others_s(
    curves: PoolCurves, wait_s: FloatArray, requests_per_s: FloatArray, met_ratio: Floats
) -> FloatArray:
    """What of a queue's wait is behind prompts that wait too, beyond the rest of the running step   [s].

    W - met rho S / 2; S: time between prompts that leave a full pool, rho: the load of it.
    """
    service_s = curves.pooled_service_s
    running_s = met_ratio * requests_per_s * service_s**2 / 2
    return np.maximum(np.where(service_s > 0, wait_s - running_s, 0.0), 0.0)


def open_passage(curves: PoolCurves, requests_per_s: FloatArray) -> Passage:
    """Poisson arrivals that both pools carry: M/G/1 on the prefill pool as one server."""
    rate = np.asarray(requests_per_s, dtype=np.float64)
    service_s, variation = curves.pooled_service_s, curves.prompt_squared_variation
    wait_s = mean_wait_s(rate * service_s, service_s, variation)
    return passage(curves, rate, behind_others_s(curves, wait_s, rate, 1.0))


def loop_passage(curves: PoolCurves, concurrency: Floats, requests_per_s: FloatArray, waves: Floats) -> Passage:
    """Requests of `concurrency` clients that pass at a rate.

    (1 - s) wait + s (C - 1) / 2 S, s = 1 / waves: in the first wave all clients send at once   [s]
    """
    clients, service_s = np.asarray(concurrency, dtype=np.float64), curves.pooled_service_s
    others, met_ratio, in_step = clients - 1, 1 - 1 / clients, 1 / np.asarray(waves)
    cycle_s = clients / requests_per_s
    wait_s = loop_wait_s(others, cycle_s, np.where(service_s > 0, service_s, 1.0))
    queued_s = behind_others_s(curves, wait_s, requests_per_s, met_ratio)
    return passage(curves, requests_per_s, (1 - in_step) * queued_s + in_step * others / 2 * service_s, met_ratio)


def closed_loop_of_pools(curves: PoolCurves, concurrency: Floats, waves: Floats = np.inf) -> Passage:
    """`concurrency` clients that send the next request when the last one is answered.

    C = X (TTFT(X) + (output_tokens - 1) TPOT(X)) (Little's law), X at most what either pool carries: there clients wait
    for what is missing. X is found by halving, as both times rise with it.
    """
    clients = np.asarray(concurrency, dtype=np.float64)
    low = np.zeros_like(curves.carried_per_s)
    high = np.minimum(curves.carried_per_s, clients / shortest_answer_s(curves))
    for _ in range(HALVINGS):
        rate = (low + high) / 2
        has_room = rate * answer_s(curves, loop_passage(curves, clients, rate, waves)) <= clients
        low, high = np.where(has_room, rate, low), np.where(has_room, high, rate)
    found = loop_passage(curves, clients, high, waves)
    return replace(found, wait_s=found.wait_s + np.maximum(clients / high - answer_s(curves, found), 0.0))


def answer_s(curves: PoolCurves, found: Passage) -> FloatArray:
    """From a request to the last token of its answer   [s]."""
    return np.asarray(found.ttft_s + np.maximum(curves.lengths.output_tokens - 1, 0.0) * found.tpot_s)


def shortest_answer_s(curves: PoolCurves) -> FloatArray:
    """The same for a request that meets no other."""
    return answer_s(curves, passage(curves, np.zeros_like(curves.carried_per_s), np.zeros(1)))


def first_token_s(curves: PoolCurves, found: Passage, quantile: float) -> FloatArray:
    """TTFT that the share `quantile` of Poisson arrivals stays below, of prompts of mean length   [s]."""
    copies = np.asarray(curves.pools.prefill_copies, dtype=np.float64)
    busy = np.minimum(found.requests_per_s / copies * curves.prefill_s[0], 1.0)
    waits = np.maximum(busy**copies, found.requests_per_s * curves.pooled_service_s)
    return np.asarray(found.ttft_s - found.wait_s + wait_tail_s(quantile, found.wait_s, waits))


def crowded_step_s(curves: PoolCurves, found: Passage, quantile: float) -> FloatArray:
    """TPOT at the batch of a decode copy that the share `quantile` of Poisson arrivals finds at most   [s]."""
    crowd = np.maximum(poisson_percentile(quantile, found.batch), found.batch)
    return at_rate(curves.batch, curves.step_s, np.minimum(crowd, curves.batch[-1]))
