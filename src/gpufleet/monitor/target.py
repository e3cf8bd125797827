"""What a target of `alerts` is: the files that a tool reads, and the commands in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpufleet.monitor.rules import RuleGroup
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.records import dataclass
from gpufleet.results.deployed import DeployedFile, DeployedStep

Files = Callable[[WatchedPlan, Sequence[RuleGroup]], Sequence[DeployedFile]]
Steps = Callable[[WatchedPlan], Sequence[DeployedStep]]


@dataclass(frozen=True, eq=False)
class Target:
    """What reads the files. `title` is its name in a sentence."""

    name: str
    title: str
    files: Files
    steps: Steps


def file(name: str, text: str, what: str) -> DeployedFile:
    """A file of the folder."""
    return DeployedFile(name=name, text=text, what=what)


def step(command: str, purpose: str) -> DeployedStep:
    """A command, and what it is for."""
    return DeployedStep(command=command, purpose=purpose)
