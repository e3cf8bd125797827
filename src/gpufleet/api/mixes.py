"""Which machines of several types serve requests that differ, of one or many services, at least cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from time import monotonic
from typing import Any

import numpy as np

from gpufleet.answers.fleet_mix import bought_offers, mix_copies, mix_machines, route_rows
from gpufleet.answers.plan_parts import price_days, price_sources
from gpufleet.api.envelope import in_full
from gpufleet.api.fleet_today import fleet_of
from gpufleet.api.fleets import MOST_MODELS, solved_by_name
from gpufleet.api.input_rows import digest
from gpufleet.api.prepared import Prepared
from gpufleet.api.price_ends import said_of_prices
from gpufleet.api.requests import ServeRequest
from gpufleet.api.serve_questions import understood
from gpufleet.api.spoken import Services, spoken_of_services
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.query import priced_regions, resolve_cloud, resolve_gpu
from gpufleet.domain.mix import ROUNDING, MachineLimit, Mix, MixProblem
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.optimize.mixes.corrected import Rated, corrected_mix, cut_as, may_be_had, on_one_type, proved_to
from gpufleet.optimize.mixes.dominated import without_beaten
from gpufleet.optimize.mixes.effort import Effort
from gpufleet.optimize.mixes.planned import as_planned, cheapest_of, planned_offers
from gpufleet.optimize.mixes.program import PROVED_GAP, is_installed
from gpufleet.optimize.mixes.rates import Service
from gpufleet.optimize.mixes.reach import Reach
from gpufleet.optimize.mixes.search import Sought, cheaper_mix, least_relaxation, nearest_shares
from gpufleet.optimize.mixes.simpler import with_fewer_rows
from gpufleet.optimize.mixes.terms import BUDGET, ON_SPOT, SHARE_OF, CloudShare, GpusAtMost, Terms
from gpufleet.optimize.mixes.ways import NOTHING, Posed, Today, pose
from gpufleet.optimize.together import Together, planned_together
from gpufleet.pricing.effective_price import usd_per_month
from gpufleet.questions.mix import BOTH, GPUS, SHARES_EXPECTED, MixRequest, parse_quota, parse_shares
from gpufleet.questions.words import refuse_out_of_range, words_of
from gpufleet.records import dataclass
from gpufleet.results.base import Input
from gpufleet.results.mix import BindingLimit, FleetMix, GivenWay, MixService
from gpufleet.units import HOURS_PER_MONTH

MOST_SERVICES, MOST_CUT = 100, 12
"""Services of one mix, and of how many the lengths are told apart."""
WHOLE_SHARE, SEARCH_SHARE = 0.5, 0.8
"""Of the effort, until a mix that sends no length apart is found, and until the mix itself is.

The rest is for what limits, shares and machine types are worth.
"""
ROUND_SHARE = 0.6
"""Of the effort that is left for the mix, for each round of it, where loads may need more than one."""
QUESTION_SHARE = 0.3
"""Of the effort that is left then, for each question of what limits, shares and offers are worth."""
KNOWN_WELL = 0.05
"""The gap up to which what a further question costs is told."""
WORTH_NOTHING, LEAST_TO_RELAX = 1e-4, 0.1
TOLERANCE = "tolerance of shares"
INSTALL = "pip install 'gpu-fleet-optimizer[solve]'"
BY_PROMPT = "A router sends requests by the length of their prompt; --route-by both: by a foretold answer too"
BY_BOTH = "A router sends requests by prompt and answer: it has to foretell how long an answer gets"
BY_NOTHING = "A router sends any length to any row, by weights: sending lengths apart would not cost less"
BY_USERS = "A router sends users to the nearest copies with room, at no higher cost of what leaves"
AS_MIXED = "Each row is rated by the requests that it gets, mixed as they come; its percentiles are of these"
SURVIVES = "Every objective also holds after each loss, once the router has split requests over what is left"


@dataclass(frozen=True, eq=False)
class Asked:
    """A mix as it was understood: its services, its terms, how long is searched, and the plan of `plan serve`."""

    request: MixRequest
    prepared: tuple[Prepared, ...]
    terms: Terms
    today: Today
    effort: Effort
    plan: Together
    reach: Reach | None = None

    @property
    def offers(self) -> list[Any]:
        """All offers of all services."""
        return list(dict.fromkeys(o for p in self.prepared for o in p.question.offers))


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
    asked_of, terms = spoken_of_services(MixRequest, requests, request, said)
    refuse_out_of_range(terms)
    if not 1 <= len(asked_of) <= MOST_SERVICES:
        raise UsageError(
            "the number of services is out of range", found=len(asked_of), expected=f"from 1 to {MOST_SERVICES}"
        )
    tables = load_catalog() if catalog is None else catalog
    found = answered(understood_mix(terms, asked_of, budget_usd_per_hour, tables), tables)
    return in_full(found, tables, *asked_of, terms, {"budget": budget_usd_per_hour})


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
    asked = Asked(request, every, terms, today_of(request, requests[0], tables), effort, plan_of(every))
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
    whole = posed_of(asked, is_cut=False)
    found = sound_mix(whole, asked.effort.until(WHOLE_SHARE), start_of(asked, whole))
    cut = whole if len(asked.prepared) > MOST_CUT else posed_of(asked)
    posed, best = (whole, found) if cut is whole else with_lengths_apart(asked, whole, found, cut)
    if best is None or is_over_budget(asked, best):
        return without_mix(asked, whole, best)
    mix = with_mix(asked, posed, with_fewer_rows(posed, best), tables)
    together = found is not None and found.mix.gap_ratio < PROVED_GAP and posed is whole
    return mix.model_copy(update={"num_buckets": cut.problem.num_buckets, "is_proved_together": together})


def is_over_budget(asked: Asked, found: Rated) -> bool:
    """Whether the cheapest mix that was found costs more than may be spent."""
    usd = float(found.mix.machines @ found.problem.usd_per_hour)
    return usd > asked.terms.most_usd_per_hour * (1 + ROUNDING)


def posing_terms(asked: Asked) -> Terms:
    """The terms of the programme. What costs least needs no budget in it, unless something else is sought with it."""
    only_cost_counts = not asked.terms.shares and not asked.today.leaving_usd_per_hour
    return replace(asked.terms, most_usd_per_hour=math.inf) if only_cost_counts else asked.terms


def with_lengths_apart(asked: Asked, whole: Posed, found: Rated | None, cut: Posed) -> tuple[Posed, Rated | None]:
    """A mix that sends lengths apart, with its problem, where it costs less than one that does not."""
    start = start_of(asked, cut) if found is None else cut_as(cut, whole, found)
    known_usd = math.inf if found is None else found.mix.usd_per_hour
    routed = sound_mix(cut, asked.effort.until(SEARCH_SHARE), start, known_usd)
    if found is None or (routed is not None and routed.mix.usd_per_hour < found.mix.usd_per_hour - WORTH_NOTHING):
        return cut, routed
    least = found.mix.least_usd_per_hour
    return whole, found if routed is None else proved_to(found, min(least, routed.mix.least_usd_per_hour))


def found_mix(asked: Asked, posed: Posed) -> Rated | None:
    """The cheapest sound mix that was found; None where none keeps all limits."""
    return sound_mix(posed, asked.effort.until(SEARCH_SHARE), start_of(asked, posed))


def start_of(asked: Asked, posed: Posed) -> Rated | None:
    """A mix that holds: the plan of `plan serve`, or one machine type for each service, whichever costs less."""
    return cheapest_of(as_planned(posed, asked.plan), on_one_type(posed))


def sound_mix(posed: Posed, effort: Effort, first: Rated | None, known_usd_per_hour: float = math.inf) -> Rated | None:
    """The cheapest mix that holds as its requests are mixed, as far as the effort allows; `first`: one that does.

    `known_usd_per_hour`: of a mix that this problem cannot hold; none that costs as much is looked for.
    """

    has_solved, is_exact = False, all(len(service.buckets) == 1 for service in posed.services)

    def solve(problem: MixProblem, best: Mix | None) -> Sought | None:
        nonlocal has_solved
        if has_solved and effort.is_over:
            return None
        has_solved = True
        known_usd = min(known_usd_per_hour, math.inf if best is None else best.usd_per_hour)
        return cheaper_mix(without_beaten(problem), effort.part(1.0 if is_exact else ROUND_SHARE), known_usd)

    return corrected_mix(posed, solve, first)


def posed_of(asked: Asked, is_cut: bool = True) -> Posed:
    """The problem, with lengths cut or not; a service of which some length holds nowhere alone is sent as a whole."""
    services = [service_of(p, asked, is_cut) for p in asked.prepared]
    planned = planned_offers(asked.plan)
    posed = pose(services, posing_terms(asked), asked.today, planned)
    lost = uncarried(posed) if is_cut and asked.reach is None else set[int]()
    if lost:
        whole = {s: service_of(asked.prepared[s], asked, is_cut=False) for s in lost}
        services = [whole.get(s, service) for s, service in enumerate(services)]
        posed = pose(services, posing_terms(asked), asked.today, planned)
    for p, service in zip(asked.prepared, services, strict=True):
        if not np.all((service.requests_per_s > 0).any(axis=1)):
            name = p.question.model.name
            raise Infeasible(
                f"no machine type keeps the objectives of {name}",
                hint="'gpufleet plan serve' with these words says why.",
            )
    return posed


def service_of(prepared: Prepared, asked: Asked, is_cut: bool) -> Service:
    """A service with its users, or in buckets of lengths, or whole."""
    if asked.reach is not None:
        return Service.of_users(prepared.question, prepared.calibration, asked.reach)
    return Service.of(prepared.question, prepared.calibration, asked.request.route_by == BOTH, is_cut)


def uncarried(posed: Posed) -> set[int]:
    """Services with a bucket that no machine carries of which one may be bought."""
    problem = posed.problem
    each = np.eye(problem.num_offers)
    buyable = np.array([may_be_had(problem, machines) for machines in each], dtype=np.bool_)
    carried = (np.isfinite(problem.load_units) & buyable[problem.offer_of_way][None, :]).any(axis=1)
    return {int(s) for s in problem.service_of_bucket[~carried]}


def without_mix(asked: Asked, posed: Posed, dear: Rated | None = None) -> FleetMix:
    """What has to give way; `dear`: a mix that keeps everything but the budget."""
    if not is_installed():
        raise Infeasible("no mix was found at once", hint=f"The solver looks further: {INSTALL}")
    given = (
        [*given_shares(asked, posed), *given_limits(asked, posed)] if dear is None else [given_budget(asked, dear.mix)]
    )
    if not given:
        raise Infeasible("no mix was found", hint="Let it search longer: --time-limit 60s.")
    return FleetMix(
        **said_of(asked, posed, []), machines=[], copies=[], routes=[], usd_per_hour=None, usd_per_month=None,
        least_usd_per_hour=None, given_way=given,
    )  # fmt: skip


def given_budget(asked: Asked, dear: Mix) -> GivenWay:
    """The budget that a mix needs."""
    return GivenWay(name=BUDGET, limit=asked.terms.most_usd_per_hour, needed=dear.usd_per_hour)


def given_shares(asked: Asked, posed: Posed) -> Iterator[GivenWay]:
    """Shares of clouds as near as they can come, where they alone are why there is no mix."""
    near = nearest_shares(posed.problem, asked.effort) if posed.problem.shares else None
    if near is None:
        return
    found = weight_shares(posed, near[1], asked.terms)
    if asked.terms.tolerance_ratio is not None:
        yield GivenWay(name=TOLERANCE, is_share=True, limit=asked.terms.tolerance_ratio, needed=near[0])
    for share in posed.problem.shares:
        has = found[share.name.removeprefix(SHARE_OF)]
        yield GivenWay(name=share.name, is_share=True, limit=share.share_ratio, needed=has)


def given_limits(asked: Asked, posed: Posed) -> Iterator[GivenWay]:
    """Limits that have to give way whatever clouds have, as little as possible."""
    problem = replace(posed.problem, shares=())
    relaxed = least_relaxation(problem, asked.effort.at_least(LEAST_TO_RELAX))
    if relaxed is None:
        return
    for name, excess in relaxed.excess.items():
        yield given_way(posed, name, excess) if name != ON_SPOT else given_spot(asked, posed, relaxed.mix)
    if BUDGET not in relaxed.excess and relaxed.mix.usd_per_hour > asked.terms.most_usd_per_hour:
        yield given_budget(asked, relaxed.mix)


def given_spot(asked: Asked, posed: Posed, mix: Mix) -> GivenWay:
    """The share of spot machines that some mix keeps."""
    is_spot = np.array([offer.price_kind is PriceKind.SPOT for offer in posed.offers])
    has = float(mix.machines[is_spot].sum() / mix.machines.sum())
    return GivenWay(name=ON_SPOT, is_share=True, limit=asked.terms.most_spot_ratio, needed=has)


def given_way(posed: Posed, name: str, excess: float) -> GivenWay:
    """A limit in words, with what it would have to be."""
    kind, _, number = name.partition(" ")
    if kind == "machines" and number.isdecimal():
        offer, most = posed.offers[int(number)], float(posed.problem.most_machines[int(number)])
        return GivenWay(name=f"{offer.cloud} {offer.instance} {offer.region}", limit=most, needed=most + excess)
    limit = next(x for x in posed.problem.limits if x.name == name)
    return GivenWay(name=name, limit=limit.most, needed=limit.most + excess)


def with_mix(asked: Asked, posed: Posed, found: Rated, tables: Catalog) -> FleetMix:
    """The answer with its machines."""
    mix, copies, is_cut = found.mix, mix_copies(posed, found), asked.effort.meter.is_cut
    free, binding = usd_free(asked, posed, found), list(binding_limits(asked, posed, found))
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
        quotas_used=quotas_used(asked, posed, found),
        cloud_shares=weight_shares(posed, mix, asked.terms),
        usd_per_hour_free=free,
        price_sources=price_sources(price_days(c.deployment for c in copies), tables.sources),
    )


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


def usd_without(asked: Asked, posed: Posed, found: Rated, offer: int) -> float | None:
    """What the cheapest mix without an offer costs; None where that is not known well, or no mix does without it."""
    if asked.effort.is_over:
        return None
    most = posed.problem.most_machines.copy()
    most[offer] = 0.0
    without = replace(posed, problem=replace(posed.problem, most_machines=most))
    mix = asked_beside(asked, without, on_one_type(without))
    if mix is None or mix.gap_ratio > KNOWN_WELL:
        return None
    return max(mix.usd_per_hour, found.mix.usd_per_hour)


def asked_beside(asked: Asked, posed: Posed, first: Rated | None) -> Mix | None:
    """The cheapest mix of a further question, found with a part of the effort that is left."""
    if asked.effort.is_over or not is_installed():
        return None
    found = sound_mix(posed, asked.effort.part(QUESTION_SHARE), first)
    return None if found is None else found.mix


def usd_free(asked: Asked, posed: Posed, found: Rated) -> float | None:
    """What it would cost if clouds had no shares, no more than with them; None where that is not known well."""
    if not posed.problem.shares:
        return None
    free = replace(posed, problem=replace(posed.problem, shares=()))
    alone = on_one_type(free)
    is_cheaper = alone is not None and alone.mix.usd_per_hour < found.mix.usd_per_hour
    mix = asked_beside(asked, free, alone if is_cheaper else found)
    return None if mix is None or mix.gap_ratio > KNOWN_WELL else mix.usd_per_hour


def weight_shares(posed: Posed, mix: Mix, terms: Terms) -> dict[str, float]:
    """The share of every cloud in what shares are of, the largest first."""
    gpus = np.array([i.gpu_count for i in posed.instances])
    weight = mix.machines * (gpus if terms.is_of_gpus else posed.problem.usd_per_hour)
    clouds = {o.cloud for o, w in zip(posed.offers, weight, strict=True) if w > 0} | {s.cloud for s in terms.shares}
    of = {c: sum(float(w) for o, w in zip(posed.offers, weight, strict=True) if o.cloud == c) for c in clouds}
    total = sum(of.values()) or 1.0
    return {c: of[c] / total for c in sorted(of, key=lambda c: -of[c])}


def binding_limits(asked: Asked, posed: Posed, found: Rated) -> Iterator[BindingLimit]:
    """Quotas without which it would cost less, with what one machine more is worth."""
    problem = posed.problem
    for limit in problem.limits:
        used = float(limit.per_machine @ found.mix.machines)
        each = float(np.min(limit.per_machine[limit.per_machine > 0], initial=math.inf))
        if limit.most > 0 and math.isfinite(each) and used + each > limit.most:
            yield from worth_of_limit(asked, posed, found, limit, each)
    for o in np.flatnonzero(np.isfinite(problem.most_machines) & (found.mix.machines >= problem.most_machines)):
        most = problem.most_machines.copy()
        most[o] += 1
        offer = posed.offers[o]
        name = f"{offer.cloud} {offer.instance} {offer.region}"
        limit = MachineLimit(name, np.zeros(problem.num_offers), float(problem.most_machines[o]))
        yield from worth(asked, posed, found, replace(problem, most_machines=most), limit, 1.0)


def worth_of_limit(
    asked: Asked, posed: Posed, found: Rated, limit: MachineLimit, each: float
) -> Iterator[BindingLimit]:
    """A limit, where one machine more of it saves; else where as many more save as the cheapest mix would take."""
    problem = posed.problem

    def allowing(most: float) -> MixProblem:
        more = replace(limit, most=most)
        return replace(problem, limits=tuple(more if x is limit else x for x in problem.limits))

    one = list(worth(asked, posed, found, allowing(limit.most + each), limit, each))
    yield from one
    free = None if one else asked_beside(asked, replace(posed, problem=allowing(math.inf)), found)
    if free is not None and free.usd_per_hour < found.mix.usd_per_hour - WORTH_NOTHING:
        more = float(limit.per_machine @ free.machines) - limit.most
        yield BindingLimit(name=limit.name, most=limit.most, more=more, usd_per_hour_with_more=free.usd_per_hour)


def quotas_used(asked: Asked, posed: Posed, found: Rated) -> dict[str, float]:
    """GPUs that count for each quota that was said."""
    said = {quota.name for quota in asked.terms.quotas}
    return {x.name: float(x.per_machine @ found.mix.machines) for x in posed.problem.limits if x.name in said}


def worth(
    asked: Asked, posed: Posed, found: Rated, problem: MixProblem, limit: MachineLimit, more: float
) -> Iterator[BindingLimit]:
    """A limit, where more of it saves."""
    mix = asked_beside(asked, replace(posed, problem=problem), found)
    if mix is not None and mix.usd_per_hour < found.mix.usd_per_hour - WORTH_NOTHING:
        yield BindingLimit(name=limit.name, most=limit.most, more=more, usd_per_hour_with_more=mix.usd_per_hour)
