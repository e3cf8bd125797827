"""What adds up to TPOT and TTFT: kernels, the engine around them, other requests, and waiting."""

from __future__ import annotations

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.optimize.estimate import EstimateQuestion, EstimateSolution
from gpufleet.performance.latencies import mean_prompt_s
from gpufleet.performance.load_curves import load_curves_of
from gpufleet.performance.serving import (
    Serving,
    carried_requests_per_s,
    decode_load,
    eager_share,
    engine_step_s,
    held_back_steps,
    host_times,
    idle_ttft_s,
    launches_s,
    lone_ttft_s,
    longest_gap_s,
    neighbours,
    phases,
    prompt_launches_s,
    prompt_service_s,
    prompts_load,
)
from gpufleet.performance.shared_steps import kernels_in_pieces_s, step_room_tokens
from gpufleet.performance.step import StepLoad, StepModel
from gpufleet.records import dataclass
from gpufleet.units import MICROSECOND, MILLISECOND


@dataclass(frozen=True)
class TimePart:
    """Seconds of a named part of a total, with its formula in numbers."""

    name: str
    seconds: float
    formula: str


@dataclass(frozen=True)
class TimeAccount:
    """One engine step and the parts that make a latency of it; the parts sum to `total_s`.

    `longest` is the step that a prompt of another request stretches most.
    """

    load: StepLoad
    kernels_s: float
    total_s: float
    parts: tuple[TimePart, ...]
    longest: TimePart | None = None


def tpot_account(question: EstimateQuestion, solution: EstimateSolution) -> TimeAccount:
    """TPOT: one decode step of the solved batch, and the prompts of neighbours.

    TPOT = (k kernels + o_step + o_kernel N + o_sequence B + prompts per step x service of a prompt) / accepted   [s]
    accepted: tokens that a step yields, 1 where the engine drafts none
    """
    q, model, serving = question, solution.model, served(solution)
    load = decode_load(serving.batch, q.lengths)
    kernels = model.seconds(load)
    step_s = float(engine_step_s(model, kernels, serving.batch, eager_share(model, q.lengths, serving.batch))[0])
    total_s = float(serving.tpot_s[0])
    yields = float(model.candidates.tokens_per_step[0])
    parts = [
        TimePart("kernels", float(kernels[0]), "the operations above"),
        *_engine_parts(model, float(kernels[0]), step_s, serving.batch),
        *_neighbour_parts(q, model, serving.batch, total_s * yields - step_s),
        TimePart("tokens that a step yields", total_s - total_s * yields, f"a step over {yields:.3g} tokens"),
    ]
    return TimeAccount(load, float(kernels[0]), total_s, _that_count(parts, total_s), _longest_gap(q, model, serving))


def _longest_gap(question: EstimateQuestion, model: StepModel, serving: Serving) -> TimePart | None:
    """A decode step that carries as many tokens of a prompt as the engine puts in one step."""
    if question.load.scenario == "static_batch" or serving.batch[0] <= 1:
        return None
    tokens, at = (
        float(question.lengths.input_tokens),
        phases(model, serving.batch, question.lengths, question.client),
    )
    most = float(step_room_tokens(model.candidates)[0])
    decode_ms, extra_ms = float(at.decode_step_s[0]) / MILLISECOND, float(at.prompt_extra_s[0]) / MILLISECOND
    return TimePart(
        "longest gap between tokens",
        float(longest_gap_s(at, tokens, most)[0]),
        f"{decode_ms:.3g} ms + {extra_ms:.3g} ms x {min(most, tokens):,.0f} of {tokens:,.0f} tokens of a prompt",
    )


def served(solution: EstimateSolution) -> Serving:
    """The steady state of a candidate that fits."""
    assert solution.serving is not None, "only a candidate that fits has an estimate"
    return solution.serving


def _engine_parts(model: StepModel, kernels_s: float, step_s: float, batch: FloatArray) -> list[TimePart]:
    """The engine around the kernels of a decode step."""
    c, launched = model.candidates, float(model.num_kernels[0])
    names = ("decode_scale_ratio", "step_overhead_s", "kernel_overhead_s", "sequence_overhead_s")
    scale, step, kernel, sequence = (float(c.engine_constant(name)[0]) for name in names)
    further, verified = float(c.tp[0]) - 1, float(c.verified_tokens[0])
    reductions = model.arch.num_reductions + (float(model.drafts.num_reductions[0]) if model.drafts else 0)
    passes = float(c.draft_passes[0]) if model.drafts else 0.0
    pass_s = float(c.engine_figure("draft_pass_s", 0.0)[0])
    reduction = float(c.engine_constant("reduction_overhead_s")[0])
    sequences, others = float((batch / c.attention_dp)[0]) * verified, max(float(batch[0]) - 1, 0.0)
    further_host = float(host_times(model).further_s[0])
    parts = [
        TimePart("kernels as the engine runs them", (scale - 1) * kernels_s, f"({scale:.3g} - 1) x kernels"),
        TimePart("between steps", step * float(c.micro_batches[0]), "scheduling, sampling, launch"),
        TimePart(
            "launches that overlap" if kernel < 0 else "between kernels",
            kernel * launched,
            f"{launched:,.0f} kernels x {kernel / MICROSECOND:.3g} µs",
        ),
        TimePart(
            "ranks that wait for each other",
            reduction * reductions * further,
            f"{reductions:,.0f} all-reduces x {further:.0f} x {reduction / MICROSECOND:.3g} µs",
        ),
        TimePart("passes of the draft", pass_s * passes, f"{passes:g} x {pass_s / MICROSECOND:.3g} µs beside kernels"),
        TimePart("sequences", sequence * sequences, f"{sequences:,.3g} sequences x {sequence / MICROSECOND:.3g} µs"),
        TimePart(
            "sequences that the device waits for",
            further_host * others,
            f"{others:,.3g} further ones x {further_host / MICROSECOND:.3g} µs",
        ),
    ]
    graphed_s = float(engine_step_s(model, np.array([kernels_s]), batch)[0])
    least = model.hardware.calibration.formulas.engine_steps.least_ratio.value
    least_s = graphed_s - kernels_s - sum(part.seconds for part in parts)
    called = float(model.num_calls[0])
    eager_us = float(launches_s(model)[0]) / called / MICROSECOND
    return [
        *parts,
        TimePart("no less than a share of the kernels", least_s, f"the least that a step takes: {least:g} x kernels"),
        TimePart("beyond CUDA graphs", step_s - graphed_s, f"{called:,.0f} kernels launched in {eager_us:.3g} µs"),
    ]


def _neighbour_parts(question: EstimateQuestion, model: StepModel, batch: FloatArray, seconds: float) -> list[TimePart]:
    """Prompts of other requests in the same steps."""
    if question.load.scenario == "static_batch":
        return [TimePart("prompts of other requests", seconds, "")]
    by_chance = question.load.scenario == "open_loop"
    at = phases(model, batch, question.lengths, question.client, by_chance=by_chance)
    extra_s, service_s = float(at.prompt_extra_s[0]), float(prompt_service_s(model, at)[0])
    met, mixed = (seconds / service_s, service_s / extra_s) if extra_s > 0 else (0.0, 1.0)
    formula = f"{met:.3g} prompts per step x {mixed:.3g} x {extra_s / MILLISECOND:.3g} ms"
    return [TimePart("prompts of other requests", seconds, formula)]


def _that_count(parts: list[TimePart], total_s: float) -> tuple[TimePart, ...]:
    """The parts that are not nothing."""
    return tuple(part for part in parts if abs(part.seconds) > 1e-9 * abs(total_s))  # not a conversion


def ttft_account(question: EstimateQuestion, solution: EstimateSolution) -> TimeAccount:
    """TTFT: the prefill of a prompt (of all prompts of a static batch), the engine, running steps, and waiting.

    TTFT = max(k_p kernels, launches) + a + b input_tokens + running steps + wait   [s]
    """
    q, model, serving = question, solution.model, served(solution)
    prompts = serving.batch if q.load.scenario == "static_batch" else np.ones(1)
    load = prompts_load(prompts, q.lengths)
    kernels_s = float(model.seconds(load)[0])
    lone_s, total_s = float(lone_ttft_s(model, q.lengths, prompts)[0]), float(serving.ttft_s[0])
    pieces_s = float(kernels_in_pieces_s(model, load)[0])
    parts = [
        TimePart("kernels", kernels_s, "the operations above"),
        _pieces_part(q, model, pieces_s - kernels_s),
        *_prefill_parts(q, model, pieces_s, "kernels" if pieces_s == kernels_s else "both above"),
        *_waiting_parts(q, solution, lone_s),
    ]
    rest_s = total_s - sum(part.seconds for part in parts)
    parts.append(TimePart("other prompts first", rest_s, "the mean wait for prompts that came before"))
    return TimeAccount(load, kernels_s, total_s, _that_count(parts, total_s))


def _pieces_part(question: EstimateQuestion, model: StepModel, again_s: float) -> TimePart:
    """Weights that are read again for every piece of a prompt that the engine cuts."""
    most, tokens = float(step_room_tokens(model.candidates)[0]), float(question.lengths.input_tokens)
    return TimePart("weights read for every piece", again_s, f"{most:,.0f} of {tokens:,.0f} tokens at a time")


def _prefill_parts(question: EstimateQuestion, model: StepModel, run_s: float, what: str) -> list[TimePart]:
    """The engine around a prefill, of which `what` runs for `run_s` on the device."""
    tokens = float(question.lengths.input_tokens)

    def constant(name: str) -> float:
        return float(model.candidates.engine_constant(name)[0])

    scale, token = (constant(n) for n in ("prefill_scale_ratio", "token_overhead_s"))
    launched, further = float(model.num_calls[0]), float(model.candidates.devices_per_stage[0]) - 1
    launch, rank = float(prompt_launches_s(model)[0]) / launched, constant("rank_overhead_s")
    unhidden_s = max(launch * launched - scale * run_s, 0.0)
    return [
        TimePart("kernels as the engine runs them", (scale - 1) * run_s, f"({scale:.3g} - 1) x {what}"),
        TimePart(
            "launches that nothing hides", unhidden_s, f"{launched:,.0f} kernels x {launch / MICROSECOND:.3g} µs, less"
        ),
        TimePart("taking the request", constant("request_overhead_s"), "arrival, scheduling, first answer"),
        TimePart(
            "handing it to other ranks", rank * further, f"{further:.0f} processes x {rank / MICROSECOND:,.4g} µs"
        ),
        TimePart("tokenising", token * tokens, f"{tokens:,.0f} tokens x {token / MICROSECOND:.3g} µs"),
    ]


def _waiting_parts(question: EstimateQuestion, solution: EstimateSolution, lone_s: float) -> list[TimePart]:
    """Steps that run already, a place in the batch, steps for which the engine holds a prompt back."""
    q, model, serving = question, solution.model, served(solution)
    if q.load.scenario == "open_loop":
        return _arrival_parts(q, model, float(serving.batch[0]), lone_s)
    if q.load.scenario != "closed_loop":
        return []
    at, others = phases(model, serving.batch, q.lengths, q.client), neighbours(model, serving.batch)
    idle_s = float(idle_ttft_s(model, at, np.array([lone_s]), others)[0])
    step_s = float(at.decode_step_s[0])
    running = (idle_s - lone_s) / step_s
    parts = [
        TimePart("steps that run already", idle_s - lone_s, f"{running:.3g} steps x {step_s / MILLISECOND:.3g} ms")
    ]
    waiting = q.load.amount - float(serving.batch[0])
    rate = float(carried_requests_per_s(model, at, serving.batch, q.lengths)[0])
    held = float(held_back_steps(model, at, serving.batch, q.lengths, q.client)[0])
    return [
        *parts,
        TimePart("a place in the batch", waiting / rate, f"{waiting:,.0f} clients / {rate:.3g} requests/s"),
        TimePart(
            "held back by the engine's options", held * step_s, f"{held:.3g} steps x {step_s / MILLISECOND:.3g} ms"
        ),
    ]


def _arrival_parts(question: EstimateQuestion, model: StepModel, batch: float, lone_s: float) -> list[TimePart]:
    """What a request that comes by chance waits for before its step, there, and until its first token is seen."""
    curves = load_curves_of(model, question.workload, np.array([np.inf]), np.array([batch, batch + 1]))
    share, step_s = float(curves.running_ratio[0]), float(curves.gate_s[0, 0])
    steps = share * float(curves.gate_steps[0, 0])
    beside_s, late_s = float(mean_prompt_s(curves, "")[0, 0]) - lone_s, float(curves.late_s[0, 0])
    return [
        TimePart("steps that run already", steps * step_s, f"{steps:.3g} steps x {step_s / MILLISECOND:.3g} ms"),
        TimePart(
            "in steps that others share", beside_s, f"{share:.0%} of requests find others; less than alone, or more"
        ),
        TimePart("seen late", late_s, "steps made ahead, and the streams of others"),
    ]
