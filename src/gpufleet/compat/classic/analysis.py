"""One question answered by the classic arithmetic: options, the best for each goal, what is wrong, what to do."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.compat.classic.arithmetic import gpus_needed
from gpufleet.compat.classic.config import Config
from gpufleet.compat.classic.names import Goal, WorkloadType
from gpufleet.compat.classic.options import Option, Question, Remedy, options, ranked, remedies
from gpufleet.compat.classic.troubles import BY_KEY, Trouble
from gpufleet.records import dataclass

OVER_PROVISIONED = 0.5
TIPS = {
    WorkloadType.TRAINING: "Training: use P-series instances with NVSwitch for large models.",
    WorkloadType.INFERENCE: "Inference: G-series often provides better cost efficiency.",
    WorkloadType.FINE_TUNING: "Fine-tuning: consider G6e as cost-effective alternative to P-series.",
}
SPOT_TIPS = {
    True: "Spot instances: checkpoint often, they can be interrupted; avoid them for production inference.",
    False: "Spot instances: use them for training, avoid them for production inference.",
}


@dataclass(frozen=True)
class Analysis:
    """The classic answer. `ranked` is by the goal of the question; without options nothing holds the model."""

    question: Question
    ranked: tuple[Option, ...]
    best: Mapping[Goal, Option]
    remedies: tuple[Remedy, ...]
    troubles: tuple[Trouble, ...]
    tips: tuple[str, ...]
    as_fast_for_least: Option | None

    @property
    def recommended(self) -> Option | None:
        """The best option by the goal of the question."""
        return self.ranked[0] if self.ranked else None


def analysis(config: Config, question: Question) -> Analysis:
    """Everything that the classic arithmetic says about a question."""
    found = options(config, question)
    orders = {goal: ranked(found, goal, question.needed_gb) for goal in Goal}
    as_fast = [o for o in orders[Goal.COST] if o.speed_ratio >= 1]
    return Analysis(
        question=question,
        ranked=tuple(orders[question.goal]),
        best={goal: order[0] for goal, order in orders.items() if order},
        remedies=() if question.fits_today else tuple(remedies(config, question)),
        troubles=tuple(_troubles(question, orders[question.goal])),
        tips=(TIPS[question.work], SPOT_TIPS[question.today.use_spot], memory_tip(config, question)),
        as_fast_for_least=as_fast[0] if as_fast else None,
    )


def memory_tip(config: Config, question: Question) -> str:
    """What other precisions would do to the size."""
    base = config.precisions.get("fp32")
    if base is None or base == question.precision:
        return "Precision impact: FP16 uses 50% memory vs FP32, INT8 uses 25%."
    share = question.precision.bytes_per_parameter / base.bytes_per_parameter
    return f"Precision impact: {question.precision.name} uses {share:.0%} memory vs FP32."


def _troubles(question: Question, order: list[Option]) -> list[Trouble]:
    """Which of the seeds' symptoms this question shows."""
    q, found = question, []
    if not q.fits_today:
        found.append(BY_KEY["cannot_fit"])
    if q.fits_today and q.needed_gb / q.today.memory_gb < OVER_PROVISIONED and not q.today.use_spot:
        found.append(BY_KEY["high_cost"])
    if order and order[0].is_today and gpus_needed(q.needed_gb, q.today.instance) <= q.today.gpu_count:
        found.append(BY_KEY["low_performance"])
    return found
