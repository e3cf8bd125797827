"""Several models planned together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from pydantic import SerializerFunctionWrapHandler, model_serializer

from gpufleet.answers import decoder_service, encoder_plans
from gpufleet.answers.fleet_plan import fleet_plan
from gpufleet.answers.service_plan import Context, deployment
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.encoder_services import EncoderServeRequest, encoder_answered, solved_encoder
from gpufleet.api.envelope import in_full
from gpufleet.api.launches import launched, serve_launches, tenant_launch
from gpufleet.api.machine_notes import doubts_of
from gpufleet.api.plans import answered
from gpufleet.api.serve_questions import Prepared, prepare
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.architecture import Architecture
from gpufleet.errors import UsageError, named
from gpufleet.optimize.copies.decoder import SolvedWriter
from gpufleet.optimize.copies.encoder import EncoderServeQuestion, EncoderServeSolution
from gpufleet.optimize.market import PricedPlacement
from gpufleet.optimize.together import Group, Together, planned_together
from gpufleet.questions.fields import ServeRequest
from gpufleet.results.encoders import EncoderServePlan
from gpufleet.results.fleet import FleetPlan, SharedDeployment
from gpufleet.results.plan import RentedService, ServicePlan

P = TypeVar("P", bound=ServicePlan)
MOST_MODELS = 20
SHARING = (
    "Models share machines only where all of their replicas fit the same offer; latency is computed with "
    "each replica on GPUs of its own"
)


class FleetAnswer(FleetPlan):
    """A plan of several models that says what it rests on when it is written down."""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        founded = [plan.with_basis() if isinstance(plan, ServeAnswer) else plan for plan in self.plans]
        return dict(write(self.model_copy(update={"plans": founded})))


def plan_fleet(
    requests: Sequence[ServeRequest | EncoderServeRequest],
    budget_usd_per_hour: float | None = None,
    catalog: Catalog | None = None,
) -> FleetAnswer:
    """The cheapest machines for several models, each with its own demand, within one budget.

    Each model is planned alone; then replicas of several models that write share machines where that saves; encoders
    keep machines of their own. GPUs are never shared, machines are. Quotas, reservations and one's own racks hold for
    the sum of all models; where they are too small, `missing` says for what.

    >>> asked = [ServeRequest("llama-3.1-8b", 5.0, 1000, 200), ServeRequest("qwen3-32b", 1.0, 1000, 200)]
    >>> fleet = plan_fleet(asked)
    >>> fleet.usd_per_hour <= fleet.usd_per_hour_apart
    True
    """
    if not 1 <= len(requests) <= MOST_MODELS:
        expected = f"from 1 to {MOST_MODELS}"
        raise UsageError("the number of models is out of range", found=len(requests), expected=expected)
    if budget_usd_per_hour is not None and not budget_usd_per_hour > 0:
        raise UsageError("the budget is out of range", found=budget_usd_per_hour, expected="USD per hour above 0")
    writers = [request for request in requests if isinstance(request, ServeRequest)]
    if any(request.fleet_today is not None for request in writers):
        raise UsageError(
            "today's fleet together with several models", hint="Ask about one model and its machines at a time."
        )
    tables = load_catalog() if catalog is None else catalog
    every = [solved_by_name(request, tables) for request in writers]
    pairs = [(prepared.question, prepared.solution) for prepared in every]
    plans = [answered(prepared) for prepared in every]
    encoders = [planned_encoder(r, tables) for r in requests if isinstance(r, EncoderServeRequest)]
    are_served = all(plan.deployments for plan in (*plans, *(encoder.plan for encoder in encoders)))
    found = planned_together(pairs, [e.pair for e in encoders]) if are_served else Together([], None, [])
    own = found.own_machines
    plans = [
        on_own_machines(plan, request, pair, own[model]) if model in own else plan
        for model, (plan, request, pair) in enumerate(zip(plans, writers, pairs, strict=True))
    ]
    encoder_plans = [
        encoder_on_own_machines(encoder, own[model]) if model in own else encoder.plan
        for model, encoder in enumerate(encoders, len(plans))
    ]
    shares = [SHARING] if any(group.shared is not None for group in found.groups) else []
    fleet = fleet_plan(
        plans, encoder_plans, pairs, [e.pair for e in encoders], found, budget_usd_per_hour, tables.sources, shares
    )
    started = with_launches(fleet.shared, found.groups, writers, pairs)
    doubts = doubts_of([*started, *(d for plan in fleet.every_plan for d in plan.deployments[:1])])
    told = FleetAnswer.model_construct(**{**dict(fleet), "shared": started, "notes": [*doubts, *fleet.notes]})
    return in_full(told, tables, *requests, {"budget": budget_usd_per_hour})


def solved_by_name(request: ServeRequest, tables: Catalog) -> Prepared:
    """One model that writes, solved alone."""
    name = request.model.name if isinstance(request.model, Architecture) else request.model
    with named(name):
        return prepare(request, tables)


class PlannedEncoder(NamedTuple):
    """A model that is not a decoder: its question, solved, and its plan alone."""

    pair: tuple[EncoderServeQuestion, EncoderServeSolution]
    plan: EncoderServePlan


def planned_encoder(request: EncoderServeRequest, tables: Catalog) -> PlannedEncoder:
    """One encoder, planned alone."""
    with named(request.model):
        question, solution, choices, missed = solved_encoder(request, tables)
    plan = encoder_answered(request, question, solution, choices, missed, tables)
    return PlannedEncoder((question, solution), plan)


def encoder_on_own_machines(encoder: PlannedEncoder, priced: PricedPlacement) -> EncoderServePlan:
    """The plan of an encoder with the machines that it gets as its answer."""
    (question, solution), plan = encoder
    if priced == solution.ranked[0]:
        return plan
    answer = deployment(encoder_plans.SERVICE, Context.of(question, solution), priced)
    return with_answer(plan, answer)


def gives_way(plan: ServicePlan) -> str:
    """Why a model does not get its cheapest machines."""
    first = plan.deployments[0]
    machines = f"{first.instance_count}x {first.cloud} {first.instance}"
    why = "other models need them more under the shared quota, reservation or rack"
    return f"{plan.model}: {machines} would cost less, and {why}"


def on_own_machines(
    plan: ServeAnswer, request: ServeRequest, pair: SolvedWriter, priced: PricedPlacement
) -> ServeAnswer:
    """The plan with the machines that its model gets as its answer, where others need those that are cheapest."""
    question, solution = pair
    if priced == solution.ranked[0]:
        return plan
    alone = deployment(decoder_service.SERVICE, Context.of(question, solution), priced)
    [answer] = launched([alone], serve_launches(request.model, question, solution, [priced]))
    return with_answer(plan, answer, flips=None, mix=None, looser_limits=[], levers=[], edges=[])


def with_answer(plan: P, answer: RentedService, **of_its_own: object) -> P:
    """The plan with other machines as its answer, and nothing more that was said of those that it had."""
    others = [d for d in plan.deployments if key_of_row(d) != key_of_row(answer)]
    notes = [*plan.notes, gives_way(plan)]
    said = {"deployments": [answer, *others], "certainty": [], "for_certainty": None, "notes": notes}
    return plan.model_copy(update={**of_its_own, **said})


def key_of_row(d: RentedService) -> tuple[str, str, str]:
    """What a row of the ranking stands for."""
    return d.cloud, d.instance, d.price_kind


def with_launches(
    shared: Sequence[SharedDeployment],
    groups: Sequence[Group],
    requests: Sequence[ServeRequest],
    solved_ones: Sequence[SolvedWriter],
) -> list[SharedDeployment]:
    """Shared machines whose tenants say how each replica is started."""
    told = []
    for machines, held in zip(shared, (g.shared for g in groups if g.shared is not None), strict=True):
        started = [
            plan.model_copy(update={"launch": tenant_launch(requests[t.model].model, *solved_ones[t.model], t.row)})
            for plan, t in zip(machines.tenants, held.tenants, strict=True)
        ]
        told.append(machines.model_copy(update={"tenants": started}))
    return told
