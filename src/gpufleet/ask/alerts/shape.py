"""The files that watch a plan."""

from __future__ import annotations

from gpufleet.results.answer import Answer
from gpufleet.results.base import Result
from gpufleet.results.deployed import DeployedFile, DeployedStep


class AlertRow(Result):
    """One alert on a group of copies: what is wrong, for how long before it fires, and what to do.

    `fires_when_absent`: it fires too where its metric is absent, without a twin for that.
    """

    copies: str
    name: str
    severity: str
    for_s: float
    summary: str
    action: str
    command: str
    fires_when_absent: bool = False


class AlertFiles(Answer):
    """Everything that watches the copies of a plan.

    `alerts` are all rules but the twins that fire where a metric is absent. There are `num_twins` of those, or of
    alerts that fire then too; `unwatched` is what of the plan no rule holds, with why. `plan_hash` is that of the plan.
    """

    target: str
    models: list[str]
    usd_per_hour: float
    alerts: list[AlertRow]
    num_twins: int
    unwatched: list[str]
    files: list[DeployedFile]
    steps: list[DeployedStep]
    plan_hash: str
