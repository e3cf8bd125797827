"""Several models planned together."""

from __future__ import annotations

from pydantic import computed_field

from gpufleet.results.answer import Answer
from gpufleet.results.base import Figure, Launch, Result
from gpufleet.results.encoders import EncoderServePlan
from gpufleet.results.plan import ServePlan, ServicePlan
from gpufleet.results.rented import OfferedMachines
from gpufleet.results.seal import Sealed


class TenantPlan(Result):
    """Replicas of one model, the `plan`-th of the fleet from 0, on machines that it shares, and their latencies."""

    plan: int
    model: str
    replicas: int
    layout: str
    weight_format: str
    gpus_per_replica: int
    latency: dict[str, Figure] = {}
    launch: Launch | None = None


class SharedDeployment(OfferedMachines):
    """Machines of one offer that hold replicas of several models."""

    price_per_instance_usd_per_hour: float
    usd_per_hour: float
    idle_gpus: int
    tenants: list[TenantPlan]


class MissingMachines(Result):
    """Machines of which a quota, a reservation or one's own rack holds fewer than all models together need.

    `gpu_quota`: a quota of GPUs that machines of several types share; then both numbers count GPUs.
    """

    cloud: str
    region: str
    instance: str
    price_kind: str
    can_be_had: int
    needed: int
    gpu_quota: str | None = None


class FleetPlan(Sealed, Answer):
    """Plans of several models, machines that they share, and what all costs.

    `missing`: machines of which all models together need more than can be had; then nothing is planned for them
    together. `plans` are of each model alone that writes, in the order that they were asked, `encoder_plans` of those
    that do not; where a model is a tenant of `shared`, its first deployment is what it would take apart.
    `held_confidences`: how surely each model keeps its limits on the machines that it gets, in the order of the plans;
    `held_together`: how surely all do at once. `usd_per_hour` is of all together, `usd_per_hour_apart` with machines of
    its own for each, None where there are too few. A file also says `is_feasible`, and by itself what may break that:
    `unserved`, `is_within_budget`.
    """

    plans: list[ServePlan]
    encoder_plans: list[EncoderServePlan] = []
    shared: list[SharedDeployment]
    missing: list[MissingMachines] = []
    held_confidences: list[float] = []
    held_together: float | None = None
    usd_per_hour: float | None
    usd_per_hour_apart: float | None
    usd_per_month: float | None
    budget_usd_per_hour: float | None

    @property
    def every_plan(self) -> list[ServicePlan]:
        """The plans of all models, encoders last."""
        return [*self.plans, *self.encoder_plans]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def unserved(self) -> list[str]:
        """Models that no offer serves alone."""
        return [plan.model for plan in self.every_plan if not plan.deployments]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_within_budget(self) -> bool:
        """Whether all is served for what may be spent."""
        if self.usd_per_hour is None:
            return False
        return self.budget_usd_per_hour is None or self.usd_per_hour <= self.budget_usd_per_hour

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_feasible(self) -> bool:
        """Whether every model is served, within the budget."""
        return not self.unserved and self.is_within_budget
