"""Several GPUs: the seeds' efficiency beside the output tokens that our model gives the same GPUs when they serve."""

from __future__ import annotations

from typing import Any

from gpufleet.api import estimate
from gpufleet.compat.rules.scaling import CUT_OFF, ParallelismStrategy, calculate_multi_gpu_efficiency, strategy_of
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, given
from gpufleet.compat.rules_today.questions import ScalingQuestion
from gpufleet.compat.rules_today.stand_ins import StandIn, model_of, parameters_of
from gpufleet.errors import Infeasible
from gpufleet.questions.words import filled
from gpufleet.results.base import Figure
from gpufleet.results.estimate import ServingEstimate
from gpufleet.units import GB

SOURCE = "GPU Infrastructure & Computational Requirements, 'Multi-GPU Scaling' (finished here, see below)"
FP16_BYTES = 2
INPUT_TOKENS, OUTPUT_TOKENS = 1000, 200


def scaling_answer(q: ScalingQuestion) -> RuleAnswer:
    """Memory, efficiency and speedup by strategy, beside our speedup in serving; a named model is in FP16."""
    if q.model is not None and "model_size_gb" not in q.said:
        q = filled(q, model_size_gb=FP16_BYTES * parameters_of(q.model) / GB)
    load = q.model_size_gb, q.batch, q.overhead
    rules = {s: calculate_multi_gpu_efficiency(q.num_gpus, s, *load) for s in map(strategy_of, q.strategies)}
    stand_in = model_of(q.model, q.model_size_gb * GB / FP16_BYTES)
    alone = serving(stand_in, q.gpu, 1, q.batch)
    rows = [row for strategy, rule in rules.items() for row in strategy_rows(q, strategy, rule, stand_in, alone)]
    return RuleAnswer(
        rule="scaling",
        question=f"{q.num_gpus} GPUs, {q.model_size_gb:,.4g} GB of model, batch {q.batch}.",
        source=SOURCE,
        inputs=[given("communication overhead", f"{q.overhead:g}", "overhead" in q.said)],
        tables=[RuleTable(title="strategy", rows=rows)],
        differences=differences(q),
        notes=[
            CUT_OFF,
            *(f"{strategy.name.lower()}: {rule['recommendation']}" for strategy, rule in rules.items()),
            stand_in.note,
            f"Our speedup is in output tokens/s against one {q.gpu}, {INPUT_TOKENS} tokens in, {OUTPUT_TOKENS} out.",
            *([f"One {q.gpu} has no answer: {alone}."] if isinstance(alone, str) else []),
        ],
    )


def strategy_rows(
    q: ScalingQuestion,
    strategy: ParallelismStrategy,
    rule: dict[str, Any],
    stand_in: StandIn,
    alone: ServingEstimate | str,
) -> list[RuleRow]:
    """What one strategy does to memory and to speed."""
    name = strategy.name.lower()
    together = serving_together(q, strategy, stand_in)
    efficiency, speedup, why_not = None, None, together if isinstance(together, str) else ""
    if isinstance(together, ServingEstimate) and isinstance(alone, ServingEstimate):
        copies = q.num_gpus / together.num_gpus
        times = copies * together.output_tokens_per_s.value / alone.output_tokens_per_s.value
        speedup = Figure(value=times, unit="", grade=together.grade)
        efficiency = Figure(value=times / q.num_gpus, unit="", grade=together.grade)
    return [
        RuleRow(name=f"{name}: memory per GPU", unit="GB", seed=rule["memory_per_gpu_gb"]),
        RuleRow(name=f"{name}: efficiency", seed=rule["scaling_efficiency"], ours=efficiency),
        RuleRow(name=f"{name}: speedup", seed=rule["effective_speedup"], ours=speedup, ours_text=why_not),
    ]


def serving_together(q: ScalingQuestion, strategy: ParallelismStrategy, stand_in: StandIn) -> ServingEstimate | str:
    """One of the copies that share the batch, all stages, or one sharded copy; or why there is no answer."""
    if strategy is ParallelismStrategy.MODEL:
        return "no engine splits layers without stages"
    if strategy is ParallelismStrategy.DATA:
        if q.batch < q.num_gpus:
            return "fewer sequences than GPUs"
        return serving(stand_in, q.gpu, 1, q.batch / q.num_gpus)
    stages = q.num_gpus if strategy is ParallelismStrategy.PIPELINE else 1
    return serving(stand_in, q.gpu, q.num_gpus, q.batch, stages)


def serving(stand_in: StandIn, gpu: str, num_gpus: int, concurrency: float, stages: int = 1) -> ServingEstimate | str:
    """One copy under so many clients, or why there is no answer."""
    try:
        return estimate(
            stand_in.asked,
            (gpu, num_gpus),
            input_tokens=INPUT_TOKENS,
            output_tokens=OUTPUT_TOKENS,
            concurrency=concurrency,
            tp=num_gpus // stages,
            pp=stages,
            launch=False,
        )
    except Infeasible as error:
        return error.problem


def differences(q: ScalingQuestion) -> list[str]:
    """What a constant share of communication hides."""
    return [
        "The seed means training, which 'gpufleet plan train' lays out; ours here serves the same batch on the same "
        "GPUs.",
        f"The seed loses a fixed {q.overhead:.0%} to communication whatever link, GPU and model are; ours times each "
        "exchange over the link, so that a small model gains little from many GPUs.",
        "In serving, copies share the batch: each reads all weights for fewer sequences, so their speedup is below the "
        "number of GPUs unless the batch grows with it.",
    ]
