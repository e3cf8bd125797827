"""The files that start a plan on a target."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.deployed import DeployedFile, DeployedStep


class DeployedPlan(Answer):
    """Everything that starts the copies of a plan on `target`, and what they cost an hour.

    `steps` are the commands in their order: what starts it, shows that it works, takes it down. `plan_hash` is that of
    the plan.
    """

    target: str
    models: list[str]
    machines: list[str]
    usd_per_hour: float
    files: list[DeployedFile]
    steps: list[DeployedStep]
    plan_hash: str
