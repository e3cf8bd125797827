"""What may be rented under a question's request: offers with prices, machine types, and those without a price."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from gpufleet.api.input_rows import InputRow
from gpufleet.catalog.areas import RegionChoice, chosen_regions, region_notes
from gpufleet.catalog.current_date import current_date
from gpufleet.catalog.load import Catalog
from gpufleet.catalog.missing_prices import is_sold_so, least_usd_per_gpu_hour, missing_notes, no_price
from gpufleet.catalog.price_age import refuse_old_prices
from gpufleet.catalog.provider_classes import class_of, clouds_of_providers
from gpufleet.catalog.query import OfferFilter, resolve_cloud, resolve_gpu
from gpufleet.catalog.slices import slices_of
from gpufleet.catalog.spoken_machines import owned_notes
from gpufleet.catalog.what_if import asked_prices, change_words
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind, price_kind
from gpufleet.errors import UsageError
from gpufleet.optimize.copies.protocol import Copies
from gpufleet.optimize.dated import dated_or_all, unpriced
from gpufleet.optimize.market import PricedPlacement, best_of_each_type, rank
from gpufleet.optimize.placement import Placement, over_hours
from gpufleet.optimize.service import AnyQuestion, ServeSolution
from gpufleet.questions.fields import MarketRequest, PlanRequest, ServiceRequest
from gpufleet.records import dataclass
from gpufleet.results.plan import MissingPrice

EVERY_CLOUD = "all"
USUAL_KINDS = (PriceKind.ON_DEMAND, PriceKind.OWNED)


@dataclass(frozen=True)
class Market:
    """Offers that a question may buy, machine types priced or not, and notes on how names were read."""

    offers: tuple[Offer, ...]
    instances: tuple[Instance, ...]
    notes: tuple[str, ...]


def market_of(request: PlanRequest, tables: Catalog) -> Market:
    """What may be rented; DataMissing where nothing has a known price."""
    gpus = [resolve_gpu(tables, name) for name in request.gpus or ()]
    wanted = offer_filter(request, tables, slices_of(tables, [gpu.accelerator.name for gpu in gpus]) or None)
    matching = asked_prices(tables, wanted, request.price_change)
    offers = tuple(o for o in matching if tables.instance_of(o).gpu_count >= 1)
    if not offers:
        raise no_price(tables, wanted)
    read = [gpu.note for gpu in gpus if gpu.note]
    left_out = region_notes(tables, wanted, regions_asked(request, tables).areas)
    what_if = [f"What if: {name} {value}" for name, _, value, _ in changed_prices(request, offers)]
    missing = missing_notes(tables, wanted, [price_kind(name) for name in request.pricing or ()], offers)
    notes = (*read, *left_out, *what_if, *missing, *owned_notes(request.owned or ()))
    return Market(offers, machines(tables, wanted), notes)


def machines(tables: Catalog, wanted: OfferFilter) -> tuple[Instance, ...]:
    """Whole-GPU machine types of the allowed clouds and accelerators, priced or not."""
    allowed = (
        i
        for i in tables.instances.values()
        if i.gpu_count >= 1
        and not i.retired
        and (wanted.clouds is None or i.cloud in wanted.clouds)
        and (wanted.accelerators is None or i.accelerator in wanted.accelerators)
    )
    return tuple(allowed)


def offer_filter(request: MarketRequest, tables: Catalog, gpus: Collection[str] | None) -> OfferFilter:
    """Clouds, regions and price kinds by their right names; on-demand and one's own where nothing is said."""
    kinds = [price_kind(name) for name in kinds_asked(request)]
    regions = regions_asked(request, tables).regions
    return OfferFilter(clouds=clouds_asked(request, tables), regions=regions, accelerators=gpus, price_kinds=kinds)


def clouds_asked(request: MarketRequest, tables: Catalog) -> list[str] | None:
    """Clouds by their right names, of the providers that are meant; all of them where 'all' or nothing is said."""
    asked = request.clouds or ()
    is_any = EVERY_CLOUD in map(str.casefold, asked)
    clouds = None if is_any else [resolve_cloud(tables, c) for c in asked] or None
    return within_providers(clouds, request, tables)


def within_providers(clouds: list[str] | None, request: MarketRequest, tables: Catalog) -> list[str] | None:
    """Those of the clouds whose providers are meant; UsageError where that leaves none of them."""
    said = request.providers or ()
    if not said or EVERY_CLOUD in map(str.casefold, said):
        return clouds
    found = clouds_of_providers(tables, said, clouds)
    if not found:
        raise UsageError(
            "no cloud is left",
            found=f"--clouds {','.join(clouds or ())} --providers {','.join(said)}",
            expected="a cloud whose provider is of these classes",
            hint=", ".join(f"{cloud} is {class_of(cloud)}" for cloud in clouds or ()) + ".",
        )
    return found


def regions_asked(request: MarketRequest, tables: Catalog) -> RegionChoice:
    """Regions by their right names, areas among them."""
    return chosen_regions(tables, request.regions or (), clouds_asked(request, tables))


def kinds_asked(request: MarketRequest) -> Sequence[str]:
    """Price kinds by name: on-demand and one's own unless said, and spot where a share of it is."""
    spot = (PriceKind.SPOT,) if request.may_use_spot else ()
    return request.pricing or [kind.value for kind in (*USUAL_KINDS, *spot)]


def kind_words(request: PlanRequest, offers: Sequence[Offer]) -> str:
    """The price kinds as they were read; one's own machines only where there are any."""
    sold = {offer.price_kind.value for offer in offers}
    asked = [kind for kind in kinds_asked(request) if request.pricing or kind != PriceKind.OWNED.value or kind in sold]
    return ", ".join(asked).replace("-", "_")


def market_rows(request: PlanRequest, offers: Sequence[Offer]) -> list[InputRow]:
    """What may be rented."""
    return [
        ("clouds", "clouds", ", ".join(request.clouds or ["all"]), request.clouds or request.providers),
        *([("providers", "providers", ", ".join(request.providers), True)] if request.providers else []),
        ("regions", "regions", ", ".join(request.regions or ["all"]), request.regions),
        ("GPUs", "gpus", ", ".join(request.gpus or ["all"]), request.gpus),
        ("price kinds", "pricing", kind_words(request, offers), request.pricing),
        *changed_prices(request, offers),
    ]


def changed_prices(request: PlanRequest, offers: Sequence[Offer]) -> list[InputRow]:
    """How the prices differ from those known here, where somebody asked what if."""
    if not request.price_change:
        return []
    return [("prices", "price_change", change_words(request.price_change, offers), True)]


def best_on_spot(request: PlanRequest, placements: Sequence[Placement], tables: Catalog) -> PricedPlacement | None:
    """The cheapest spot offer of what was placed, where the question was about on-demand prices only.

    Machine types that nobody sells on demand are among them.
    """
    if request.pricing or request.may_use_spot:
        return None
    wanted = replace(offer_filter(request, tables, None), price_kinds=[PriceKind.SPOT])
    offers = dated_or_all(asked_prices(tables, wanted, request.price_change))
    return next(iter(best_of_each_type(rank(placements, offers))), None)


def refuse_too_old(request: MarketRequest, offers: Sequence[Offer]) -> None:
    """Raise when any of these prices is older than the request allows."""
    if request.max_price_age_s is not None:
        refuse_old_prices(offers, request.max_price_age_s, request.today or current_date())


def missing_prices(
    question: AnyQuestion, solution: ServeSolution[Copies], request: ServiceRequest, tables: Catalog
) -> list[MissingPrice]:
    """What would be the answer at a price that somebody asks for its GPU, of each cloud and GPU the cheapest so.

    Those first that may cost most per GPU.
    """
    if not solution.ranked:
        return []
    kinds = [price_kind(name) for name in kinds_asked(request)]
    wanted = offer_filter(request, tables, None)
    sold = [p for p in unpriced(question, solution) if is_sold_so(p.instance, wanted, tables)]
    found = list(could_win(sold, solution.ranked[0].counted_usd_per_hour, kinds, tables))
    best = {(m.cloud, m.gpu): m for m in sorted(found, key=known_usd_per_hour, reverse=True)}
    return sorted(best.values(), key=lambda m: (-m.wins_below_usd_per_hour / m.gpus_per_instance, m.instance))


def known_usd_per_hour(m: MissingPrice) -> tuple[float, str]:
    """What as many of its GPUs cost at the least that anybody asks for one."""
    return m.instance_count * m.least_known_usd_per_hour, m.instance


def could_win(
    placements: list[Placement], answer_usd_per_hour: float, kinds: Collection[PriceKind], tables: Catalog
) -> Iterator[MissingPrice]:
    """Machines that would cost less than the answer at the least that anybody asks for their GPUs."""
    for p in placements:
        gpu, gpus = p.instance.accelerator, p.instance.gpu_count
        paid = over_hours(p.busy_ratio, p.instance_count, p.quiet_instance_count)
        wins_below = answer_usd_per_hour / (float(paid) * p.doubt_ratio)
        known = least_usd_per_gpu_hour(gpu, kinds, tables)
        if known is not None and gpus * known < wins_below:
            yield MissingPrice(
                cloud=p.instance.cloud,
                instance=p.instance.name,
                instance_count=p.instance_count,
                gpu=gpu,
                gpus_per_instance=gpus,
                wins_below_usd_per_hour=wins_below,
                least_known_usd_per_hour=gpus * known,
            )
