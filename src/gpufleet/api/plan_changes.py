"""A plan of some day made again today, and what changed since it was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date
from os import PathLike
from typing import Any

from gpufleet.api.answers import ServeAnswer
from gpufleet.api.demands import RequestKind
from gpufleet.api.estimates import calibration_of
from gpufleet.api.fleets import plan_fleet
from gpufleet.api.plan_basis import machine_digest
from gpufleet.api.plans import ServeRequest, architecture_of, plan_serve, serve_question
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.domain.offer import Offer, PriceBasis, PriceKind
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import DataMissing, UsageError
from gpufleet.inputs.plan_file import read_plan
from gpufleet.optimize.serve import ServeQuestion, ServeSolution, place_all, solve_serve
from gpufleet.optimize.size import Placement, best_of_each_type, rank
from gpufleet.results.fleet import FleetPlan
from gpufleet.results.plan import ConsideredPrice, Deployment, PlanBasis, ServePlan
from gpufleet.results.plan_changes import (
    FleetChanges,
    PlanChanges,
    TypeKey,
    digest_changes,
    key_of_price,
    price_changes,
    usd,
)
from gpufleet.results.why_not import best_of

RECORDED = "recorded in the plan"


@dataclass(frozen=True)
class Market:
    """Today's placements, to be bought at any prices."""

    question: ServeQuestion
    solution: ServeSolution
    placements: list[Placement]

    def best(self, offers: Sequence[Offer]) -> Deployment | None:
        """The answer at these prices."""
        ranked = best_of_each_type(rank(self.placements, offers))
        question = replace(self.question, offers=tuple(offers))
        return best_of(question, replace(self.solution, ranked=ranked[:1]))

    def first(self, offers: Sequence[Offer]) -> TypeKey | None:
        """The row of the ranking that wins at these prices."""
        ranked = rank(self.placements, offers)
        return (ranked[0].offer.cloud, ranked[0].offer.instance, ranked[0].offer.price_kind.value) if ranked else None


def explain_plan(
    plan: ServePlan | FleetPlan | str | PathLike[str], catalog: Catalog | None = None
) -> PlanChanges | FleetChanges:
    """The question of a plan (or of the file of one) asked again today: what is different, and what made it so."""
    tables = load_catalog() if catalog is None else catalog
    old = plan if isinstance(plan, (ServePlan, FleetPlan)) else read_plan(str(plan))
    return changes_of_fleet(old, tables) if isinstance(old, FleetPlan) else changes_of(old, tables)


def changes_of_fleet(old: FleetPlan, tables: Catalog) -> FleetChanges:
    """What became of the plan of several models: of each, and of what they cost together."""
    requests = [request_of(recorded(plan)) for plan in old.plans]
    new = plan_fleet(requests, old.budget_usd_per_hour, tables)
    return FleetChanges(
        models=[changes_of(plan, tables) for plan in old.plans],
        was_hash=old.input_hash,
        now_hash=new.input_hash,
        was_usd_per_hour=old.usd_per_hour,
        now_usd_per_hour=new.usd_per_hour,
    )


def changes_of(old: ServePlan, tables: Catalog) -> PlanChanges:
    """What became of the plan of one model."""
    basis = recorded(old)
    request = request_of(basis)
    new = plan_serve(request, tables)
    market = market_of(request, tables)
    offers = [offer_of(price) for price in basis.prices]
    return PlanChanges(
        model=old.model,
        was_hash=old.input_hash,
        now_hash=new.input_hash,
        was=old.answer if old.deployments else None,
        at_old_prices=market.best(offers),
        now=new.answer if new.deployments else None,
        price_changes=price_changes(basis.prices, recorded(new).prices, decisive_prices(market, basis, recorded(new))),
        digest_changes=digest_changes(
            basis.digests, recorded(new).digests, basis.prices, machines_today(basis.prices, tables)
        ),
        num_prices=len(basis.prices),
    )


def recorded(plan: ServePlan) -> PlanBasis:
    """What a plan rests on."""
    if plan.basis is None and isinstance(plan, ServeAnswer):
        plan = plan.with_basis()
    if plan.basis is None:
        raise UsageError(f"the plan for {plan.model} does not say what it rests on", hint="Plan again, with -o json.")
    return plan.basis


def request_of(basis: PlanBasis) -> ServeRequest:
    """The request that a plan answers."""
    known = {f.name for f in fields(ServeRequest)}
    strange = sorted(set(basis.question) - known)
    missing = sorted({"model", "rate", "input_tokens", "output_tokens"} - set(basis.question))
    if strange or missing:
        found = f"{', '.join(strange) or 'nothing'} unknown, {', '.join(missing) or 'nothing'} missing"
        raise UsageError("the question of the plan cannot be read", found=found, hint="Plan again, with -o json.")
    try:
        return ServeRequest(**read_words(basis.question))
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"the question of the plan cannot be read: {error}") from error


def read_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a request from `plan_basis.plain_words`."""
    read = {**words, **read_tokens(words)}
    if words.get("classes"):
        read["classes"] = tuple(RequestKind(**{**kind, **read_tokens(kind)}) for kind in words["classes"])
    if words.get("today"):
        read["today"] = date.fromisoformat(words["today"])
    return read


def read_tokens(kind: Mapping[str, Any]) -> dict[str, float | TokenCounts]:
    """Tokens of prompt and answer of one kind of requests."""
    return {name: counts_of(kind[name]) for name in ("input_tokens", "output_tokens")}


def counts_of(words: Any) -> float | TokenCounts:
    """A number of tokens, or the fields of numbers that differ from request to request."""
    if not isinstance(words, Mapping):
        return float(words)
    listed: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in words.items()}
    return TokenCounts(**listed)


def market_of(request: ServeRequest, tables: Catalog) -> Market:
    """Today's placements for a request."""
    question, _ = serve_question(request, architecture_of(request), tables)
    solution = solve_serve(question, calibration_of(tables))
    return Market(question, solution, place_all(question, solution.candidates, solution.found))


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
        )
    except ValueError as error:
        raise DataMissing(f"a price of the plan cannot be read: {error}") from error


def decisive_prices(market: Market, old: PlanBasis, new: PlanBasis) -> frozenset[TypeKey]:
    """Price changes each of which alone turns the winner at the old prices into the winner at the new ones."""
    then, today = ({key_of_price(p): p for p in basis.prices} for basis in (old, new))
    was, now = (market.first([offer_of(p) for p in prices.values()]) for prices in (then, today))
    if was == now:
        return frozenset()
    changed = [key for key in {*then, *today} if usd(then.get(key)) != usd(today.get(key)) and key in (was, now)]
    return frozenset(key for key in changed if market.first(with_one(then, today, key)) == now)


def with_one(then: dict[TypeKey, ConsideredPrice], today: dict[TypeKey, ConsideredPrice], key: TypeKey) -> list[Offer]:
    """The old prices where one is today's, or is gone."""
    mixed = {k: p for k, p in then.items() if k != key} | ({key: today[key]} if key in today else {})
    return [offer_of(price) for price in mixed.values()]


def machines_today(prices: Sequence[ConsideredPrice], tables: Catalog) -> dict[tuple[str, str], str]:
    """What the tables say today of the machines that were considered."""
    known = {(p.cloud, p.instance) for p in prices} & set(tables.instances)
    return {(cloud, name): machine_digest(tables, cloud, name) for cloud, name in known}
