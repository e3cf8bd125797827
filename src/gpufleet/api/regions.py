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
    lost_regions,
    region_rows,
    user_places,
)
from gpufleet.api.envelope import in_full
from gpufleet.api.mixes import (
    MOST_SERVICES,
    Asked,
    asked_beside,
    found_mix,
    is_over_budget,
    posed_of,
    understood_mix,
    with_mix,
    without_mix,
)
from gpufleet.api.spoken import Services, spoken_of_services
from gpufleet.api.sun import followed_sun
from gpufleet.catalog.areas import area_words, regions_in
from gpufleet.catalog.egress import egress_price
from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.network_latency import load_measured_round_trips, load_network_model
from gpufleet.catalog.sites import grid_carbon, grid_years, load_site_figures, power_usage, spread_of
from gpufleet.catalog.user_places import region_place, user_place
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Spread
from gpufleet.domain.mix import MachineLimit
from gpufleet.domain.offer import Offer
from gpufleet.domain.place import Place
from gpufleet.errors import Infeasible, UnknownName, UsageError
from gpufleet.optimize.mixes.alone import region_of
from gpufleet.optimize.mixes.corrected import Rated
from gpufleet.optimize.mixes.gathered import gathered, nearest, on_cleaner_grids
from gpufleet.optimize.mixes.reach import Reach, RegionKey, UserGroup
from gpufleet.optimize.mixes.terms import CARBON
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.performance.network_latency import round_trip
from gpufleet.pricing.egress import answers_usd_per_million_tokens
from gpufleet.pricing.energy import kwh_per_hour, site_g_co2_per_hour, site_kwh_per_hour
from gpufleet.questions.regions import USERS_EXPECTED, RegionRequest, parse_users
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.results.mix import MixCopies
from gpufleet.results.regions import RegionPlan
from gpufleet.units import KILO, MILLISECOND

LESS_CARBON = 0.9
"""Of what is emitted: what a kilogram less costs is asked of so much."""


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
    asked_of, terms = spoken_of_services(RegionRequest, requests, request, said)
    refuse_out_of_range(terms)
    if not 1 <= len(asked_of) <= MOST_SERVICES:
        raise UsageError(
            "the number of services is out of range", found=len(asked_of), expected=f"from 1 to {MOST_SERVICES}"
        )
    refuse_contradictions(terms)
    tables = load_catalog() if catalog is None else catalog
    asked = placed(understood_mix(terms, asked_of, budget_usd_per_hour, tables), terms, tables)
    posed = posed_of(asked)
    refuse_unserved(asked, posed, terms)
    sound = found_mix(asked, posed)
    found = None if sound is None else settled(asked, posed, sound, terms, tables)
    dear = found if found is not None and is_over_budget(asked, found) else None
    found = found if dear is None else None
    mix = without_mix(asked, posed, dear) if found is None else with_mix(asked, posed, found, tables)
    of_places = said_of_places(asked, terms, posed, found, mix.copies, tables)
    if found is not None and asked.reach is not None and terms.follow_the_sun:
        of_places = {**of_places, "sun": followed_sun(asked, posed, found, asked.reach, tables)}
    plan = RegionPlan(**{**dict(mix), **of_places, "notes": [*mix.notes, *unbound_areas(asked, terms)]})
    return in_full(plan, tables, *asked_of, terms, {"budget": budget_usd_per_hour})


def settled(asked: Asked, posed: Posed, found: Rated, request: RegionRequest, tables: Catalog) -> Rated:
    """The mix in fewer regions and on cleaner grids where that costs no more, users sent to the nearest with room."""
    grids = {key: grid_carbon(tables, *key, request.year) for key in {(o.cloud, o.region) for o in posed.offers}}
    known = {key: grid.g_co2e_per_kwh.expected for key, grid in grids.items() if grid is not None}
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
    asked = replace(asked, prepared=prepared)
    reach = reach_of(request, asked.offers, tables) if request.users else None
    terms = replace(asked.terms, usd_per_million_answer_tokens=dict(egress_of_answers(asked.offers, tables)))
    if request.carbon_budget is not None:
        kg = dict(machine_carbon(asked.offers, request.year, tables))
        terms = replace(terms, most_kg_per_hour=request.carbon_budget, kg_per_hour=kg)
    return replace(asked, reach=reach, terms=terms)


def clean_offers(offers: Iterable[Offer], request: RegionRequest, tables: Catalog) -> tuple[Offer, ...]:
    """Offers in regions whose grid emits at most what is allowed; those whose grid is not known are left out then."""
    if request.max_grid is None:
        return tuple(offers)
    kept = tuple(o for o in offers if is_clean(o.cloud, o.region, request.max_grid, request.year, tables))
    if not kept:
        most = f"at most {request.max_grid:g} g CO2e/kWh"
        raise Infeasible(f"no allowed region has a grid of {most}", hint=f"{cleanest(offers, request, tables)}.")
    return kept


def cleanest(offers: Iterable[Offer], request: RegionRequest, tables: Catalog) -> str:
    """The cleanest grid of all offers, in words."""
    grids = {key: grid_carbon(tables, *key, request.year) for key in {(o.cloud, o.region) for o in offers}}
    known = {key: grid.g_co2e_per_kwh.expected for key, grid in grids.items() if grid is not None}
    if not known:
        return "No grid of an allowed region is known; allow more regions or clouds"
    key = min(known, key=lambda key: (known[key], key))
    return f"The cleanest that is known is {' '.join(key)}, {known[key]:.3g} g CO2e/kWh"


def is_clean(cloud: str, region: str, most_g: float, year: int | None, tables: Catalog) -> bool:
    """Whether the grid of a region is known to emit at most so much."""
    found = grid_carbon(tables, cloud, region, year)
    return found is not None and found.g_co2e_per_kwh.expected <= most_g


def egress_of_answers(offers: Iterable[Offer], tables: Catalog) -> Iterator[tuple[RegionKey, float]]:
    """What a million tokens of answers, streamed, cost on their way out of each region that has a price   [USD].

    A region without one costs what the dearest of its cloud does: what is not known must not look free. None of a cloud
    that has published none.
    """
    each = load_site_figures().bytes_per_streamed_token.value
    dearest = dearest_egress(tables)
    for key in sorted({(offer.cloud, offer.region) for offer in offers}):
        usd_per_gb = egress_usd_per_gb(tables, key, None, dearest)
        if usd_per_gb is not None:
            yield key, answers_usd_per_million_tokens(each, usd_per_gb)


def dearest_egress(tables: Catalog) -> dict[str, float]:
    """What a GB costs on its way out of the dearest region of each cloud that has published a price   [USD/GB]."""
    dearest: dict[str, float] = {}
    for cloud, region in all_regions(tables):
        price = egress_price(tables, cloud, region)
        if price is not None:
            dearest[cloud] = max(dearest.get(cloud, 0.0), price.first_paid_usd_per_gb)
    return dearest


def egress_usd_per_gb(
    tables: Catalog, source: RegionKey, to: RegionKey | None, dearest: Mapping[str, float]
) -> float | None:
    """What a GB costs on its way out of a region, to the internet or `to` another one: at the first price that is paid.

    Nothing within a region. One without a price costs what the dearest of its cloud does; None of a cloud without any.
    """
    if source == to:
        return 0.0
    price = egress_price(tables, *source, to)
    return dearest.get(source[0]) if price is None else price.first_paid_usd_per_gb


def all_regions(tables: Catalog) -> list[RegionKey]:
    """Every region of every cloud, open to everybody."""
    return [key for key in tables.located_regions if tables.is_open(*key)]


def machine_carbon(
    offers: Iterable[Offer], year: int | None, tables: Catalog
) -> Iterator[tuple[tuple[str, str, str], float]]:
    """What a machine that always works emits, at the high end, of every offer whose grid and GPU are known   [kg/h]."""
    over_gpu = spread_of(load_site_figures().machine_over_gpu_watts)
    for offer in offers:
        instance, grid = tables.instance_of(offer), grid_carbon(tables, offer.cloud, offer.region, year)
        watts = tables.accelerators[instance.accelerator].board_power_watts
        if grid is None or watts is None or not isinstance(instance, Instance):
            continue
        gpus = float(kwh_per_hour(watts, instance.gpu_count, 1.0))
        usage = power_usage(offer.cloud, offer.region, year).ratio
        site = site_kwh_per_hour(Spread(gpus, gpus, gpus), over_gpu, usage)
        yield (
            (offer.cloud, offer.region, offer.instance),
            site_g_co2_per_hour(site, grid.g_co2e_per_kwh).high / KILO,
        )


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


def known_areas(areas: Sequence[str], tables: Catalog) -> list[str]:
    """Areas by name; what is none is told."""
    known = area_words(tables)
    for area in areas:
        if area.casefold() not in known:
            raise UnknownName("area", area, known)
    return [area.casefold() for area in areas]


def is_in(place: Place, words: str, area: str, tables: Catalog) -> bool:
    """Whether users are in an area: it is what they were called, or their country is in it."""
    codes = area_words(tables)[area]
    named = area_words(tables).get(words.casefold(), frozenset())
    return place.country in codes or bool(named and named <= codes)


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
        "usd_per_kg_saved": usd_per_kg(asked, posed, found, request, tables),
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


def country_of(tables: Catalog, key: RegionKey) -> str | None:
    """The country of a region by its name."""
    located = tables.located_regions.get(key)
    country = None if located is None else tables.countries.get(located.country)
    return None if country is None else country.name


def usd_per_kg(asked: Asked, posed: Posed, found: Rated, request: RegionRequest, tables: Catalog) -> float | None:
    """What a kilogram less costs: of the cheapest mix that emits a tenth less; None where it cannot be told."""
    kg = dict(machine_carbon(posed.offers, request.year, tables))
    each = [kg.get((o.cloud, o.region, o.instance)) for o in posed.offers]
    bought = [(k, n) for k, n in zip(each, found.mix.machines, strict=True) if n > 0]
    if any(k is None for k, _ in bought):
        return None
    now = sum((k or 0.0) * n for k, n in bought)
    per_machine = np.array([math.inf if k is None else k for k in each])
    known = np.isfinite(per_machine)
    limits = (
        *(limit for limit in posed.problem.limits if limit.name != CARBON),
        MachineLimit(CARBON, np.where(known, per_machine, 0.0), now * LESS_CARBON),
    )
    problem = replace(posed.problem, limits=limits, most_machines=np.where(known, posed.problem.most_machines, 0.0))
    lean = asked_beside(asked, replace(posed, problem=problem), None)
    if lean is None:
        return None
    saved = now - float(limits[-1].per_machine @ lean.machines)
    return float((lean.usd_per_hour - found.mix.usd_per_hour) / saved)
