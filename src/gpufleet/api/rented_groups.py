"""What a plan rents as groups of equal copies: what is deployed, and what is watched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpufleet.api.cold_starts import cold_start_of
from gpufleet.deploy.serving_copies import LEAST_START_S
from gpufleet.errors import GpufleetError, Infeasible, UsageError
from gpufleet.languages import MOST_OF_A_LABEL, distinct_names, label_name
from gpufleet.records import dataclass
from gpufleet.results.base import Launch
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import Deployment, MixPart, ServePlan

UNKNOWN_START_S = 1800
LONGER_START = 2.0
"""Of the cold start at its high end; a judgement, as the 30 min of a start that nobody can foresee."""
BYTES_OF_A_PARAMETER = 2.0
PLAN_AGAIN = "Plan again, with -o json."
VERSION_WORDS = ("engine_version", "engine-version")


@dataclass(frozen=True, eq=False)
class Group:
    """Equal copies of one model that a plan advises to rent."""

    name: str
    plan: ServePlan
    deployment: Deployment
    launch: Launch
    engine_version: str | None
    share_ratio: float = 1.0

    @property
    def model(self) -> str:
        """The model that they serve."""
        return self.plan.model


def groups_of(plan: ServePlan | FleetPlan, what: str = "deployed") -> Iterator[Group]:
    """What a plan rents: of each model its answer, or both parts of two offers; `what` is not done of encoders."""
    plans = plan.plans if isinstance(plan, FleetPlan) else [plan]
    if isinstance(plan, FleetPlan) and plan.encoder_plans:
        raise UsageError(f"plans of encoders are not {what} yet", expected="plans of models that write")
    for one in plans:
        parts = [(d, 1.0) for d in one.deployments[:1]]
        parts = parts or [(part.deployment, part.share_ratio) for part in parts_of_mix(one)]
        if not parts:
            raise Infeasible(f"the plan of {one.model} serves nothing", hint="The plan says why.")
        for number, (deployment, share) in enumerate(parts, 1):
            if deployment.launch is None:
                raise UsageError(f"the plan of {one.model} names no command", hint=PLAN_AGAIN)
            name = one.model if len(parts) == 1 else f"{one.model}-{number}"
            yield Group(name, one, deployment, deployment.launch, engine_version_of(one), share)


def parts_of_mix(plan: ServePlan) -> Sequence[MixPart]:
    """Two offers that serve together where none serves alone."""
    return () if plan.deployments or plan.mix is None else plan.mix.parts


def engine_version_of(plan: ServePlan) -> str | None:
    """The version of the engine that was asked for, of `vllm==0.19.1` too; None where nobody said one."""
    asked: dict[str, object] = {word.word: word.value for word in plan.question}
    if plan.basis is not None:
        asked.update(plan.basis.question)
    _, _, version = str(asked.get("engine") or "").partition("==")
    return version or next((str(asked[name]) for name in VERSION_WORDS if asked.get(name)), None)


def names_of(groups: Sequence[Group]) -> dict[str, str]:
    """By the name of a group: how files of Kubernetes name it."""
    return distinct_names((group.name for group in groups), label_name, MOST_OF_A_LABEL)


def start_of(group: Group) -> tuple[int, float]:
    """Seconds that a start may take, twice the high end of what is expected, and bytes of weights."""
    d = group.deployment
    try:
        found = cold_start_of(group.model, f"{d.gpu}:{d.gpus_per_replica}", d.engine, precision=d.weight_format)
    except GpufleetError:
        return UNKNOWN_START_S, BYTES_OF_A_PARAMETER * group.plan.num_parameters
    seconds = found.seconds.high if found.seconds.high and math.isfinite(found.seconds.high) else UNKNOWN_START_S
    return math.ceil(max(LONGER_START * seconds, LEAST_START_S)), found.weights_bytes
