"""Where services run: at least cost, with their objectives kept at users of several places."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpufleet.answers.regions import (
    RegionFacts,
    at_users,
    egress_costs,
    emitted,
    hours_of_day,
    lost_regions,
    region_rows,
    user_places,
)
from gpufleet.api.cold_starts import cold_start_of
from gpufleet.api.envelope import in_full
from gpufleet.api.mixes import Asked, effort_of, services_and_terms, understood_mix, with_mix, without_mix
from gpufleet.api.spoken import Services
from gpufleet.catalog.areas import is_in, known_areas, regions_in
from gpufleet.catalog.egress import egress_price
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.network_latency import load_measured_round_trips, load_network_model
from gpufleet.catalog.region_figures import country_of, egress_of_answers, known_grids, machine_carbon
from gpufleet.catalog.sites import grid_carbon, grid_years, load_site_figures, power_usage
from gpufleet.catalog.user_places import region_place, user_place
from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.offer import Offer
from gpufleet.domain.place import Place
from gpufleet.errors import GpufleetError, Infeasible, UnknownName, UsageError
from gpufleet.optimize.mixes.alone import region_of
from gpufleet.optimize.mixes.cheapest import found_mix, is_over_budget
from gpufleet.optimize.mixes.corrected import Rated, Solver
from gpufleet.optimize.mixes.dominated import without_beaten
from gpufleet.optimize.mixes.effort import USUAL_ITERATIONS, Effort
from gpufleet.optimize.mixes.gathered import gathered, nearest, on_cleaner_grids
from gpufleet.optimize.mixes.question import posed_of
from gpufleet.optimize.mixes.reach import Reach, RegionKey, UserGroup
from gpufleet.optimize.mixes.search import cheaper_mix
from gpufleet.optimize.mixes.sun import (
    HOURS,
    awake_ratio,
    followed,
    in_regions_of,
    one_fleet_usd_per_day,
    static_usd_per_day,
)
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.optimize.mixes.worth import usd_per_kg
from gpufleet.performance.network_latency import round_trip
from gpufleet.questions.regions import USERS_EXPECTED, RegionRequest, parse_users
from gpufleet.results.mix import MixCopies
from gpufleet.results.regions import FollowedSun, RegionPlan
from gpufleet.units import HOUR, MILLISECOND, MINUTE

UNKNOWN_START_S = 10 * MINUTE
OF_HOURS = 2 * HOURS
"""A day is asked twice, in all regions and in those of the static answer; each hour gets as much of the effort."""


def plan_regions(
    requests: Services,
    request: RegionRequest | None = None,
    *,
    budget_usd_per_hour: float | None = None,
    catalog: Catalog | None = None,
    **said: Any,
) -> RegionPlan:
    """The cheapest regions for services, and what was rejected and why; limits hold at the users where they are stated.

    >>> from gpufleet import ServeRequest
    >>> service = ServeRequest("llama-3.1-8b", 5.0, 1000, 200, slo="ttft.p95<600ms", clouds=["aws"])
    >>> found = plan_regions(service, users=["germany"])
    >>> found.is_feasible
    True
    """
    asked_of, terms = services_and_terms(RegionRequest, requests, request, said)
    refuse_contradictions(terms)
    tables = load_catalog() if catalog is None else catalog
    asked = placed(understood_mix(terms, asked_of, budget_usd_per_hour, tables), terms, tables)
    posed = posed_of(asked)
    refuse_unserved(asked, posed, terms)
    sound = found_mix(asked, posed)
    found = None if sound is None else settled(posed, sound, terms, tables)
    dear = found if found is not None and is_over_budget(asked, found) else None
    found = found if dear is None else None
    mix = without_mix(asked, posed, dear) if found is None else with_mix(asked, posed, found, tables)
    of_places = said_of_places(asked, terms, posed, found, mix.copies, tables)
    if found is not None and asked.reach is not None and terms.follow_the_sun:
        of_places = {**of_places, "sun": followed_sun(asked, posed, found, asked.reach, tables)}
    plan = RegionPlan(**{**dict(mix), **of_places, "notes": [*mix.notes, *unbound_areas(asked, terms)]})
    return in_full(plan, tables, *asked_of, terms, {"budget": budget_usd_per_hour})


def settled(posed: Posed, found: Rated, request: RegionRequest, tables: Catalog) -> Rated:
    """The mix in fewer regions and on cleaner grids where that costs no more, users sent to the nearest with room."""
    known = known_grids(map(region_of, posed.offers), request.year, tables)
    return nearest(posed, on_cleaner_grids(posed, gathered(posed, found), known))


def refuse_unserved(asked: Asked, posed: Posed, request: RegionRequest) -> None:
    """Say of whose requests no region keeps the limits, and why."""
    reach, carried = asked.reach, np.asarray(np.isfinite(posed.problem.load_units).any(axis=1))
    if carried.all():
        refuse_lone_region(posed, request)
        return
    if reach is None:
        raise Infeasible("no region serves as asked", hint="Allow more regions, clouds or GPUs.")
    buckets = [bucket for service in posed.services for bucket in service.buckets]
    users = reach.users[next(b.users or 0 for b, is_carried in zip(buckets, carried, strict=True) if not is_carried)]
    sold = {(offer.cloud, offer.region) for offer in asked.offers}
    grid = " and with a grid that clean" if request.max_grid is not None else ""
    if users.stays_in is not None and not sold & users.stays_in:
        stay = " or ".join(request.stay or ())
        raise Infeasible(
            f"users in {users.place.name} have to be served in {stay}, where nothing allowed is sold{grid}",
            hint="Allow a region there (--regions), or leave the area out of --stay.",
        )
    nearest = min((n.median_s for (at, _), n in reach.network.items() if reach.users[at] is users), default=math.inf)
    raise Infeasible(
        f"no region keeps the limits of users in {users.place.name}: the nearest is {duration_words(nearest)} away",
        hint="Allow a longer limit, or more regions, clouds or GPUs; 'gpufleet mix' leaves the network out.",
    )


def refuse_lone_region(posed: Posed, request: RegionRequest) -> None:
    """Refuse to survive the loss of a region that alone serves some users."""
    if not request.survive_region:
        return
    where = np.array([" ".join(region_of(posed.offers[way.offer])) for way in posed.ways])
    alone = [set(where[np.isfinite(row)]) for row in posed.problem.load_units if len(set(where[np.isfinite(row)])) == 1]
    if alone:
        raise Infeasible(
            f"no other region can take over for {alone[0].pop()}",
            hint="Allow more regions or a longer limit, or leave --survive-region out.",
        )


def duration_words(seconds: float) -> str:
    """A round trip in words, as it is most often."""
    return f"{seconds / MILLISECOND:.0f} ms" if math.isfinite(seconds) else "at an unknown distance"


def unbound_areas(asked: Asked, request: RegionRequest) -> Iterator[str]:
    """Areas that no users are in: they hold nobody."""
    if asked.reach is not None and request.stay and all(group.stays_in is None for group in asked.reach.users):
        yield f"No users are in {' or '.join(request.stay)}: --stay holds nobody there"


def refuse_contradictions(request: RegionRequest) -> None:
    """Refuse words that mean nothing together."""
    if request.stay and not request.users:
        raise UsageError(
            "an area to stay in is of users, and there are none", found="--stay without --users",
            hint="Say where they are: --users eu=60%,us=40%; or --regions eu, which keeps all there.",
        )  # fmt: skip
    if request.follow_the_sun and not request.users:
        raise UsageError(
            "the sun is followed to users, and there are none", found="--follow-the-sun without --users",
            hint="Say where they are: --users eu=60%,us=40%.",
        )  # fmt: skip
    refuse_unknown_year(request.year)


def refuse_unknown_year(year: int | None) -> None:
    """Refuse a year of which no grid is known."""
    years = grid_years()
    if year is not None and year not in years:
        raise UsageError("no grid is known of that year", found=year, expected=f"from {min(years)} to {max(years)}")


def placed(asked: Asked, request: RegionRequest, tables: Catalog) -> Asked:
    """The question with its users and what its regions emit; regions with too much carbon are left out."""
    prepared = tuple(
        replace(p, question=replace(p.question, offers=clean_offers(p.question.offers, request, tables)))
        for p in asked.prepared
    )
    services = tuple((p.question, p.calibration) for p in prepared)
    asked = replace(asked, prepared=prepared, services=services)
    reach = reach_of(request, asked.offers, tables) if request.users else None
    terms = replace(asked.terms, usd_per_million_answer_tokens=dict(egress_of_answers(asked.offers, tables)))
    if request.carbon_budget is not None:
        kg = dict(machine_carbon(asked.offers, request.year, tables))
        terms = replace(terms, most_kg_per_hour=request.carbon_budget, kg_per_hour=kg)
    return replace(asked, reach=reach, terms=terms)


def clean_offers(offers: Sequence[Offer], request: RegionRequest, tables: Catalog) -> tuple[Offer, ...]:
    """Offers in regions whose grid emits at most what is allowed; those whose grid is not known are left out then."""
    if request.max_grid is None:
        return tuple(offers)
    known = known_grids(map(region_of, offers), request.year, tables)
    kept = tuple(o for o in offers if known.get(region_of(o), math.inf) <= request.max_grid)
    if not kept:
        most = f"at most {request.max_grid:g} g CO2e/kWh"
        raise Infeasible(f"no allowed region has a grid of {most}", hint=f"{cleanest(known)}.")
    return kept


def cleanest(known: Mapping[RegionKey, float]) -> str:
    """The cleanest of some grids, in words."""
    if not known:
        return "No grid of an allowed region is known; allow more regions or clouds"
    key = min(known, key=lambda key: (known[key], key))
    return f"The cleanest that is known is {' '.join(key)}, {known[key]:.3g} g CO2e/kWh"


def reach_of(request: RegionRequest, offers: Sequence[Offer], tables: Catalog) -> Reach:
    """Users by place, and the network from each to every region that sells."""
    groups = tuple(user_group(words, share, request, tables) for words, share in parse_users(request.users or ()))
    regions = sorted({(offer.cloud, offer.region) for offer in offers})
    places = {key: place for key in regions if (place := region_place(tables, *key)) is not None}
    measured, model = load_measured_round_trips(), load_network_model()
    network = {
        (users, key): round_trip(group.place, place, measured, model)
        for users, group in enumerate(groups)
        for key, place in places.items()
    }
    return Reach(groups, network)


def user_group(words: str, share: float, request: RegionRequest, tables: Catalog) -> UserGroup:
    """Users of a place, who stay in the areas asked for where they are in one."""
    place = place_of_users(tables, words)
    areas = {area: regions_in(tables, area, None) for area in known_areas(request.stay or (), tables)}
    own = [regions for area, regions in areas.items() if is_in(place, words, area, tables)]
    stays = frozenset((r.cloud, r.region) for regions in own for r in regions)
    return UserGroup(place, share, stays if own else None)


def place_of_users(tables: Catalog, words: str) -> Place:
    """Where users are; several places without shares are told apart from one that is not known."""
    try:
        return user_place(tables, words)
    except UnknownName:
        if "," not in words:
            raise
        raise UsageError("users of several places have shares", found=words, expected=USERS_EXPECTED) from None


def said_of_places(
    asked: Asked,
    request: RegionRequest,
    posed: Posed,
    found: Rated | None,
    copies: Sequence[MixCopies],
    tables: Catalog,
) -> Mapping[str, Any]:
    """Users, regions, and of a mix what users meet, what is emitted and what leaves."""
    usd_per_million = asked.terms.usd_per_million_answer_tokens
    facts = facts_of({(offer.cloud, offer.region) for offer in asked.offers}, request.year, tables, usd_per_million)
    said: dict[str, Any] = {"users": user_places(asked.reach), "regions": region_rows(posed, found, facts)}
    if found is None:
        return said
    return said | {
        "at_users": at_users(posed, found, copies),
        "emitted": emitted(posed, found, copies, facts, load_site_figures()),
        "egress": egress_costs(posed, found, copies, facts, load_site_figures()),
        "egress_usd_per_hour": float(np.sum(found.problem.sending * found.mix.share)),
        "lost": lost_regions(posed, found),
        "usd_per_kg_saved": usd_per_kg(asked, posed, found, dict(machine_carbon(posed.offers, request.year, tables))),
    }


def facts_of(
    regions: Iterable[RegionKey], year: int | None, tables: Catalog, usd_per_million: Mapping[RegionKey, float]
) -> dict[RegionKey, RegionFacts]:
    """What is known of regions; `usd_per_million` tokens of answers cost on their way out."""
    return {
        key: RegionFacts(
            region_place(tables, *key),
            country_of(tables, key),
            grid_carbon(tables, *key, year),
            power_usage(*key, year),
            egress_price(tables, *key),
            usd_per_million.get(key, 0.0),
        )
        for key in sorted(regions)
    }


def followed_sun(asked: Asked, posed: Posed, found: Rated, reach: Reach, tables: Catalog) -> FollowedSun:
    """What a day costs by the hour where users are awake, in all regions and in those of the static answer alone."""
    site = load_site_figures()
    peak, hour = site.users_peak_over_mean.value, site.users_peak_hour.value
    users = [bucket.users or 0 for service in posed.services for bucket in service.buckets]
    ratio = awake_ratio(reach, peak, hour)[:, users]
    start_usd = starts_usd(posed, tables)
    anywhere = followed(posed, found, ratio, start_usd, lambda: solver(asked))
    there = in_regions_of(posed, found)
    moves = np.any([hour.mix.machines > there.problem.most_machines for hour in anywhere.hours])
    in_place = followed(there, found, ratio, start_usd, lambda: solver(asked)) if moves else anywhere
    best = min(anywhere, in_place, key=lambda day: day.usd)
    return FollowedSun(
        usd_per_day_static=static_usd_per_day(found, ratio),
        usd_per_day=best.usd,
        usd_per_day_in_place=in_place.usd,
        usd_per_day_one_fleet=one_fleet_usd_per_day(posed, [anywhere, in_place], found, ratio),
        starts=float(best.started.sum()),
        starts_usd_per_day=best.starts_usd,
        hours=hours_of_day(posed, best),
        peak_over_mean=peak,
        peak_hour=hour,
    )


def solver(asked: Asked) -> Solver:
    """A solver of an hour's problems, with its part of the effort of the whole."""
    limit_s = asked.request.time_limit_s
    most = Effort.of_iterations(USUAL_ITERATIONS / OF_HOURS) if limit_s is None else effort_of(limit_s / OF_HOURS)
    return lambda problem, _: cheaper_mix(without_beaten(problem), most)


def starts_usd(posed: Posed, tables: Catalog) -> FloatArray:
    """What a machine of each offer costs from its start until its copies answer   [USD], [offer]."""
    seconds = np.zeros(posed.problem.num_offers)
    known: dict[tuple[int, str, int], float] = {}
    for way in posed.ways:
        instance, devices = posed.instances[way.offer], int(posed.services[way.service].every.num_devices[way.row])
        key = (way.service, instance.accelerator, devices)
        if key not in known:
            known[key] = start_s(posed, *key, tables)
        seconds[way.offer] = max(seconds[way.offer], known[key])
    return np.asarray(seconds / HOUR * posed.problem.usd_per_hour)


def start_s(posed: Posed, service: int, gpu: str, devices: int, tables: Catalog) -> float:
    """Seconds until a copy answers on a new machine; a judgement where nothing is known of it."""
    model = posed.services[service].question.model
    try:
        return cold_start_of(model.arch, f"{gpu}:{devices}", catalog=tables).seconds.value
    except GpufleetError:
        return UNKNOWN_START_S
