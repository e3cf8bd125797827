"""How risky a move is and how much work it takes: a level, and the reasons that lead to it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.compat.classic.names import WorkloadType
from gpufleet.records import dataclass

CROWDED, MUCH_SLOWER, FAR_SLOWER, WEAK_LINK = 0.9, 0.5, 0.1, 0.6


class Level(IntEnum):
    """Low, Medium or High."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3

    @property
    def title(self) -> str:
        """As a report prints it."""
        return self.name.capitalize()


@dataclass(frozen=True)
class Judgement:
    """The highest level of any reason, and all reasons."""

    level: Level
    reasons: tuple[str, ...]


def judged(found: Iterable[tuple[Level, str]], otherwise: str) -> Judgement:
    """The judgement that reasons amount to; without any it is Low, and `otherwise` says why."""
    reasons = sorted(found, key=lambda reason: -reason[0])
    if not reasons:
        return Judgement(Level.LOW, (otherwise,))
    return Judgement(reasons[0][0], tuple(text for _, text in reasons))


def risk(today: Setup, option: Setup, work: WorkloadType, needed_gb: float) -> Judgement:
    """What may go wrong after the move."""
    found: list[tuple[Level, str]] = []
    full, speed = needed_gb / option.memory_gb, option.speed / today.speed
    if full > CROWDED:
        found.append((Level.MEDIUM, f"memory is {full:.0%} full: longer contexts or larger batches may not fit"))
    if speed < MUCH_SLOWER:
        level = Level.HIGH if speed < FAR_SLOWER else Level.MEDIUM
        found.append((level, f"{speed:.2f}x today's computed speed: enough only if today's GPUs are mostly idle"))
    if option.machines > 1:
        level = Level.HIGH if option.machines > today.machines else Level.MEDIUM
        found.append((level, f"one model on {option.machines} machines: a network instead of a link between its parts"))
    weak_link = option.gpu_count > 1 and option.instance.interconnect_multiplier < WEAK_LINK
    if weak_link and work is not WorkloadType.INFERENCE:
        found.append((Level.MEDIUM, f"{option.instance.interconnect_type} between GPUs slows gradient exchange"))
    if work is WorkloadType.INFERENCE and option.use_spot:
        found.append(
            (Level.MEDIUM, "spot capacity can be reclaimed at short notice: avoid it for production inference")
        )
    return judged(found, "nothing changes" if option == today else "fits with room, and is fast enough beside today")


def complexity(today: Setup, option: Setup) -> Judgement:
    """How much work the move takes."""
    found: list[tuple[Level, str]] = []
    here, there = today.instance, option.instance
    if there.gpu_type.split()[0].casefold() != here.gpu_type.split()[0].casefold():
        found.append((Level.HIGH, f"another GPU vendor: {here.gpu_type} to {there.gpu_type}"))
    if there.family != here.family:
        found.append((Level.MEDIUM, f"from family {here.family} to {there.family}: images, quotas, tests, network"))
    if (option.gpu_count > 1) != (today.gpu_count > 1):
        words = "must be split over" if option.gpu_count > 1 else "needs no splitting on"
        found.append((Level.MEDIUM, f"the model {words} {option.gpu_count} GPU{'s' * (option.gpu_count > 1)}"))
    if option.machines > max(1, today.machines):
        found.append((Level.HIGH, f"{option.machines} machines instead of {today.machines} work on one model"))
    if option == today:
        return judged(found, "nothing moves")
    same = "same instance type, another number of GPUs" if there == here else f"same family {there.family}"
    return judged(found, same)
