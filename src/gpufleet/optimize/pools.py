"""A pool that prefills and a pool that decodes under one load: room, rates that match, latencies."""

from __future__ import annotations

import math

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import Calibration, HandoverFormula
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.layout import Layout
from gpufleet.domain.workload import Workload
from gpufleet.errors import DataMissing, Infeasible, OutOfMemory
from gpufleet.memory.fit import MemoryBudget
from gpufleet.optimize.estimate import Load, gathered
from gpufleet.optimize.replicas import MemoryModel
from gpufleet.performance.pools import (
    Passage,
    PoolCurves,
    Pools,
    closed_loop_of_pools,
    crowded_step_s,
    first_token_s,
    handed_over_bytes,
    handover_s,
    open_passage,
)
from gpufleet.performance.request_mix import (
    RequestMix,
    first_tokens_beyond_mean_s,
    held_by_sequence,
    mix_of,
    prompt_work_ratio,
)
from gpufleet.performance.serving import HIGHEST_LOAD_RATIO, Client, admitted_context_tokens
from gpufleet.performance.step import StepModel
from gpufleet.performance.uncertainty import Bounds, time_bounds
from gpufleet.records import dataclass
from gpufleet.units import GIB

PREFILL, DECODE = "prefill", "decode"
MOST_RATIO = 8
CLOSE_RATIO = 1.1


@dataclass(frozen=True, eq=False)
class PoolOfCopies:
    """Equal copies of one model: `candidates` has one row."""

    candidates: Candidates
    copies: int

    @property
    def layout(self) -> Layout:
        """Over which ranks a copy is spread."""
        c = self.candidates
        return Layout(int(c.tp[0]), int(c.pp[0]), int(c.ep[0]), int(c.attention_dp[0]))

    @property
    def gpu(self) -> str:
        """The GPU of every copy."""
        c = self.candidates
        return c.palette.accelerators[int(c.accelerator[0])].name

    @property
    def num_gpus(self) -> int:
        """GPUs of all copies."""
        return self.copies * self.layout.num_devices

    @property
    def label(self) -> str:
        """The pool in words: 2x H100-SXM:4 TP4."""
        return f"{self.copies}x {self.gpu}:{self.layout.num_devices} {self.layout.label}"


@dataclass(frozen=True, eq=False)
class PoolsQuestion:
    """A model prefilled by one pool and decoded by another, over a link of so many bytes/s a GPU."""

    arch: Architecture
    prefill: PoolOfCopies
    decode: PoolOfCopies
    workload: Workload
    load: Load
    client: Client
    link_bytes_per_s: float

    @property
    def mix(self) -> RequestMix:
        """The requests as an engine meets them."""
        return mix_of(self.workload)

    def pool(self, name: str) -> PoolOfCopies:
        """The pool of this name."""
        return self.prefill if name == PREFILL else self.decode


@dataclass(frozen=True, eq=False)
class PoolRoom:
    """What one copy of a pool holds: its memory, and the sequences or prompts that it takes together."""

    budget: MemoryBudget
    most: FloatArray
    limited_by_engine: bool

    @property
    def verdict(self) -> str:
        """'fits', 'tight' or 'does not fit'."""
        return str(self.budget.verdict[0])


@dataclass(frozen=True, eq=False)
class PoolsSolution:
    """Both pools under the load: what requests meet, and the most that each pool carries."""

    curves: PoolCurves
    found: Passage
    prefill_room: PoolRoom
    decode_room: PoolRoom
    handed_bytes: float
    handover: HandoverFormula

    @property
    def rates(self) -> dict[str, float]:
        """The most requests per second that each pool carries."""
        return {PREFILL: float(self.curves.prefill_pool_per_s[0]), DECODE: float(self.curves.decode_pool_per_s[0])}

    @property
    def binds(self) -> str:
        """The pool that carries less."""
        return min(self.rates, key=lambda pool: self.rates[pool])

    @property
    def load_ratio(self) -> float:
        """Requests that pass over the most that both pools carry."""
        return float(self.found.requests_per_s[0] / self.curves.carried_per_s[0])

    def matched(self) -> tuple[int, int]:
        """Copies of both pools, few of each, at which the prefill pool just carries what the decode pool does.

        Of up to 8 decode copies the fewest for which a whole number of prefill copies carries at most a tenth too much.
        """
        pools = self.curves.pools
        each = {PREFILL: self.rates[PREFILL] / float(pools.prefill_copies), DECODE: self.rates[DECODE]}
        needed = each[DECODE] / float(pools.decode_copies) / each[PREFILL]
        return matched_copies(needed)

    def arrival_figures(self, workload: Workload, statistic: str, quantile: float) -> tuple[float, float, float]:
        """TTFT, TPOT and their sum over an answer of Poisson arrivals, each at the same quantile   [s].

        Where prompts differ, the wait is never below its mean: medians do not add up.
        """
        curves, found = self.curves, self.found
        first = first_token_s(curves, found, quantile)
        if curves.prompt_squared_variation:
            first = np.maximum(first, found.ttft_s) + beyond_means_s(curves.pools.prefill, workload, statistic)
        later = float(crowded_step_s(curves, found, quantile)[0])
        answer = workload.classes[0].output_tokens.at(statistic) if workload.classes else workload.output_tokens
        return float(first[0]), later, float(first[0]) + max(answer - 1, 0.0) * later

    def handover_ends_s(self, link_bytes_per_s: float) -> list[FloatArray]:
        """The hand-over at its shortest, as expected and at its longest, by the ranges of what it rests on."""
        share, hidden = self.handover.link_ratio, self.handover.overlap_ratio
        ends = [(share.high, hidden.high), (share.value, hidden.value), (share.low, hidden.low)]
        return [handover_s(self.handed_bytes, link_bytes_per_s, s or share.value, h or 0.0) for s, h in ends]

    def bounds(self) -> dict[str, Bounds]:
        """Bounds of the first token, as prefill is known at its crowd, and of the later ones, as decode is."""
        pools, lengths, found = self.curves.pools, self.curves.lengths, self.found
        waiting = found.requests_per_s / np.asarray(pools.prefill_copies) * (found.wait_s + found.prefill_s)
        first = time_bounds(pools.prefill, np.maximum(waiting, 1.0), lengths)
        later = time_bounds(pools.decode, np.maximum(found.batch, 1.0), lengths)
        return {"ttft": first["ttft"], "tpot": later["tpot"]}


def beyond_means_s(prefill: StepModel, workload: Workload, statistic: str) -> FloatArray:
    """What the prompt at a statistic of the first class takes longer than the mean one, alone, of each row   [s]."""
    c = workload.classes[0]
    tokens = np.array([c.input_tokens.at(statistic)])
    beyond: FloatArray = first_tokens_beyond_mean_s(prefill, mix_of(workload), tokens, c.cached_ratio)[0]
    return beyond


def matched_copies(prefill_per_decode: float) -> tuple[int, int]:
    """Prefill and decode copies in small whole numbers, at least as many that prefill as are needed.

    >>> matched_copies(0.48), matched_copies(2.0), matched_copies(0.01)
    ((1, 2), (2, 1), (1, 100))
    """
    if prefill_per_decode < 1 / MOST_RATIO:
        return 1, math.floor(1 / prefill_per_decode + 1e-9)
    pairs = [(math.ceil(prefill_per_decode * n - 1e-9), n) for n in range(1, MOST_RATIO + 1)]
    close = (pair for pair in pairs if pair[0] / pair[1] <= CLOSE_RATIO * prefill_per_decode)
    return next(close, min(pairs, key=lambda pair: pair[0] / pair[1]))


def solve_pools(question: PoolsQuestion, calibration: Calibration) -> PoolsSolution:
    """Room of both pools first, then the load's own equations."""
    q, mix = question, question.mix
    prefill, prefill_memory = supported(q, PREFILL, calibration)
    decode, decode_memory = supported(q, DECODE, calibration)
    prompts = room_for_prompts(q, prefill_memory)
    sequences = room_for_sequences(q, decode_memory)
    handed = handed_over_bytes(prefill, decode, mix.lengths.input_tokens)
    formula = calibration.formulas.handover
    hand_s = handover_s(handed, q.link_bytes_per_s, formula.link_ratio.value, formula.overlap_ratio.value)
    pools = Pools(
        prefill, decode, float(q.prefill.copies), float(q.decode.copies), prompts.most, sequences.most, hand_s
    )
    work = prompt_work_ratio(prefill, mix)
    curves = PoolCurves(pools, mix.lengths, mix.prompt_squared_variation, work)
    return PoolsSolution(curves, passed(q, curves), prompts, sequences, float(handed[0]), formula)


def passed(question: PoolsQuestion, curves: PoolCurves) -> Passage:
    """What requests meet under the load of a question; arrivals beyond what is sustained are refused."""
    load = question.load
    if load.scenario == "closed_loop":
        return closed_loop_of_pools(curves, np.array([load.amount]), question.client.waves)
    refuse_overload(curves, load.amount)
    return open_passage(curves, np.array([load.amount]))


def refuse_overload(curves: PoolCurves, requests_per_s: float) -> None:
    """Arrivals at which waits would grow without end, and the pool whose they are."""
    rates = {PREFILL: float(curves.prefill_pool_per_s[0]), DECODE: float(curves.decode_pool_per_s[0])}
    pool = min(rates, key=lambda name: rates[name])
    ratio = requests_per_s / rates[pool]
    if ratio > HIGHEST_LOAD_RATIO:
        raise Infeasible(
            f"the load is {ratio:.2f} of what the {pool} pool sustains",
            found=f"{requests_per_s:,g} requests/s",
            expected=f"at most {HIGHEST_LOAD_RATIO * rates[pool]:.3g} requests/s",
        )


def supported(question: PoolsQuestion, pool: str, calibration: Calibration) -> tuple[StepModel, MemoryModel]:
    """Kernels and memory of a pool's copies, refused where no curve describes its format."""
    asked = question.pool(pool)
    model, memory = gathered(question.arch, asked.candidates, calibration)
    if not model.is_supported.all():
        hint = "Another --precision or --kv-precision may have one: 'gpufleet catalog gpus' lists them."
        raise DataMissing(f"{pool} pool: no kernel curve for this format on {asked.gpu}", hint=hint)
    return model, memory


def room_for_prompts(question: PoolsQuestion, memory: MemoryModel) -> PoolRoom:
    """Prompts that a prefill copy takes into a step: those of its token budget in each group, as far as they fit."""
    mix, c = question.mix, question.prefill.candidates
    tokens = float(mix.lengths.input_tokens)
    longest = max(mix.longest_tokens - float(mix.lengths.output_tokens), tokens)
    room = memory.room(mix.lengths, np.array([longest, tokens]))
    refuse_too_large(question, PREFILL, room.budget)
    budget_tokens = float(np.ravel(memory.engine.prefill_budget_tokens)[0])
    in_budget = c.num_groups * max(math.floor(budget_tokens / tokens), 1)
    held = room.largest_batch[1:]
    return PoolRoom(room.budget, np.maximum(np.minimum(in_budget, held), 1.0), bool(in_budget[0] <= held[0]))


def room_for_sequences(question: PoolsQuestion, memory: MemoryModel) -> PoolRoom:
    """Sequences that a decode copy holds: in a closed loop by what each is admitted with, else by what each holds."""
    mix, held = question.mix, float(held_by_sequence(question.decode.candidates, question.mix)[0])
    if question.load.scenario == "closed_loop":
        held = float(admitted_context_tokens(question.decode.candidates, mix.lengths)[0])
    room = memory.room(mix.lengths, np.array([mix.longest_tokens, held]))
    refuse_too_large(question, DECODE, room.budget)
    return PoolRoom(room.budget, np.maximum(room.largest_batch[1:], 1.0), bool(room.limited_by_engine[1]))


def refuse_too_large(question: PoolsQuestion, pool: str, budget: MemoryBudget) -> None:
    """A copy that does not hold the weights and one sequence, by the name of its pool."""
    if bool(budget.fits[0]):
        return
    asked = question.pool(pool)
    gpu, number = asked.gpu, asked.layout.num_devices
    missing_gib = float(np.max(np.asarray(budget.short_by_bytes))) / GIB
    context = math.ceil(question.mix.longest_tokens)
    raise OutOfMemory(
        f"{pool} pool: {question.arch.name} does not fit {number}x {gpu} ({asked.layout.label})",
        found=f"short by {missing_gib:.1f} GiB per GPU",
        hint=f"'gpufleet fit {question.arch.name} --gpus {gpu}:{number} --context {context}' shows what would.",
    )
