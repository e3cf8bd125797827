"""Regions as users get them: ranked, what users meet, what is emitted and what leaves, machines by the hour."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from gpufleet.answers.figures import spread_figure, spread_of
from gpufleet.answers.fleet_mix import used_ways
from gpufleet.domain.egress import EgressPrice
from gpufleet.domain.interruption import Spread
from gpufleet.domain.mix import Loss
from gpufleet.domain.network_latency import NetworkLatency
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.domain.place import Place
from gpufleet.domain.site import GridCarbon, PowerUsage, SiteFigures
from gpufleet.domain.slo import Limit, Slo
from gpufleet.domain.workload import RequestClass
from gpufleet.memory.weights import weights_bytes_per_device
from gpufleet.optimize.market import effective_price
from gpufleet.optimize.mixes.alone import Alone, cheapest_alone, region_of
from gpufleet.optimize.mixes.corrected import Rated, as_sent
from gpufleet.optimize.mixes.program import is_installed
from gpufleet.optimize.mixes.reach import PROBE_S, Reach, RegionKey, percentile_at_users_s, probing
from gpufleet.optimize.mixes.sending import cheapest_split
from gpufleet.optimize.mixes.sun import HOURS, Day
from gpufleet.optimize.mixes.ways import Posed
from gpufleet.optimize.size import operate
from gpufleet.performance.summed_latency import network_delays
from gpufleet.pricing.egress import answers_gb_per_month, answers_usd_per_month
from gpufleet.pricing.energy import per_million_tokens, site_g_co2_per_hour, site_kwh_per_hour
from gpufleet.provenance import Grade
from gpufleet.results.base import Figure
from gpufleet.results.mix import MixCopies
from gpufleet.results.regions import (
    AtUsers,
    EgressCost,
    Emitted,
    HoursOfDay,
    RegionChoiceRow,
    RegionLost,
    UserNetwork,
    UserPlace,
)
from gpufleet.units import GB, HOUR, MEGA

USUAL_AT_USERS = ("ttft", "p95")


class RegionFacts(NamedTuple):
    """What is known of a region: where it is, its grid and site, and what bytes that leave it cost.

    `usd_per_million_answer_tokens`: on their way out, at the first price that is paid; 0 where none is known.
    """

    place: Place | None
    country: str | None
    grid: GridCarbon | None
    usage: PowerUsage
    egress: EgressPrice | None
    usd_per_million_answer_tokens: float = 0.0


Facts = Mapping[RegionKey, RegionFacts]


def user_places(reach: Reach | None) -> list[UserPlace]:
    """Users by place."""
    return [
        UserPlace.made_of(
            group, group.place, stays_in=sorted(f"{cloud} {region}" for cloud, region in group.stays_in or ())
        )
        for group in (() if reach is None else reach.users)
    ]


def region_rows(posed: Posed, found: Rated | None, facts: Facts) -> list[RegionChoiceRow]:
    """Every region that was looked at: those that are chosen, then those that serve alone, cheapest first, the rest."""
    chosen = set() if found is None else {region_of(posed.offers[int(o)]) for o in np.flatnonzero(found.mix.machines)}
    rows = [region_row(posed, key, facts[key], key in chosen) for key in facts]
    return sorted(
        rows,
        key=lambda r: (
            not r.is_chosen,
            math.inf if r.usd_per_hour_alone is None else r.usd_per_hour_alone,
            r.cloud,
            r.region,
        ),
    )


def region_row(posed: Posed, key: RegionKey, facts: RegionFacts, is_chosen: bool) -> RegionChoiceRow:
    """One region."""
    alone = [cheapest_alone(posed, s, key) for s in range(len(posed.services))]
    usd = None if any(a is None for a in alone) else sum(a.usd_per_hour for a in alone if a is not None)
    if usd is not None:
        tokens_per_s = sum(float(np.sum(service.answer_tokens_per_s)) for service in posed.services)
        usd += tokens_per_s * HOUR / MEGA * facts.usd_per_million_answer_tokens
    first = next((a for a in alone if a is not None), None)
    prices = {} if first is None else prices_of(posed, first.offer)
    reach = posed.services[0].reach
    return RegionChoiceRow(
        **known_of_region(key, facts),
        is_chosen=is_chosen,
        usd_per_hour_alone=usd,
        machines=None if usd is None else machines_words(a for a in alone if a is not None),
        why_not=None if usd is not None else why_not(posed, key, facts),
        on_demand_usd=price_of(prices.get(PriceKind.ON_DEMAND)),
        spot_usd=price_of(prices.get(PriceKind.SPOT)),
        interruption=next((o.interruption for o in prices.values() if o.interruption), None),
        network=[] if reach is None else list(user_networks(reach, key)),
    )


def known_of_region(key: RegionKey, facts: RegionFacts) -> dict[str, Any]:
    """What every row says of a region, whatever is asked of it."""
    place, grid = facts.place, facts.grid
    return {
        "cloud": key[0],
        "region": key[1],
        "place": None if place is None else place.name,
        "country": facts.country,
        "latitude_degrees": None if place is None else place.latitude_degrees,
        "longitude_degrees": None if place is None else place.longitude_degrees,
        "grid": None if grid is None else spread_figure(grid.g_co2e_per_kwh, "g/kWh", grid.grade.label),
        "grid_year": None if grid is None else grid.year,
        "grid_source": None if grid is None else grid.source,
        "power_usage_ratio": facts.usage.ratio.expected,
        "egress_usd_per_gb": None if facts.egress is None else facts.egress.first_paid_usd_per_gb,
    }


def machines_words(alone: Iterable[Alone]) -> str:
    """How many of which, of all services together."""
    held: dict[str, int] = {}
    for each in alone:
        held[each.offer.instance] = held.get(each.offer.instance, 0) + each.machines
    return " + ".join(f"{count}x {instance}" for instance, count in held.items())


def why_not(posed: Posed, key: RegionKey, facts: RegionFacts) -> str:
    """Why a region does not serve all alone: the code of the reason."""
    service = posed.services[0]
    if not any(region_of(o) == key and posed.layouts[0].get((o.cloud, o.instance)) for o in service.question.offers):
        return "nothing_sold_runs_it"
    reach = service.reach
    if reach is None:
        return "quota"
    if facts.place is None:
        return "place_unknown"
    stays = [u for u, group in enumerate(reach.users) if group.stays_in is not None and key not in group.stays_in]
    if stays:
        return "users_stay_elsewhere"
    served = np.zeros(len(service.buckets), dtype=np.bool_)
    for offer in (o for o in service.question.offers if region_of(o) == key):
        for row, _ in posed.layouts[0].get((offer.cloud, offer.instance), ()):
            served |= service.rates_from(key, [row])[:, 0] > 0
    if served.all():
        return "no_type_serves_all"
    return "too_far_for_some" if served.any() else "too_far"


def prices_of(posed: Posed, offer: Offer) -> dict[PriceKind, Offer]:
    """The offers of a machine type in its region, by price kind, the cheapest of each."""
    alike = [
        o
        for s in posed.services
        for o in s.question.offers
        if (o.cloud, o.instance, o.region) == (offer.cloud, offer.instance, offer.region)
    ]
    return {o.price_kind: o for o in sorted(alike, key=effective_price, reverse=True)}


def price_of(offer: Offer | None) -> float | None:
    """What a machine costs an hour, where there is an offer."""
    return None if offer is None else effective_price(offer)


def user_networks(reach: Reach, key: RegionKey) -> Iterator[UserNetwork]:
    """The round trip to the users of every place, where it is known."""
    for users in range(len(reach.users)):
        found = reach.network.get((users, key))
        if found is not None:
            yield UserNetwork(users=users, median=median_of(found), p95_s=found.p95_s, source=found.source)


def median_of(network: NetworkLatency) -> Figure:
    """The median round trip with its range."""
    spread = Spread(network.low_s, network.median_s, network.high_s)
    return spread_figure(spread, "s", network.grade.label)


def at_users(posed: Posed, found: Rated, copies: Sequence[MixCopies]) -> list[AtUsers]:
    """What users of every place meet of every objective that the network adds to."""
    return [row for at, w in enumerate(used_ways(found)) for row in met_by_users(posed, found, w, at, copies[at])]


def met_by_users(posed: Posed, found: Rated, w: int, at: int, copies: MixCopies) -> Iterator[AtUsers]:
    """What the users that a way serves meet."""
    way, offer = posed.ways[w], posed.offers[posed.ways[w].offer]
    service, share = posed.services[way.service], found.mix.share[posed.buckets_of(way.service), w]
    demand, reach = service.sent(share), service.reach
    if demand is None or reach is None:
        return
    limits = demand.workload.slo.limits
    asked = demand.workload.classes if limits else tuple(map(with_usual_figure, demand.workload.classes))
    probed = service.demand_of(tuple(map(probing, asked)))
    runs, _ = service.runnable(probed, service.every.take(np.array([way.row])))
    running = operate(runs.capacity(), 0, demand.workload.rate_requests_per_s / copies.deployment.replicas)
    for users in sorted({b.users or 0 for b, s in zip(service.buckets, share, strict=True) if s > 0}):
        network = reach.between(users, region_of(offer))
        for limit in limits or [limit for c in asked for limit in c.slo.limits]:
            if network is not None:
                latency = latency_at_users(running.objectives_s, limit, network, copies.deployment.latency[limit.label])
                most_s = limit.limit_s if limits else None
                yield AtUsers(users=users, copies=at, objective=limit.label, latency=latency, limit_s=most_s)


def with_usual_figure(c: RequestClass) -> RequestClass:
    """A class of which no limit is asked, with the figure that its users are told: the first token."""
    return replace(c, slo=Slo((Limit(*USUAL_AT_USERS, PROBE_S, c.name),)))


def latency_at_users(objectives_s: Mapping[str, float], limit: Limit, network: NetworkLatency, own: Figure) -> Figure:
    """The model and the network together, with the range that both have."""
    ratios = [1.0 if end is None or not own.value else end / own.value for end in (own.low, own.value, own.high)]
    medians = (network.low_s, network.median_s, network.high_s)
    low, value, high = (
        percentile_at_users_s(objectives_s, limit, ratio, network_delays([around(network, median_s)]))
        for ratio, median_s in zip(ratios, medians, strict=True)
    )
    return Figure(value=value, unit="s", low=low, high=high, grade=own.grade)


def around(network: NetworkLatency, median_s: float) -> NetworkLatency:
    """The same network with another median."""
    jitter_s = network.p95_s - network.median_s
    return NetworkLatency(median_s, median_s + jitter_s, median_s, median_s, network.grade, network.source)


def lost_regions(posed: Posed, found: Rated) -> list[RegionLost]:
    """Where requests go when each region that has machines is lost, where the mix has to survive that."""
    machines = found.mix.machines
    bought = {" ".join(region_of(o)): region_of(o) for o, n in zip(posed.offers, machines, strict=True) if n > 0}
    losses = [loss for loss in found.problem.losses if loss.name in bought]
    if not is_installed():
        return []
    rows = (lost_region(posed, found, loss, bought[loss.name]) for loss in losses)
    return [row for row in rows if row is not None]


def lost_region(posed: Posed, found: Rated, loss: Loss, key: RegionKey) -> RegionLost | None:
    """One region that is lost; None where what is left does not carry all."""
    left = loss.left(found.mix.units)
    share = cheapest_split(found.problem, left)
    if share is None:
        return None
    needed, _ = as_sent(posed, found.problem, share)
    rates = np.concatenate([[b.rate_requests_per_s for b in service.buckets] for service in posed.services])
    shares: dict[str, float] = {}
    for w in np.flatnonzero(share.any(axis=0)):
        name = " ".join(region_of(posed.offers[posed.ways[int(w)].offer]))
        shares[name] = shares.get(name, 0.0) + float(rates @ share[:, w] / np.sum(rates))
    busiest = float(np.max(needed / np.where(left > 0, left, 1.0)))
    return RegionLost(cloud=key[0], region=key[1], shares=shares, busiest_ratio=busiest)


def emitted(posed: Posed, found: Rated, copies: Sequence[MixCopies], facts: Facts, site: SiteFigures) -> list[Emitted]:
    """Electricity and carbon of every row of copies."""
    over = Spread(
        site.machine_over_gpu_watts.low or 1.0,
        site.machine_over_gpu_watts.value,
        site.machine_over_gpu_watts.high or 1.0,
    )
    rows = []
    for at, (w, row) in enumerate(zip(used_ways(found), copies, strict=True)):
        energy, place = row.deployment.energy, facts[region_of(posed.offers[posed.ways[w].offer])]
        if energy is not None:
            tokens_per_s = row.requests_per_s * output_tokens(posed, found, w)
            rows.append(emitted_row(at, spread_of(energy.kwh_per_hour), over, place, tokens_per_s))
    return rows


def emitted_row(at: int, gpus: Spread, over: Spread, place: RegionFacts, tokens_per_s: float) -> Emitted:
    """One row of copies."""
    kwh = site_kwh_per_hour(gpus, over, place.usage.ratio)
    grid, rule = place.grid, Grade.ROOFLINE.label
    grams = None if grid is None else site_g_co2_per_hour(kwh, grid.g_co2e_per_kwh)
    per_million = None if grams is None else per_million_tokens(grams, tokens_per_s)
    return Emitted(
        copies=at,
        kwh_per_hour=spread_figure(kwh, "kWh/h", rule),
        g_co2e_per_hour=None if grams is None else spread_figure(grams, "g/h", rule),
        kwh_per_million_output_tokens=spread_figure(per_million_tokens(kwh, tokens_per_s), "kWh", rule),
        g_co2e_per_million_output_tokens=None if per_million is None else spread_figure(per_million, "g", rule),
        year=None if grid is None else grid.year,
        source=None if grid is None else grid.source,
    )


def output_tokens(posed: Posed, found: Rated, w: int) -> float:
    """Mean tokens of the answers that a way gives."""
    way = posed.ways[w]
    demand = posed.services[way.service].sent(found.mix.share[posed.buckets_of(way.service), w])
    return 0.0 if demand is None else demand.workload.output_tokens


def egress_costs(
    posed: Posed, found: Rated, copies: Sequence[MixCopies], facts: Facts, site: SiteFigures
) -> list[EgressCost]:
    """Answers that leave every region, and one copy of the weights there."""
    sent: dict[RegionKey, float] = {}
    weights: dict[RegionKey, float] = {}
    for w, row in zip(used_ways(found), copies, strict=True):
        key, model = region_of(posed.offers[posed.ways[w].offer]), posed.services[posed.ways[w].service].question.model
        sent[key] = sent.get(key, 0.0) + row.requests_per_s * output_tokens(posed, found, w)
        weights[key] = weights.get(key, 0.0) + float(weights_bytes_per_device(model.arch, model.arch.weights, 1, 1, 1))
    return [egress_cost(key, tokens, weights[key], facts[key], site) for key, tokens in sent.items()]


def egress_cost(
    key: RegionKey, tokens_per_s: float, weights_bytes: float, facts: RegionFacts, site: SiteFigures
) -> EgressCost:
    """One region."""
    each, price, counted = site.bytes_per_streamed_token, facts.egress, facts.usd_per_million_answer_tokens
    usd = answers_usd_per_month(tokens_per_s, 1.0, each, price)
    return EgressCost(
        cloud=key[0],
        region=key[1],
        gb_per_month=answers_gb_per_month(tokens_per_s, 1.0, each.value),
        usd_per_hour=None if usd is None and not counted else tokens_per_s * HOUR / MEGA * counted,
        usd_per_month=None if usd is None else spread_figure(usd, "USD/month", Grade.ROOFLINE.label),
        weights_gb=weights_bytes / GB,
        weights_usd=None if price is None else weights_bytes / GB * price.first_paid_usd_per_gb,
        source=None if price is None else price.source,
        as_of=None if price is None else price.as_of,
    )


def hours_of_day(posed: Posed, day: Day) -> list[HoursOfDay]:
    """Hours that have the same machines one after the other; the cost is their mean."""
    found, at = [], 0
    for _, group in groupby(day.hours, key=lambda hour: tuple(hour.mix.machines)):
        alike = list(group)
        usd = float(np.mean([running_usd(hour) for hour in alike]))
        end = (at + len(alike) - 1) % HOURS + 1
        found.append(HoursOfDay(from_hour=at, to_hour=end, machines=machines_in(posed, alike[0]), usd_per_hour=usd))
        at += len(alike)
    return found


def running_usd(hour: Rated) -> float:
    """What machines and sending cost in an hour, without starts."""
    sent = float(np.sum(hour.problem.sending * hour.mix.share))
    return float(hour.mix.machines @ hour.problem.usd_per_hour) + sent


def machines_in(posed: Posed, hour: Rated) -> dict[str, str]:
    """The machines of every region."""
    held: dict[str, list[str]] = {}
    for o in np.flatnonzero(hour.mix.machines):
        offer = posed.offers[int(o)]
        held.setdefault(f"{offer.cloud} {offer.region}", []).append(f"{hour.mix.machines[o]:.0f}x {offer.instance}")
    return {region: " + ".join(machines) for region, machines in held.items()}
