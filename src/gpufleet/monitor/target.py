"""What a target of `alerts` is: the files that a tool reads, and the commands in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpufleet.monitor.rules import RuleGroup, Watching
from gpufleet.monitor.watched import WatchedPlan
from gpufleet.records import dataclass
from gpufleet.results.deployed import DeployedFile, DeployedStep

Files = Callable[[WatchedPlan, Sequence[RuleGroup]], Sequence[DeployedFile]]
Steps = Callable[[WatchedPlan], Sequence[DeployedStep]]


@dataclass(frozen=True, eq=False)
class Target:
    """What reads the files. `title` is its name in a sentence.

    `watched_by` are alerts of its own, where it cannot read rules of Prometheus; one that fires too where its metric is
    absent is its own twin.
    """

    name: str
    title: str
    files: Files
    steps: Steps
    watched_by: Callable[[WatchedPlan], Watching] | None = None


@dataclass(frozen=True, eq=False)
class Beside:
    """What stands beside the rules on a plan: further rules, files, commands, and what has to be said."""

    groups: Sequence[RuleGroup] = ()
    files: Sequence[DeployedFile] = ()
    steps: Sequence[DeployedStep] = ()
    notes: Sequence[str] = ()


def file(name: str, text: str, what: str) -> DeployedFile:
    """A file of the folder."""
    return DeployedFile(name=name, text=text, what=what)


def step(command: str, purpose: str) -> DeployedStep:
    """A command, and what it is for."""
    return DeployedStep(command=command, purpose=purpose)
