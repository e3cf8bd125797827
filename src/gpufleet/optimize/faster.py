"""What would be faster: neighbours of one configuration under the same load, by the same equations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.calibration import Calibration
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import FP8, FP16, Precision, WeightFormat
from gpufleet.domain.precision_labels import LOWER_FORMATS, half_of, weight_format
from gpufleet.errors import GpufleetError
from gpufleet.layout.enumerate import conceivable_layouts
from gpufleet.layout.feasible import refusal, stage_beyond_one_machine
from gpufleet.layout.support import kv_refusal, weight_refusal
from gpufleet.optimize.estimate import EstimateQuestion, EstimateSolution, solve_estimate
from gpufleet.optimize.links import usual_link, usual_machine
from gpufleet.optimize.replicas import in_dtype, with_fp16_twins
from gpufleet.performance.serving import Serving
from gpufleet.records import dataclass
from gpufleet.units import GB

MOST_CHANGES, MOST_OF_A_KIND, GPUS_TRIED = 4, 2, 3
FEWER_BYTES_RATIO, MORE_BANDWIDTH_RATIO = 0.9, 1.1
LEAST_GAIN_RATIO, MORE_PER_GPU_RATIO = 1.02, 1.05


@dataclass(frozen=True)
class Alternative:
    """One thing done differently: what it is, what it takes, and the question that it makes of the present one."""

    kind: str
    name: str
    cost: str
    question: EstimateQuestion


class Goal(Enum):
    """What "faster" means under a load: the shorter of a time, or more work done."""

    TPOT = "TPOT"
    LATENCY = "latency"
    THROUGHPUT = "throughput per GPU"


@dataclass(frozen=True)
class SolvedAlternative:
    """An alternative and what it delivers; ratios are to what it is compared with."""

    alternative: Alternative
    solution: EstimateSolution
    tpot_ratio: float
    latency_ratio: float
    throughput_per_gpu_ratio: float

    def gain_ratio(self, goal: Goal) -> float:
        """How many times better it is: above 1 is a gain."""
        if goal is Goal.THROUGHPUT:
            return self.throughput_per_gpu_ratio
        return 1 / (self.tpot_ratio if goal is Goal.TPOT else self.latency_ratio)


def goal_of(question: EstimateQuestion, solution: EstimateSolution) -> Goal:
    """Time per token; the whole answer where clients wait for a place; work done where the queue never empties."""
    load = question.load
    if load.scenario == "full_queue":
        return Goal.THROUGHPUT
    waits = load.scenario == "closed_loop" and load.amount > solution.largest_batch
    return Goal.LATENCY if waits else Goal.TPOT


@dataclass(frozen=True)
class Present:
    """The configuration that is asked about, as nouns."""

    question: EstimateQuestion
    gpu: Accelerator
    engine: EngineProfile
    weights: WeightFormat
    kv: Precision
    layout: Layout

    @classmethod
    def of(cls, question: EstimateQuestion) -> Present:
        """The only candidate of a question."""
        c = question.candidates
        palette = c.palette
        return cls(
            question,
            palette.accelerators[c.accelerator[0]],
            palette.engines[c.engine[0]],
            palette.weight_formats[c.weight_format[0]],
            palette.kv_precisions[c.kv_precision[0]],
            Layout(int(c.tp[0]), int(c.pp[0]), int(c.ep[0]), int(c.attention_dp[0])),
        )

    def with_formats(self, weights: WeightFormat, kv: Precision) -> EstimateQuestion:
        """The same in other formats."""
        palette = replace(self.question.candidates.palette, weight_formats=(weights,), kv_precisions=(kv,))
        index = np.zeros(1, dtype=np.int64)
        candidates = replace(self.question.candidates, palette=palette, weight_format=index, kv_precision=index)
        return replace(self.question, candidates=candidates)

    def with_layout(self, layout: Layout) -> EstimateQuestion:
        """The same in another layout, over the same link where there is one."""
        linked = min(self.layout.devices_per_stage, layout.devices_per_stage) > 1
        link = None if linked else usual_link(self.gpu, layout.devices_per_stage)
        return replace(self.question, candidates=_placed(self.question.candidates, layout, link))

    def with_gpu(self, index: int) -> EstimateQuestion:
        """The same on as many GPUs of another kind, over their own link."""
        c = self.question.candidates
        link = usual_link(c.palette.accelerators[index], self.layout.devices_per_stage)
        placed = _placed(c, self.layout, link)
        return replace(self.question, candidates=replace(placed, accelerator=np.array([index])))

    def allows(self, layout: Layout) -> bool:
        """Whether model and machine take this layout."""
        arch = self.question.arch
        return (
            refusal(arch, layout, self.weights) is None
            and stage_beyond_one_machine(layout, usual_machine(self.gpu)) is None
        )


def _placed(candidates: Candidates, layout: Layout, link: tuple[bool, float] | None) -> Candidates:
    tp, pp, ep, attention_dp = (np.array([n]) for n in (layout.tp, layout.pp, layout.ep, layout.attention_dp))
    placed = replace(candidates, tp=tp, pp=pp, ep=ep, attention_dp=attention_dp)
    if link is None:
        return placed
    is_pcie, rate = link
    no_host = np.zeros(1, dtype=np.bool_)
    return replace(placed, link_is_pcie=np.array([is_pcie]), through_host=no_host, link_bytes_per_s=np.array([rate]))


def tried_alternatives(
    question: EstimateQuestion, solution: EstimateSolution, calibration: Calibration
) -> list[SolvedAlternative]:
    """Every neighbour that fits and carries the load, the greatest gain first."""
    goal = goal_of(question, solution)
    solved = (_solved(alternative, question, solution, calibration) for alternative in alternatives(question))
    return sorted((s for s in solved if s is not None), key=lambda s: -s.gain_ratio(goal))


def alternatives(question: EstimateQuestion) -> Iterator[Alternative]:
    """Every neighbour that the rules, the engine and the GPUs allow."""
    present = Present.of(question)
    yield from _other_weights(present)
    yield from _smaller_cache(present)
    yield from _other_sizes(present)
    yield from _other_layouts(present)
    yield from _other_gpus(present)
    yield from _fewer_at_once(present)


def _other_weights(present: Present) -> Iterator[Alternative]:
    """Formats with fewer bytes that engine, GPU and layout take."""
    arch = present.question.arch
    for label in LOWER_FORMATS:
        weights = _runnable(present, weight_format(arch, label))
        is_smaller = weights is not None and _bytes(present, weights) < FEWER_BYTES_RATIO * _bytes(present)
        if weights is not None and is_smaller and refusal(arch, present.layout, weights) is None:
            cost = f"a checkpoint in {weights.name}; test its quality"
            yield Alternative("weights", f"{weights.name} weights", cost, present.with_formats(weights, present.kv))


def _runnable(present: Present, asked: WeightFormat) -> WeightFormat | None:
    formats = in_dtype(with_fp16_twins([asked], FP16), half_of(present.engine.told.dtype))
    return next(
        (w for w in formats if weight_refusal(present.engine, present.gpu, w, allow_fp16_twin=False) is None), None
    )


def _bytes(present: Present, weights: WeightFormat | None = None) -> float:
    chosen = present.weights if weights is None else weights
    return (chosen.experts if present.question.arch.is_moe else chosen.mlp).bytes_per_element


def _smaller_cache(present: Present) -> Iterator[Alternative]:
    runs = kv_refusal(present.engine, present.gpu, FP8, present.question.arch) is None
    if runs and present.kv.bytes_per_element > FP8.bytes_per_element:
        yield Alternative("cache", "fp8 KV cache", "test its quality", present.with_formats(present.weights, FP8))


def _other_sizes(present: Present) -> Iterator[Alternative]:
    """Twice the TP on twice the GPUs; half of it, for two copies that share load and GPUs."""
    if present.engine.splits_by_layer:
        yield from _fewer_stages(present)
        return
    now = present.layout
    twice = replace(now, tp=2 * now.tp, ep=2 * now.ep if now.ep > 1 else 1)
    if present.allows(twice):
        cost = f"{twice.num_devices} GPUs instead of {now.num_devices}"
        yield Alternative("size", f"{twice.label}", cost, present.with_layout(twice))
    parts = now.ep // 2 if now.ep > 1 else 1
    if now.tp % 2 or not parts or (now.ep > 1 and now.ep % 2) or not _can_halve(present.question):
        return
    half = replace(now, tp=now.tp // 2, ep=parts)
    if present.allows(half):
        question = _halved_load(present.with_layout(half))
        name = f"two copies of {half.label}, half of the load each"
        yield Alternative("size", name, "weights are held twice", question)


def _fewer_stages(present: Present) -> Iterator[Alternative]:
    """Two copies over half of the GPUs each: stages that take turns make nothing faster."""
    now = present.layout
    if now.pp % 2 or not _can_halve(present.question):
        return
    half = replace(now, pp=now.pp // 2)
    if present.allows(half):
        question = _halved_load(present.with_layout(half))
        name = f"two copies of {half.label}, half of the load each"
        yield Alternative("size", name, "weights are held twice", question)


def _can_halve(question: EstimateQuestion) -> bool:
    return question.load.scenario == "open_loop" or question.load.amount >= 2


def _halved_load(question: EstimateQuestion) -> EstimateQuestion:
    return replace(question, load=replace(question.load, amount=question.load.amount / 2))


def _other_layouts(present: Present) -> Iterator[Alternative]:
    """Other layouts of the same GPUs, without more pipeline stages than now."""
    now = present.layout
    by_layer = present.engine.splits_by_layer
    for layout in conceivable_layouts(present.question.arch, now.num_devices, by_layer=by_layer):
        if layout != now and layout.pp <= now.pp and present.allows(layout):
            yield Alternative("layout", layout.label, "an engine restart", present.with_layout(layout))


def _other_gpus(present: Present) -> Iterator[Alternative]:
    """The next GPUs up that hold as much, and that engine and formats run on."""
    c, now = present.question.candidates, present.gpu
    better = [
        (a.bandwidth_bytes_per_s, index)
        for index, a in enumerate(c.palette.accelerators)
        if _is_step_up(now, a) and _takes(present, a)
    ]
    rates: list[float] = []
    for rate, index in sorted(better):
        if len(rates) < GPUS_TRIED and (not rates or rate > MORE_BANDWIDTH_RATIO * rates[-1]):
            rates.append(rate)
            name = f"{present.layout.num_devices}x {c.palette.accelerators[index].name}"
            cost = f"other machines: memory at {rate / GB:,.0f} GB/s, now {now.bandwidth_bytes_per_s / GB:,.0f}"
            yield Alternative("gpu", name, cost, present.with_gpu(index))


def _is_step_up(now: Accelerator, other: Accelerator) -> bool:
    return (
        other.vendor == now.vendor
        and other.bandwidth_bytes_per_s > MORE_BANDWIDTH_RATIO * now.bandwidth_bytes_per_s
        and other.memory_bytes >= FEWER_BYTES_RATIO * now.memory_bytes
        and max(other.peak_flop_per_s.values()) >= max(now.peak_flop_per_s.values())
    )


def _takes(present: Present, gpu: Accelerator) -> bool:
    """Whether engine, formats and layout go there unchanged, with a link at least as wide."""
    is_linked = min(gpu.linked_gpus, present.layout.num_devices) >= min(
        present.gpu.linked_gpus, present.layout.num_devices
    )
    refused = weight_refusal(present.engine, gpu, present.weights, allow_fp16_twin=False)
    return is_linked and refused is None and kv_refusal(present.engine, gpu, present.kv, present.question.arch) is None


def _fewer_at_once(present: Present) -> Iterator[Alternative]:
    question = present.question
    if question.load.scenario != "full_queue" and _can_halve(question):
        cost = "twice the copies for the same load"
        yield Alternative("load", "half of the load on each copy", cost, _halved_load(question))


def _solved(
    alternative: Alternative, question: EstimateQuestion, now: EstimateSolution, calibration: Calibration
) -> SolvedAlternative | None:
    """The alternative under the load; None where it does not fit, or cannot carry the load."""
    try:
        solution = solve_estimate(alternative.question, calibration)
    except GpufleetError:
        return None
    if solution.serving is None or now.serving is None or not _is_held(alternative.question, solution):
        return None
    (tpot_s, latency_s, per_gpu), (now_tpot_s, now_latency_s, now_per_gpu) = (
        _speeds(alternative.question, solution.serving),
        _speeds(question, now.serving),
    )
    return SolvedAlternative(
        alternative, solution, tpot_s / now_tpot_s, latency_s / now_latency_s, per_gpu / now_per_gpu
    )


def _speeds(question: EstimateQuestion, serving: Serving) -> tuple[float, float, float]:
    """Time per token, time of a whole answer, and answers per second and GPU."""
    tpot_s, steps = float(serving.tpot_s[0]), float(question.lengths.output_tokens) - 1
    per_gpu = float(serving.requests_per_s[0]) / int(question.candidates.num_devices[0])
    return tpot_s, float(serving.ttft_s[0]) + steps * tpot_s, per_gpu


def _is_held(question: EstimateQuestion, solution: EstimateSolution) -> bool:
    return question.load.scenario != "static_batch" or question.load.amount <= solution.largest_batch


def fastest(tried: Sequence[SolvedAlternative], goal: Goal) -> list[SolvedAlternative]:
    """The greatest gains, few of a kind; at the end what serves most per GPU, unless it is there already."""
    chosen: list[SolvedAlternative] = []
    for solved in tried:
        alike = sum(solved.alternative.kind == s.alternative.kind for s in chosen)
        if solved.gain_ratio(goal) > LEAST_GAIN_RATIO and alike < MOST_OF_A_KIND and len(chosen) < MOST_CHANGES:
            chosen.append(solved)
    most = max(tried, key=lambda s: s.throughput_per_gpu_ratio, default=None)
    if most is None or most in chosen or most.throughput_per_gpu_ratio < MORE_PER_GPU_RATIO:
        return chosen
    return [*chosen, most]
