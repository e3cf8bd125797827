"""A plan of some day made again today: what changed since it was written, and what is asked otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike

from gpufleet.answers.other_machines import best_of
from gpufleet.answers.plan_changes import cheapest_by_key, digest_changes, key_of_price, price_changes
from gpufleet.api.answers import ServeAnswer
from gpufleet.api.envelope import in_full
from gpufleet.api.fleets import plan_fleet
from gpufleet.api.plan_basis import machine_digest, request_of
from gpufleet.api.plan_files import notes_on_file, plan_in
from gpufleet.api.plans import plan_serve
from gpufleet.api.serve_questions import architecture_of, serve_question, sold_tables, understood
from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.offer import GpuQuota, Offer, PriceBasis, PriceKind
from gpufleet.errors import DataMissing, UsageError
from gpufleet.optimize.copies.decoder import SolvedWriter
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.promise import solved_as_promised
from gpufleet.optimize.repriced import Market, cheapest_usd, choices_by_one, key_of_offer
from gpufleet.optimize.service import solve_serve
from gpufleet.optimize.together import planned_together
from gpufleet.questions.fields import ServeRequest
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ConsideredPrice, Deployment, PlanBasis, ServePlan
from gpufleet.results.plan_changes import FleetChanges, PlanChanges, QuestionChange, QuotaChange, TypeKey

RECORDED = "recorded in the plan"
WRITTEN, TYPED = "file", ("given", "config")


@dataclass(frozen=True)
class Asked:
    """What a workload file asks today: of one model or of several, with the budget that several share."""

    requests: Sequence[ServeRequest]
    budget_usd_per_hour: float | None = None


def explain_plan(
    plan: ServePlan | FleetPlan | str | PathLike[str],
    catalog: Catalog | None = None,
    asked: Asked | None = None,
    *,
    edited: bool = False,
) -> PlanChanges | FleetChanges:
    """The question of a plan (or of the file of one) asked again today: what is different, and what made it so.

    A file that was edited is refused; with `edited` its question alone is used.
    `asked`: what its workload file asks today; where that is another question, the result says what differs.
    """
    tables = load_catalog() if catalog is None else catalog
    old = plan_in(plan, tables, edited=edited)
    found = changes_of_fleet(old, tables) if isinstance(old, FleetPlan) else changes_of(old, tables)
    found = found.model_copy(update={"notes": notes_on_file(old)})
    found = found if asked is None else asked_otherwise(found, old, asked, tables)
    return in_full(found, tables, {"plan": old.input_hash})


def planned_today(plan: str | PathLike[str], catalog: Catalog, *, edited: bool = False) -> ServeAnswer:
    """The question in the file of a plan planned again, with today's prices."""
    old = plan_in(plan, catalog, edited=edited)
    if isinstance(old, FleetPlan):
        raise UsageError("several models have one answer together", hint="Ask about one model at a time.")
    return plan_serve(request_of(recorded(old)), catalog)


def asked_otherwise(
    found: PlanChanges | FleetChanges, old: ServePlan | FleetPlan, asked: Asked, tables: Catalog
) -> PlanChanges | FleetChanges:
    """What became of a plan, with what its workload file asks otherwise today."""
    refuse_other_models(old, asked)
    if not isinstance(found, FleetChanges) or not isinstance(old, FleetPlan):
        own = question_changes(old, asked.requests[0], tables) if isinstance(old, ServePlan) else []
        return found.model_copy(update={"question_changes": own})
    models = [
        model.model_copy(update={"question_changes": question_changes(plan, request, tables)})
        for model, plan, request in zip(found.models, old.plans, asked.requests, strict=True)
    ]
    return found.model_copy(update={"models": models, "question_changes": changes_of_fleet_question(old, asked)})


def changes_of_fleet(old: FleetPlan, tables: Catalog) -> FleetChanges:
    """What became of the plan of several models: of each, and of what they cost together."""
    refuse_encoders(old, "explained")
    bases = [recorded(plan) for plan in old.plans]
    requests = [request_of(basis) for basis in bases]
    new = plan_fleet(requests, old.budget_usd_per_hour, tables)
    markets = [market_of(request, sold_tables(request, tables)) for request in requests]
    pairs = list(zip(markets, bases, strict=True))
    at_old_prices = best_together([m.at([offer_of(p) for p in b.prices]) for m, b in pairs])
    at_todays_quotas = best_together([m.at(within_todays_quotas(m, b)) for m, b in pairs])
    return FleetChanges(
        models=[
            changes(then, now, market, between, sold_tables(request, tables))
            for then, now, market, between, request in zip(
                old.plans, new.plans, markets, zip(at_old_prices, at_todays_quotas, strict=True), requests, strict=True
            )
        ],
        was_hash=old.input_hash,
        now_hash=new.input_hash,
        was_usd_per_hour=old.usd_per_hour,
        now_usd_per_hour=new.usd_per_hour,
        budget_usd_per_hour=new.budget_usd_per_hour,
        is_feasible=new.is_feasible,
        unserved=new.unserved,
        missing=new.missing,
    )


def best_together(pairs: Sequence[SolvedWriter]) -> list[Deployment | None]:
    """What each of several models gets, or would take apart; alone where limits leave too few machines for all."""
    everyone_served = all(solution.ranked for _, solution in pairs)
    own = planned_together(pairs).own_machines if everyone_served else {}
    return [
        best_of(question, replace(solution, ranked=[own[model]] if model in own else solution.ranked[:1]))
        for model, (question, solution) in enumerate(pairs)
    ]


def best_at(market: Market, offers: Sequence[Offer]) -> Deployment | None:
    """The answer at these prices."""
    question, solution = market.at(offers)
    return best_of(question, replace(solution, ranked=solution.ranked[:1]))


def changes_of(old: ServePlan, tables: Catalog) -> PlanChanges:
    """What became of the plan of one model."""
    refuse_mix(old, "explained")
    basis = recorded(old)
    request = request_of(basis)
    sold = sold_tables(request, tables)
    market = market_of(request, sold)
    at_old_prices = best_at(market, [offer_of(price) for price in basis.prices])
    at_todays_quotas = best_at(market, within_todays_quotas(market, basis))
    return changes(old, plan_serve(request, sold), market, (at_old_prices, at_todays_quotas), sold)


def changes(
    old: ServePlan,
    new: ServePlan,
    market: Market,
    between: tuple[Deployment | None, Deployment | None],
    tables: Catalog,
) -> PlanChanges:
    """A plan beside the one that is made today; `between` at the prices of the plan, within its quotas and today's."""
    basis, today = recorded(old), recorded(new)
    at_old_prices, at_todays_quotas = between
    todays, held = [offer_of(price) for price in today.prices], within_todays_quotas(market, basis)
    return PlanChanges(
        model=old.model,
        was_hash=old.input_hash,
        now_hash=new.input_hash,
        was=old.answer if old.deployments else None,
        at_old_prices=at_old_prices,
        at_todays_quotas=at_todays_quotas,
        now=new.answer if new.deployments else None,
        price_changes=price_changes(
            basis.prices, today.prices, choices_by_one(market, held, recorded_usd(basis), todays), market.first(todays)
        ),
        quota_changes=quota_changes(market, basis),
        digest_changes=digest_changes(basis.digests, today.digests, basis.prices, machines_today(basis.prices, tables)),
        num_prices=len(basis.prices),
        was_today=old.today,
        now_today=new.today,
        is_feasible=new.is_feasible,
        relaxations=new.relaxations,
        rejections=[] if new.is_feasible else new.rejections,
    )


def refuse_mix(plan: ServePlan, what: str) -> None:
    """Two offers together are no row of a ranking that could be found again."""
    if plan.mix is not None and not plan.deployments:
        raise UsageError(f"a plan of two offers together is not {what}", hint="Plan again and see what it says now.")


def refuse_encoders(fleet: FleetPlan, what: str) -> None:
    """Plans of encoders do not say what they rest on: a comparison without them would leave out a part of the cost."""
    if fleet.encoder_plans:
        names = ", ".join(plan.model for plan in fleet.encoder_plans)
        problem = f"a plan of several models with encoders ({names}) is not {what}"
        raise UsageError(problem, hint="Plan again and see what it says now.")


def recorded(plan: ServePlan) -> PlanBasis:
    """What a plan rests on."""
    if plan.basis is None and isinstance(plan, ServeAnswer):
        plan = plan.with_basis()
    if plan.basis is None:
        raise UsageError(f"the plan for {plan.model} does not say what it rests on", hint="Plan again, with -o json.")
    return plan.basis


def market_of(request: ServeRequest, tables: Catalog) -> Market:
    """Today's placements for a request."""
    question, _ = serve_question(request, architecture_of(request), tables)
    said = request.confidence is not None
    question, solution = solved_as_promised(question, lambda q: solve_serve(q, calibration_of(tables)), is_asked=said)
    return Market(question, solution)


def offer_of(price: ConsideredPrice) -> Offer:
    """A recorded price as an offer."""
    try:
        return Offer(
            cloud=price.cloud,
            region=price.region,
            instance=price.instance,
            price_kind=PriceKind(price.price_kind),
            price_per_instance_usd_per_hour=price.usd_per_hour,
            basis=PriceBasis.LIST,
            source=RECORDED,
            as_of=price.as_of,
            max_instances=price.max_instances,
            age_ratio=price.age_ratio,
            gpu_quotas=tuple(GpuQuota(**bound.model_dump()) for bound in price.gpu_quotas),
        )
    except ValueError as error:
        raise DataMissing(f"a price of the plan cannot be read: {error}") from error


def within_todays_quotas(market: Market, basis: PlanBasis) -> list[Offer]:
    """The offers of a plan, of which as many can be had as today.

    A plan records no region that others beat. Where no price of a machine type moved, all its regions of today stand
    for those of then: one that was beaten may be needed where a quota shrank.
    """
    todays = {(key_of_offer(o), o.region): o for o in market.question.offers}
    moved = {key_of_price(p) for p in basis.prices if not is_priced_as(p, todays.get((key_of_price(p), p.region)))}
    moved |= {key for key, usd in cheapest_usd(market.question.offers).items() if usd != recorded_usd(basis).get(key)}
    kept = [bounded_as(todays.get((key_of_price(p), p.region)), p) for p in basis.prices if key_of_price(p) in moved]
    unmoved = {key_of_price(p) for p in basis.prices} - moved
    return [*kept, *(o for o in market.question.offers if key_of_offer(o) in unmoved)]


def bounded_as(today: Offer | None, price: ConsideredPrice) -> Offer:
    """A recorded price, of which as many machines can be had as of today's offer, where there is one."""
    offer = offer_of(price)
    if today is None:
        return offer
    return replace(offer, max_instances=today.max_instances, gpu_quotas=today.gpu_quotas)


def is_priced_as(price: ConsideredPrice, offer: Offer | None) -> bool:
    """Whether an offer of today costs what a plan recorded."""
    return offer is not None and effective_price(offer) == price.usd_per_hour


def recorded_usd(basis: PlanBasis) -> dict[TypeKey, float]:
    """The cheapest price of each row of the ranking that a plan recorded."""
    return {key: price.usd_per_hour for key, price in cheapest_by_key(basis.prices).items()}


def quota_changes(market: Market, basis: PlanBasis) -> list[QuotaChange]:
    """The offers of a plan of which another number can be had today."""
    todays = {(key_of_offer(o), o.region): o for o in market.question.offers}
    found = [(p, todays[key_of_price(p), p.region]) for p in basis.prices if (key_of_price(p), p.region) in todays]
    bounds = [(p, offer_of(p).most_instances, offer.most_instances) for p, offer in found]
    return [
        QuotaChange(
            cloud=p.cloud,
            region=p.region,
            instance=p.instance,
            price_kind=p.price_kind,
            was=was,
            now=now,
        )
        for p, was, now in bounds
        if was != now
    ]


def machines_today(prices: Sequence[ConsideredPrice], tables: Catalog) -> dict[tuple[str, str], str]:
    """What the tables say today of the machines that were considered."""
    known = {(p.cloud, p.instance) for p in prices} & set(tables.instances)
    return {(cloud, name): machine_digest(tables, cloud, name) for cloud, name in known}


def question_changes(plan: ServePlan, request: ServeRequest, tables: Catalog) -> list[QuestionChange]:
    """What a workload file asks otherwise than the plan of one model; what was typed as a flag replaces it, as then."""
    question, _ = serve_question(request, architecture_of(request), sold_tables(request, tables))
    was, now = ({i.name: i for i in inputs} for inputs in (plan.inputs, understood(request, question)))
    return [
        QuestionChange(what=name, was=value_of(was.get(name)), now=value_of(now.get(name)))
        for name in {**was, **now}
        if is_asked_otherwise(was.get(name), now.get(name))
    ]


def is_asked_otherwise(was: Input | None, now: Input | None) -> bool:
    """Whether a file says something else of an input, then or now; not where it was typed."""
    if value_of(was) == value_of(now) or (was is not None and was.origin in TYPED):
        return False
    return any(i is not None and i.origin == WRITTEN for i in (was, now))


def value_of(said: Input | None) -> str | None:
    """The value of an input that may not be there."""
    return None if said is None else said.value


def changes_of_fleet_question(plan: FleetPlan, asked: Asked) -> list[QuestionChange]:
    """What is asked otherwise of all models together: which there are, and what they may cost."""
    was, now = plan.budget_usd_per_hour, asked.budget_usd_per_hour
    return [] if now is None or was == now else [QuestionChange(what="budget", was=usd_words(was), now=usd_words(now))]


def usd_words(usd_per_hour: float | None) -> str | None:
    """A budget as inputs say it."""
    return None if usd_per_hour is None else f"${usd_per_hour:,.2f}/h"


def refuse_other_models(plan: ServePlan | FleetPlan, asked: Asked) -> None:
    """A plan of so many models is compared with a file of as many."""
    planned = len(plan.plans) if isinstance(plan, FleetPlan) else 1
    if planned != len(asked.requests):
        found = f"{planned} in the plan, {len(asked.requests)} in the workload file"
        raise UsageError("the workload file has another number of models", found=found, hint="Plan again.")
