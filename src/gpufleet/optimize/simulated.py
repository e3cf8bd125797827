"""A copy of a model as the simulator plays it: rules of its engine, blocks of its KV pool, times of its steps."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.requests import Requests
from gpufleet.optimize.replicas import MemoryModel
from gpufleet.performance.serving import Client, Lengths, prompt_launches_s, request_s
from gpufleet.performance.shared_steps import late_steps, step_rules
from gpufleet.performance.step import StepModel
from gpufleet.records import dataclass
from gpufleet.simulate.cluster import Copy, EngineRules
from gpufleet.simulate.step_table import step_table

POLL_WAIT_OF_ITS_OWN = 0.5
"""Share of a polling interval that a request waits in the simulator; the closed form fits it."""
WHOLE_PROMPTS_TOKENS = 1 << 20
STEPS_MET = 1.5
"""Steps that a request meets before its first token: half of the one under way, and its own."""


@dataclass(frozen=True)
class Held:
    """Tokens of the sequences to come: `mean_tokens` that one holds, and those of the longest."""

    mean_tokens: float
    longest_tokens: float


def held_by(requests: Requests) -> Held:
    """What some requests hold: their prompts and half of their answers, as long as they decode."""
    tokens = requests.input_tokens + requests.output_tokens / 2
    whole = requests.input_tokens + requests.output_tokens
    weights = requests.output_tokens.astype(np.float64)
    return Held(round_up(float(np.average(tokens, weights=weights))), round_up(float(whole.max())))


def round_up(tokens: float) -> float:
    """Tokens to three digits, so that tables serve requests that are nearly alike."""
    unit = 10.0 ** max(np.floor(np.log10(max(tokens, 1.0))) - 2, 0)
    return float(np.ceil(tokens / unit) * unit)


@lru_cache(maxsize=16)
def simulated_copy(
    arch: Architecture, candidates: Candidates, calibration: Calibration, held: Held, client: Client | None = None
) -> Copy:
    """The first of some candidates; `client` says how its engine looks for requests."""
    model = StepModel.build(arch, candidates, calibration)
    memory = MemoryModel.build(arch, candidates)
    rules = engine_rules(model, memory, held, Client() if client is None else client)
    budget = min(rules.step_tokens // rules.groups, int(max(held.longest_tokens, 1)) * rules.largest_batch)
    table = step_table(model, rules.largest_batch, held.longest_tokens, budget)
    return Copy(rules, replace(table, decode_s=table.decode_s / float(candidates.tokens_per_step[0])))


def engine_rules(model: StepModel, memory: MemoryModel, held: Held, client: Client) -> EngineRules:
    """The constants that the closed form uses, by what they mean for one step."""
    c = model.candidates

    def known(name: str) -> float:
        return float(c.engine_constant(name)[0])

    def figure(name: str, otherwise: float) -> float:
        return float(c.engine_figure(name, otherwise)[0])

    block_tokens = int(np.asarray(memory.engine.kv_block_tokens)[0])
    groups, mixes_prompts = int(c.num_groups[0]), bool(figure("mixes_prompts", 1.0))
    num_blocks = max(int(kv_tokens(memory, held)) // block_tokens, 1)
    late = steps_of_one_token(c, float(late_steps(c)[0]) if client.late_steps is None else client.late_steps)
    late += (known("poll_wait_ratio") - POLL_WAIT_OF_ITS_OWN) * max(float(client.poll_interval_steps) - 1, 0.0)
    return EngineRules(
        largest_batch=int(np.asarray(memory.engine.max_batch)[0]) * int(c.attention_dp[0]),
        step_tokens=step_tokens(memory, held) * groups,
        num_blocks=num_blocks,
        spare_blocks=int(figure("watermark_ratio", 0.0) * num_blocks),
        block_tokens=block_tokens,
        groups=groups,
        mixes_prompts=mixes_prompts,
        awaits_room=bool(figure("awaits_whole_room", 0.0)),
        waits_for_host=bool(model.once(step_rules).waits_for_host[0]),
        is_static=bool(figure("static_batch", 0.0)),
        reserves_answers=figure("reserved_output_ratio", 0.5) >= 1,
        prompt_alone_ratio=known("prefill_mixing_ratio"),
        prompt_among_ratio=known("decode_scale_ratio"),
        idle_prompt_ratio=known("prefill_scale_ratio"),
        launches_s=float(prompt_launches_s(model)[0]),
        busy_launch_ratio=figure("busy_launch_ratio", 0.0),
        piece_launches_s=float(prompt_launches_s(model, 0.0)[0]),
        piece_tokens=int(figure("piece_graph_tokens", 0.0)),
        request_s=float(request_s(c)[0]) * client.over_http,
        token_s=known("token_overhead_s"),
        late_steps=max(late, 0.0),
        late_s=client.late_s,
        stream_s=model.hardware.calibration.formulas.engine_steps.stream_s.value * client.over_http,
        poll_steps=max(int(client.poll_interval_steps), 1),
        gather_steps=int(client.gather_steps) if int(c.attention_dp[0]) > 1 else 0,
        batch_wait_steps=int(client.batch_wait_steps),
        batch_wait_tokens=int(client.batch_wait_ratio * step_tokens(memory, held)) * groups,
        longest_tokens=int(model.arch.taken_tokens),
    )


def steps_of_one_token(candidates: Candidates, late: float) -> float:
    """Steps by which first tokens are late, where the simulator plays a step of drafts as one for each token it yields.

    late a + 3 / 2 (a - 1)   a: tokens that a step yields   Half of a step is under way when a request comes, and its
    own takes a whole one; played apart, both are a-th parts.
    """
    yields = float(candidates.tokens_per_step[0])
    return late * yields + STEPS_MET * (yields - 1)


def short_by_bytes(arch: Architecture, candidates: Candidates, held: Held) -> float:
    """Bytes that each GPU lacks for the weights and one sequence of the mean length; none or less where it fits."""
    room = MemoryModel.build(arch, candidates).room(Lengths(held.mean_tokens, 0.0), held.mean_tokens)
    return float(np.max(np.asarray(room.budget.short_by_bytes)))


def step_tokens(memory: MemoryModel, held: Held) -> int:
    """Tokens that a step of one group takes: the engine's budget, or whole prompts where it does not cut them."""
    budget = int(np.asarray(memory.engine.prefill_budget_tokens)[0])
    if np.asarray(memory.engine.whole_prompt)[0]:
        return WHOLE_PROMPTS_TOKENS
    longest = max(int(held.longest_tokens), memory.arch.max_model_len or 0)
    return max(budget, longest) if np.asarray(memory.engine.whole_context)[0] else budget


def kv_tokens(memory: MemoryModel, held: Held) -> float:
    """Tokens of KV that the pool holds, of sequences of the size that is held on average."""
    room = memory.room(Lengths(held.mean_tokens, 0.0), held.mean_tokens)
    budget = room.budget
    pool = np.maximum(budget.kv_pool_bytes.expected, 0.0) / budget.kv_bytes_per_sequence * budget.attention_dp
    return float(np.asarray(pool)[0]) * held.mean_tokens
