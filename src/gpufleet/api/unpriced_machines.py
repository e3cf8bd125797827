"""Machine types without a price that could have been the answer, and below which price they would be it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpufleet.api.market import kinds_asked, offer_filter
from gpufleet.catalog.query import OfferFilter, allows, matching_offers, price_per_gpu_usd_per_hour
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import PriceKind, price_kind
from gpufleet.optimize.copies.protocol import Copies
from gpufleet.optimize.dated import unpriced
from gpufleet.optimize.placement import Placement, over_hours
from gpufleet.optimize.service import AnyQuestion, ServeSolution
from gpufleet.questions.fields import ServiceRequest
from gpufleet.results.plan import MissingPrice


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


def least_usd_per_gpu_hour(gpu: str, kinds: Collection[PriceKind], tables: Catalog) -> float | None:
    """The least that is asked anywhere for one such GPU in a machine of whole ones, at a price with a date."""
    offers = matching_offers(tables, OfferFilter(accelerators={gpu}, price_kinds=kinds))
    machines = [(o, tables.instance_of(o)) for o in offers if o.is_dated]
    return min((price_per_gpu_usd_per_hour(o, m) for o, m in machines if m.gpu_count >= 1), default=None)


def is_sold_so(machine: Instance, wanted: OfferFilter, tables: Catalog) -> bool:
    """Whether a machine type may be had as asked; where nothing is known of it, it may.

    One that has prices elsewhere must be known to be sold there, and one that has them of other kinds alone is not sold
    in the kinds that are asked about.
    """
    asked = set(wanted.price_kinds or ())
    priced = {o.price_kind for o in tables.offers if (o.cloud, o.instance) == (machine.cloud, machine.name)}
    rows = [row for row in tables.availability if (row.cloud, row.instance) == (machine.cloud, machine.name)]
    if not priced and not rows:
        return True
    here = [row for row in rows if allows(wanted.regions, row.region)]
    kinds = {kind for row in here for kind in row.sold_as}
    return bool(here) and (not kinds or bool(kinds & asked)) and (not priced or bool(priced & asked))
