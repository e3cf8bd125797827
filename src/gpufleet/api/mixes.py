"""Which machines of several types serve requests that differ, of one or many services, at least cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from time import monotonic
from typing import Any, TypeVar

import numpy as np

from gpufleet.answers.fleet_mix import bought_offers, mix_copies, mix_machines, replicas_of_way, route_rows, used_ways
from gpufleet.answers.plan_parts import price_days, price_sources
from gpufleet.api.envelope import in_full
from gpufleet.api.fleets import MOST_MODELS, solved_by_name
from gpufleet.api.input_rows import digest
from gpufleet.api.launches import launches
from gpufleet.api.machine_notes import said_of_prices
from gpufleet.api.serve_questions import Prepared, understood
from gpufleet.api.spoken import Services, spoken_of_services
from gpufleet.api.today import fleet_of
from gpufleet.catalog.engines import named_version
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.query import priced_regions, resolve_cloud, resolve_gpu
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.optimize.mixes.cheapest import cheapest_mix_of, is_over_budget
from gpufleet.optimize.mixes.corrected import Rated
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.giving_way import given_budget, given_limits, given_shares, quotas_used, weight_shares
from gpufleet.optimize.mixes.program import is_installed
from gpufleet.optimize.mixes.question import MixQuestion
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.simpler import with_fewer_rows
from gpufleet.optimize.mixes.terms import CloudShare, GpusAtMost, Terms
from gpufleet.optimize.mixes.ways import NOTHING, Posed, Today
from gpufleet.optimize.mixes.worth import binding_limits, usd_free, usd_without
from gpufleet.optimize.together import Together, planned_together
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.questions.fields import ServeRequest
from gpufleet.questions.mix import BOTH, GPUS, SHARES_EXPECTED, MixRequest, parse_quota, parse_shares
from gpufleet.questions.words import refuse_out_of_range, words_of
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.mix import BindingLimit, FleetMix, GivenWay, MixCopies, MixService
from gpufleet.units import HOURS_PER_MONTH

T = TypeVar("T", bound=MixRequest)
MOST_SERVICES = 100
INSTALL = "pip install 'gpu-fleet-optimizer[solve]'"
BY_PROMPT = "A router sends requests by the length of their prompt; --route-by both: by a foretold answer too"
BY_BOTH = "A router sends requests by prompt and answer: it has to foretell how long an answer gets"
BY_NOTHING = "A router sends any length to any row, by weights: sending lengths apart would not cost less"
BY_USERS = "A router sends users to the nearest copies with room, at no higher cost of what leaves"
AS_MIXED = "Each row is rated by the requests that it gets, mixed as they come; its percentiles are of these"
SURVIVES = "Every objective also holds after each loss, once the router has split requests over what is left"


@dataclass(frozen=True, eq=False)
class Asked(MixQuestion):
    """A mix as it was understood: its question, from these words and these services."""

    request: MixRequest
    prepared: tuple[Prepared, ...]


def plan_mix(
    requests: Services,
    request: MixRequest | None = None,
    *,
    budget_usd_per_hour: float | None = None,
    catalog: Catalog | None = None,
    **said: Any,
) -> FleetMix:
    """The cheapest machines of several types for services whose requests differ, with what is proved of the cost.

    `requests`: services, or a model whose service the words say as for `plan_serve`; what the mix is held to is said by
    `request`, or by words too.

    >>> from gpufleet import ServeRequest
    >>> found = plan_mix(ServeRequest("llama-3.1-8b", 20.0, 1000, 200))
    >>> found.is_feasible
    True
    """
    asked_of, terms = services_and_terms(MixRequest, requests, request, said)
    tables = load_catalog() if catalog is None else catalog
    found = answered(understood_mix(terms, asked_of, budget_usd_per_hour, tables), tables)
    return in_full(found, tables, *asked_of, terms, {"budget": budget_usd_per_hour})


def services_and_terms(
    kind: type[T], services: Services, terms: T | None, said: Mapping[str, Any]
) -> tuple[list[ServeRequest], T]:
    """One service or several, not too many, and what they are held to, in its range."""
    requests, held_to = spoken_of_services(kind, services, terms, said)
    refuse_out_of_range(held_to)
    if not 1 <= len(requests) <= MOST_SERVICES:
        raise UsageError(
            "the number of services is out of range", found=len(requests), expected=f"from 1 to {MOST_SERVICES}"
        )
    return requests, held_to


def understood_mix(
    request: MixRequest, requests: Sequence[ServeRequest], budget: float | None, tables: Catalog
) -> Asked:
    """Names resolved, each service solved alone."""
    refuse_unanswered(request, requests)
    effort = effort_of(request.time_limit_s)
    every = tuple(solved_by_name(replace(r, fleet_today=None), tables) for r in requests)
    demands = [p.question.demand for p in every]
    budgets = [r.budget_usd_per_hour for r in requests if r.budget_usd_per_hour is not None]
    terms = Terms(
        quotas=tuple(quota_of(said, tables) for said in request.quotas or ()),
        most_usd_per_hour=min([math.inf, *budgets]) if budget is None else budget,
        most_spot_ratio=min(p.question.purse.most_spot_ratio for p in every),
        shares=cloud_shares_of(request, tables),
        is_of_gpus=request.share_of == GPUS,
        tolerance_ratio=request.tolerance,
        spare_machines=max(d.spare_machines for d in demands),
        zones=max(d.zones for d in demands),
        survives_region=request.survive_region,
    )
    today, services = today_of(request, requests[0], tables), tuple((p.question, p.calibration) for p in every)
    by_answer = request.route_by == BOTH
    asked = Asked(services, by_answer, terms, today, effort, plan_of(every), None, request=request, prepared=every)
    refuse_unsold(asked)
    return asked


def effort_of(time_limit_s: float | None) -> Effort:
    """As many seconds of search as were typed, else so many iterations: the same answer on any machine.

    The clock starts when the search first looks at it: rating the ways is none.
    """
    if time_limit_s is None:
        return Effort.of_iterations()
    start = cache(monotonic)
    return Effort.of_seconds(time_limit_s, lambda: -start() + monotonic())


def plan_of(services: Sequence[Prepared]) -> Together:
    """What `plan serve` does with several services; nothing where one is not served alone, or there are very many."""
    if not 1 < len(services) <= MOST_MODELS or not all(p.solution.ranked for p in services):
        return Together([], None, [])
    return planned_together([(p.question, p.solution) for p in services])


def refuse_unsold(asked: Asked) -> None:
    """Refuse a share of a cloud that sells nothing of what may be rented."""
    sold = {offer.cloud for offer in asked.offers}
    shared = [s.cloud for s in asked.terms.shares if s.share_ratio > 0]
    asked_for = [p.request.clouds for p in asked.prepared]
    named = {cloud.casefold() for clouds in asked_for for cloud in clouds or ()}
    outside = [cloud for cloud in shared if all(asked_for) and cloud not in named]
    if outside:
        raise UsageError(
            "the shares are of clouds that are not asked for",
            found=f"shares of {' and '.join(outside)}, --clouds {','.join(sorted(named))}",
            expected="shares of the same clouds",
        )
    missing = [cloud for cloud in shared if cloud not in sold]
    if missing:
        raise Infeasible(
            f"there is nothing to rent from {' and '.join(missing)} for the share asked",
            expected=f"shares of {', '.join(sorted(sold))}",
            hint="Check --clouds, --regions, --gpus and --pricing.",
        )


def refuse_unanswered(request: MixRequest, requests: Sequence[ServeRequest]) -> None:
    """Refuse what a mix does not answer."""
    if request.leaving_usd is not None and requests[0].fleet_today is None:
        raise UsageError("--leaving is what giving up machines of --today costs", hint="Say --today with it.")
    if (request.tolerance is not None or request.share_of == GPUS) and not request.shares:
        raise UsageError(
            "--tolerance and --share-of are of --shares", hint=f"Say --shares with them: {SHARES_EXPECTED}."
        )
    if any(r.off_peak_rate is not None for r in requests):
        raise UsageError(
            "a mix has no quiet hours", hint="Ask for the mix at the peak, and 'gpufleet autoscale' beside."
        )
    if any(r.disagg for r in requests):
        raise UsageError("a mix has no pools", hint="'gpufleet plan serve --disagg' plans copies that only prefill.")


def cloud_shares_of(request: MixRequest, tables: Catalog) -> tuple[CloudShare, ...]:
    """The share of every cloud that was said, by its right name."""
    if not request.shares:
        return ()
    return tuple(CloudShare(resolve_cloud(tables, cloud), ratio) for cloud, ratio in parse_shares(request.shares))


def quota_of(said: str, tables: Catalog) -> GpusAtMost:
    """A quota with its names resolved."""
    quota = parse_quota(said)
    cloud = None if quota.cloud is None else resolve_cloud(tables, quota.cloud)
    known = priced_regions(tables, None if cloud is None else [cloud])
    if quota.region is not None and quota.region not in known:
        raise UnknownName("region", quota.region, known, hint="'gpufleet catalog prices' lists all.")
    return GpusAtMost(said, quota.most_gpus, resolve_gpu(tables, quota.gpu).accelerator.name, cloud, quota.region)


def today_of(request: MixRequest, first: ServeRequest, tables: Catalog) -> Today:
    """Machines that run now, with what leaving one costs an hour of the month after."""
    if first.fleet_today is None:
        return NOTHING
    fleet = fleet_of(first, tables)
    machines = {(m.instance.cloud, m.instance.name): m.count for m in fleet.machines}
    return Today(machines, (request.leaving_usd or 0.0) / HOURS_PER_MONTH)


def answered(asked: Asked, tables: Catalog) -> FleetMix:
    """The answer of a mix; where none keeps all limits, what has to give way."""
    found = cheapest_mix_of(asked)
    if found.mix is None or is_over_budget(asked, found.mix):
        return without_mix(asked, found.whole, found.mix)
    mix = with_mix(asked, found.posed, with_fewer_rows(found.posed, found.mix), tables)
    update = {"num_buckets": found.num_buckets, "is_proved_together": found.is_proved_together}
    return mix.model_copy(update=update)


def without_mix(asked: Asked, posed: Posed, dear: Rated | None = None) -> FleetMix:
    """What has to give way; `dear`: a mix that keeps everything but the budget."""
    if not is_installed():
        raise Infeasible("no mix was found at once", hint=f"The solver looks further: {INSTALL}")
    least = (
        [*given_shares(asked, posed), *given_limits(asked, posed)] if dear is None else [given_budget(asked, dear.mix)]
    )
    given = [GivenWay(**each._asdict()) for each in least]
    if not given:
        raise Infeasible("no mix was found", hint="Let it search longer: --time-limit 60s.")
    return FleetMix(
        **said_of(asked, posed, []), machines=[], copies=[], routes=[], usd_per_hour=None, usd_per_month=None,
        least_usd_per_hour=None, given_way=given,
    )  # fmt: skip


def with_mix(asked: Asked, posed: Posed, found: Rated, tables: Catalog) -> FleetMix:
    """The answer with its machines."""
    mix, is_cut = found.mix, asked.effort.meter.is_cut
    ways = zip(used_ways(found), mix_copies(posed, found), strict=True)
    copies = [started(asked, posed, found, w, each) for w, each in ways]
    free = usd_free(asked, posed, found)
    binding = [BindingLimit(**each._asdict()) for each in binding_limits(asked, posed, found)]
    machines = mix_machines(posed, found, [usd_without(asked, posed, found, o) for o in bought_offers(found)])
    left = float(np.maximum(found.problem.machines_today - mix.machines, 0.0) @ found.problem.leaving_usd_per_hour)
    notes = [
        *notes_of_mix(asked, posed),
        *said_of_prices([c.deployment for c in copies], tables, [c.deployment for c in copies]),
    ]
    return FleetMix(
        **said_of(asked, posed, notes),
        machines=machines,
        copies=copies,
        routes=route_rows(posed, found),
        usd_per_hour=mix.usd_per_hour,
        usd_per_month=float(usd_per_month(mix.usd_per_hour)),
        leaving_usd_per_hour=left,
        least_usd_per_hour=mix.least_usd_per_hour or None,
        is_greedy=not is_installed(),
        is_cut_short=is_cut,
        binding=binding,
        quotas_used=quotas_used(asked.terms, posed, found),
        cloud_shares=weight_shares(posed, mix, asked.terms),
        usd_per_hour_free=free,
        price_sources=price_sources(price_days(c.deployment for c in copies), tables.sources),
    )


def started(asked: Asked, posed: Posed, found: Rated, w: int, copies: MixCopies) -> MixCopies:
    """Copies of a way that say how each of them is started."""
    way, replicas = posed.ways[w], replicas_of_way(posed, found, w)
    prepared = asked.prepared[way.service]
    [launch] = launches(
        prepared.request.model,
        prepared.question.model.arch,
        replicas,
        [0],
        [float(replicas.largest_batch[0])],
        [way.replicas_per_machine],
    )
    return copies.model_copy(update={"deployment": copies.deployment.model_copy(update={"launch": launch})})


def said_of(asked: Asked, posed: Posed, notes: Sequence[str]) -> dict[str, Any]:
    """What an answer says whether there is a mix or not."""
    alone = [p.solution.ranked[0].usd_per_hour if p.solution.ranked else None for p in asked.prepared]
    inputs = list(inputs_of(asked))
    return {
        "services": [mix_service(p, s, usd) for p, s, usd in zip(asked.prepared, posed.services, alone, strict=True)],
        "usd_per_hour_one_type": None if None in alone else sum(usd for usd in alone if usd is not None),
        "asked_shares": {s.cloud: s.share_ratio for s in asked.terms.shares},
        "shares_of": "GPUs" if asked.terms.is_of_gpus else "cost",
        "share_tolerance": asked.terms.tolerance_ratio,
        "num_offers": len(asked.offers),
        "num_offers_searched": len(asked.offers) if posed.has_all_offers else len(posed.offers),
        "num_buckets": posed.problem.num_buckets,
        "inputs": inputs,
        "notes": [*notes, *further_notes(asked)],
        "input_hash": digest(inputs, asked.offers),
    }


def mix_service(prepared: Prepared, service: Service, usd_alone: float | None) -> MixService:
    """A service as it was asked."""
    demand = prepared.question.demand
    return MixService(
        model=prepared.question.model.name,
        num_parameters=prepared.question.model.num_parameters,
        input_tokens=demand.workload.input_tokens,
        output_tokens=demand.workload.output_tokens,
        engine_version=named_version(prepared.request.engine, prepared.request.engine_version)[1],
        requests_per_s=demand.workload.rate_requests_per_s,
        objectives={limit.label: limit.limit_s for limit in demand.workload.slo.limits},
        headroom_ratio=demand.headroom_ratio,
        confidence=demand.confidence,
        num_buckets=len(service.buckets),
        usd_per_hour_alone=usd_alone,
        clouds=list(prepared.request.clouds or ()),
        reason=prepared.request.reason or "",
    )


def inputs_of(asked: Asked) -> Iterator[Input]:
    """The question as it was read."""
    several = len(asked.prepared) > 1
    for p in asked.prepared:
        for said in understood(p.request, p.question):
            yield said.model_copy(update={"name": f"{p.question.model.name}: {said.name}"}) if several else said
    if math.isfinite(asked.terms.most_usd_per_hour):
        yield Input(name="budget", value=f"${asked.terms.most_usd_per_hour:,.2f}/h", origin="given")
    rows = {row.field: row for row in words_of(type(asked.request)).values() if row.label}
    for name, row in rows.items():
        value = getattr(asked.request, name)
        if value is not None:
            yield Input(name=row.label, value=row.shown(value), origin=asked.request.origin(name))


def notes_of_mix(asked: Asked, posed: Posed) -> list[str]:
    """How requests are told apart, how they are rated, and what may be lost."""
    is_cut = any(len(s.buckets) > len(s.classes) for s in posed.services)
    by = (BY_BOTH if asked.request.route_by == BOTH else BY_PROMPT) if is_cut else BY_NOTHING
    by = by if asked.reach is None else BY_USERS
    return [by, AS_MIXED, *([SURVIVES] if asked.terms.has_losses else [])]


def further_notes(asked: Asked) -> list[str]:
    """What could not be kept, and how words were read."""
    found = []
    missed = [p.question.model.name for p in asked.prepared if p.missed_confidence is not None]
    if missed:
        found.append(f"{', '.join(missed)}: nothing holds with the usual confidence; the mix holds as expected")
    return [*found, *dict.fromkeys(note for p in asked.prepared for note in p.notes)]
