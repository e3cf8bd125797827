"""Where a workload could go: every instance that holds the model, judged and ranked by a goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from gpufleet.compat.classic.arithmetic import Setup, gpus_needed, memory_needed_gb, monthly_saving_usd
from gpufleet.compat.classic.config import Config
from gpufleet.compat.classic.judgement import Judgement, Level, complexity, risk
from gpufleet.compat.classic.names import Goal, WorkloadType
from gpufleet.compat.classic.records import PrecisionFormat, SizeClass
from gpufleet.optimize.links import GPUS_OF_A_MACHINE
from gpufleet.records import dataclass
from gpufleet.units import PERCENT

MOST_OPTION_GPUS = 64
GPU_COUNTS = (*range(1, GPUS_OF_A_MACHINE), *range(GPUS_OF_A_MACHINE, MOST_OPTION_GPUS + 1, GPUS_OF_A_MACHINE))
"""Numbers of GPUs that are tried: any of one machine, then whole machines."""
LEAST_BYTES_TRAINED = 2
ASSUMED_REQUESTS_PER_S = 1.0
USUAL_GOAL = {
    WorkloadType.TRAINING: Goal.PERFORMANCE,
    WorkloadType.FINE_TUNING: Goal.COST,
    WorkloadType.INFERENCE: Goal.COST,
}


@dataclass(frozen=True)
class Question:
    """What runs today, and what it is for."""

    today: Setup
    work: WorkloadType
    size: SizeClass
    precision: PrecisionFormat
    goal: Goal
    needed_gb: float
    requests_per_s: float | None = None

    @property
    def load_requests_per_s(self) -> float:
        """The scenario's own use, which catalog and model judge by; assumed where it does not say."""
        return self.requests_per_s or ASSUMED_REQUESTS_PER_S

    @property
    def overhead(self) -> float:
        """What the weights are multiplied by."""
        return self.needed_gb / (self.size.parameter_count_billion * self.precision.bytes_per_parameter)

    @property
    def fits_today(self) -> bool:
        """Whether today's GPUs hold the model."""
        return self.today.gpu_count >= gpus_needed(self.needed_gb, self.today.instance)


@dataclass(frozen=True)
class Option:
    """A setup that holds the model, beside today's."""

    setup: Setup
    is_today: bool
    saving_usd: float
    saving_percent: float
    speed_ratio: float
    risk: Judgement
    complexity: Judgement


def options(config: Config, question: Question) -> list[Option]:
    """For each instance the fewest GPUs that hold the model, and as many as today; the setup of today among them."""
    return [option(question, setup) for i in config.instances for setup in _setups(config, question, i)]


def _setups(config: Config, question: Question, key: str) -> list[Setup]:
    instance, today = config.instances[key], question.today
    least = gpus_needed(question.needed_gb, instance)
    most = max(MOST_OPTION_GPUS, today.gpu_count)
    counts = sorted({least, max(least, today.gpu_count)})
    return [replace(today, instance=instance, gpu_count=count) for count in counts if count <= most]


def option(question: Question, setup: Setup) -> Option:
    """One setup judged against today's."""
    today = question.today
    saving = monthly_saving_usd(today, setup)
    return Option(
        setup=setup,
        is_today=setup == today,
        saving_usd=saving,
        saving_percent=saving / today.monthly_usd * PERCENT,
        speed_ratio=setup.speed / today.speed,
        risk=risk(today, setup, question.work, question.needed_gb),
        complexity=complexity(today, setup),
    )


def ranked(found: Sequence[Option], goal: Goal, needed_gb: float) -> list[Option]:
    """Best first. Cost: cheapest, high risk last. Performance: fastest. Reliability: least risk, then least work."""
    keys = {
        Goal.COST: lambda o: (o.risk.level is Level.HIGH, o.setup.monthly_usd, -o.speed_ratio),
        Goal.PERFORMANCE: lambda o: (-o.speed_ratio, o.setup.monthly_usd),
        Goal.RELIABILITY: lambda o: (
            o.risk.level,
            o.complexity.level,
            not o.is_today,
            needed_gb / o.setup.memory_gb,
            o.setup.monthly_usd,
        ),
    }
    return sorted(found, key=keys[goal])


class Remedy(NamedTuple):
    """One way to make a model fit, with its numbers."""

    text: str
    setup: Setup | None


def remedies(config: Config, question: Question) -> list[Remedy]:
    """The seeds' three solutions of 'CANNOT FIT MODEL', worked out: less precision, more GPUs, larger GPUs."""
    return [*_smaller_precision(config, question), *_more_gpus(question), *_larger_gpus(config, question)]


def _smaller_precision(config: Config, question: Question) -> list[Remedy]:
    q, found = question, []
    lighter = [p for p in config.precisions.values() if p.bytes_per_parameter < q.precision.bytes_per_parameter]
    for precision in sorted(lighter, key=lambda p: (-p.bytes_per_parameter, p.key != "int8")):
        needed = memory_needed_gb(config, q.size, precision, q.work)
        fits = q.today.gpu_count >= gpus_needed(needed, q.today.instance)
        verdict = f"fits {q.today.label}" if fits else f"still too large for {q.today.label}"
        if q.work is WorkloadType.TRAINING and precision.bytes_per_parameter < LEAST_BYTES_TRAINED:
            verdict += "; seldom trained in"
        found.append(Remedy(f"Use {precision.name}: {needed:,g} GB needed, {verdict}.", q.today if fits else None))
    return found or [Remedy(f"No precision is smaller than {q.precision.name}.", None)]


def _more_gpus(question: Question) -> list[Remedy]:
    q = question
    setup = replace(q.today, gpu_count=gpus_needed(q.needed_gb, q.today.instance))
    cost = f"${setup.monthly_usd:,.0f} a month"
    return [Remedy(f"Increase the GPU count: {setup.label} have {setup.memory_gb:,g} GB, {cost}.", setup)]


def _larger_gpus(config: Config, question: Question) -> list[Remedy]:
    q = question
    larger = [i for i in config.instances.values() if i.gpu_memory_gb > q.today.instance.gpu_memory_gb]
    found = []
    for instance in sorted(larger, key=lambda i: -i.gpu_memory_gb)[:2]:
        setup = replace(q.today, instance=instance, gpu_count=gpus_needed(q.needed_gb, instance))
        memory = f"{instance.gpu_memory_gb:g} GB per GPU"
        found.append(
            Remedy(f"Choose more memory per GPU: {setup.label} ({memory}), ${setup.monthly_usd:,.0f} a month.", setup)
        )
    return found or [Remedy(f"No instance has more memory per GPU than {q.today.instance.key}.", None)]
