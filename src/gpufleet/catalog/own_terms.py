"""What a user has agreed on or is held to: negotiated discounts, quotas, exchange rates, lines of the bill.

`contracts.csv` takes a share off list prices, `quotas.csv` bounds how many machines can be had, `gpu_quotas.csv` how
many GPUs, whatever machines hold them, `exchange_rates.csv` turns prices of another currency into dollars. 'all' stands
for every region, type or price kind. What has an `until` holds up to that day, and is then named as ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import NamedTuple

from gpufleet.catalog.schema import (
    PRICE_BASES,
    PRICE_KINDS,
    Place,
    Row,
    choice,
    day,
    last_day,
    number,
    required_number,
    text,
    unreadable,
    whole,
)
from gpufleet.domain.bill import BillLine, Per
from gpufleet.domain.currency import is_likely
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import GpuQuota, Offer, PriceBasis, PriceKind
from gpufleet.errors import UsageError, nearest_names
from gpufleet.records import dataclass
from gpufleet.units import PERCENT

ANY = "all"
MOST_SURCHARGE = 10.0
MOST_DISCOUNT, USUAL_DISCOUNT = 0.9, 2 / 3
OF_GPUS = "A quota of GPUs, whatever machines hold them, is a row of gpu_quotas.csv."
OWN_SOURCE, OWN_TITLE = "your-tables", "Your own tables"
MATCH_COLUMNS = ("cloud", "region", "instance_type", "price_kind")
CONTRACT_COLUMNS = (*MATCH_COLUMNS, "discount_ratio", "source_id", "as_of")
QUOTA_COLUMNS = (*MATCH_COLUMNS, "max_instances")
GPU_QUOTA_COLUMNS = ("cloud", "region", "gpu", "price_kind", "max_gpus")
RATE_COLUMNS = ("currency", "usd_per_unit", "source_id", "as_of")
BILL_COLUMNS = ("line", "cloud", "region", "quantity", "quantity_per", "unit", "unit_usd", "source_id")
FOREIGN_COLUMNS = (
    *(*MATCH_COLUMNS, "upfront", "price_per_instance_per_hour", "currency"),
    *("basis", "source_id", "as_of", "interruption"),
)


Sold = tuple[str, str, str]


class Match(NamedTuple):
    """Which offers a row speaks of; 'all' is any."""

    cloud: str
    region: str
    instance: str
    price_kind: str

    def accepts(self, offer: Offer) -> bool:
        """Whether the row speaks of this offer."""
        found = (offer.cloud, offer.region, offer.instance, offer.price_kind.value)
        return all(wanted in (ANY, value) for wanted, value in zip(self, found, strict=True))

    @property
    def num_named(self) -> int:
        """How many properties it names: the row that names most counts."""
        return sum(value != ANY for value in self)


@dataclass(frozen=True)
class Contract:
    """A share off the list price; a negative one is a surcharge."""

    place: Place
    match: Match
    discount_ratio: float
    source: str
    as_of: date
    until: date | None = None

    def is_in_force(self, now: date) -> bool:
        """Whether it has not ended by that day."""
        return self.until is None or now <= self.until


class EndedPrice(NamedTuple):
    """A price or a discount of the user that has ended; `follows` says what counts in its place."""

    match: Match
    until: date
    follows: str

    @property
    def in_words(self) -> str:
        """Which it is, since when, and what counts now."""
        return f"{' '.join(self.match)} held until {self.until}: {self.follows}"


@dataclass(frozen=True)
class Quota:
    """At most so many machines of one offer."""

    place: Place
    match: Match
    max_instances: int


class GpuMatch(NamedTuple):
    """Which offers a quota of GPUs speaks of; 'all' is any cloud, region or price kind."""

    cloud: str
    region: str
    gpu: str
    price_kind: str

    def accepts(self, offer: Offer, gpu: str) -> bool:
        """Whether the row speaks of this offer, whose machines hold such GPUs."""
        found = (offer.cloud, offer.region, gpu, offer.price_kind.value)
        return all(wanted in (ANY, value) for wanted, value in zip(self, found, strict=True))

    def name_at(self, offer: Offer) -> str:
        """What is shared: the GPUs of one region, of one price kind or of all."""
        kind = "" if self.price_kind == ANY else f", {self.price_kind.replace('_', ' ')}"
        return f"{offer.cloud} {offer.region} {self.gpu}{kind}"


@dataclass(frozen=True)
class GpusAtMost:
    """At most so many GPUs of a name in each region, whatever machines hold them."""

    place: Place
    match: GpuMatch
    max_gpus: int


class ExchangeRate(NamedTuple):
    """USD for one unit of a currency."""

    currency: str
    usd_per_unit: float
    source: str
    as_of: date


class ForeignOffer(NamedTuple):
    """A price in another currency; without a rate it is no offer."""

    cloud: str
    region: str
    instance: str
    price_kind: PriceKind
    upfront: float
    price_per_instance_per_hour: float
    currency: str
    basis: PriceBasis
    source: str
    as_of: date
    interruption: str | None
    until: date | None = None


def match_from(place: Place, row: Row) -> Match:
    """The first columns of a row of terms."""
    cloud, region, instance = (text(place, column, row[column]) for column in MATCH_COLUMNS[:-1])
    kinds = {word: word for word in (*PRICE_KINDS, ANY)}
    return Match(cloud, region, instance, choice(place, "price_kind", row["price_kind"], kinds))


def contract_from(place: Place, row: Row) -> Contract:
    """A row of contracts.csv."""
    ratio = discount(row["discount_ratio"])
    if ratio is None or not -MOST_SURCHARGE < ratio < 1 or not ratio:
        expected = "a share between 0 and 1, such as 0.35; -0.2 for prices 20 % higher"
        raise unreadable(place, "discount_ratio", row["discount_ratio"], expected)
    if ratio > MOST_DISCOUNT:
        raise UsageError(
            f"{place}: discount_ratio cannot be meant",
            found=row["discount_ratio"],
            expected=f"the share that is taken off the list price, up to {MOST_DISCOUNT:g}",
            hint="0.1 is 10 % off. A price that is agreed on otherwise is a row of offers/.",
        )
    source = row["source_id"] or OWN_SOURCE
    begins, ends = day(place, "as_of", row["as_of"]), last_day(place, row)
    return Contract(place, match_from(place, row), ratio, source, begins, ends)


def discount(cell: str) -> float | None:
    """A share with its sign; None where it is no number."""
    try:
        return float(cell)
    except ValueError:
        return None


def quota_from(place: Place, row: Row) -> Quota:
    """A row of quotas.csv; 0 says that none can be had."""
    most = whole(place, "max_instances", row["max_instances"])
    if most is None:
        raise unreadable(place, "max_instances", "", "a number of machines, 0 where none can be had")
    return Quota(place, match_from(place, row), most)


def gpu_quota_from(place: Place, row: Row) -> GpusAtMost:
    """A row of gpu_quotas.csv; 0 says that none can be had."""
    most = whole(place, "max_gpus", row["max_gpus"])
    if most is None:
        raise unreadable(place, "max_gpus", "", "a number of GPUs, 0 where none can be had")
    cloud, region, gpu = (text(place, column, row[column]) for column in GPU_QUOTA_COLUMNS[:3])
    if gpu == ANY:
        raise unreadable(place, "gpu", gpu, "one GPU, such as H100; a row for each")
    kind = choice(place, "price_kind", row["price_kind"], {word: word for word in (*PRICE_KINDS, ANY)})
    return GpusAtMost(place, GpuMatch(cloud, region, gpu, kind), most)


def rate_from(place: Place, row: Row) -> ExchangeRate:
    """A row of exchange_rates.csv."""
    currency = text(place, "currency", row["currency"]).upper()
    rate = required_number(place, "usd_per_unit", row["usd_per_unit"])
    if not is_likely(currency, 1 / rate):
        raise unreadable(place, "usd_per_unit", row["usd_per_unit"], f"dollars for one {currency}, such as 1.087")
    return ExchangeRate(currency, rate, row["source_id"] or OWN_SOURCE, day(place, "as_of", row["as_of"]))


def bill_line_from(place: Place, row: Row) -> BillLine:
    """A row of bill_lines.csv."""
    return BillLine(
        name=text(place, "line", row["line"]),
        cloud=text(place, "cloud", row["cloud"]),
        region=text(place, "region", row["region"]),
        quantity=required_number(place, "quantity", row["quantity"]),
        per=choice(place, "quantity_per", row["quantity_per"], {per.value: per for per in Per}),
        unit=text(place, "unit", row["unit"]),
        unit_usd=required_number(place, "unit_usd", row["unit_usd"]),
        source=row["source_id"] or OWN_SOURCE,
    )


def foreign_offer_from(place: Place, row: Row) -> ForeignOffer:
    """A row of foreign_offers/*.csv."""
    currency = text(place, "currency", row["currency"]).upper()
    if currency == "USD":
        raise unreadable(place, "currency", row["currency"], "another currency; dollars stand in offers/")
    return ForeignOffer(
        cloud=text(place, "cloud", row["cloud"]),
        region=text(place, "region", row["region"]),
        instance=text(place, "instance_type", row["instance_type"]),
        price_kind=choice(place, "price_kind", row["price_kind"], PRICE_KINDS),
        upfront=number(place, "upfront", row["upfront"]) or 0.0,
        price_per_instance_per_hour=required_number(
            place, "price_per_instance_per_hour", row["price_per_instance_per_hour"]
        ),
        currency=currency,
        basis=choice(place, "basis", row["basis"], PRICE_BASES),
        source=row["source_id"] or OWN_SOURCE,
        as_of=day(place, "as_of", row["as_of"]),
        interruption=row["interruption"] or None,
        until=last_day(place, row),
    )


def discounted(offers: Iterable[Offer], contracts: Sequence[Contract], sold: Iterable[Sold] = ()) -> list[Offer]:
    """Offers at what was agreed on; each contract must speak of an offer. `sold`: what is known beside the offers."""
    offers = list(offers)
    refuse_idle(((c.place, c.match) for c in contracts if not any(c.match.accepts(o) for o in offers)), offers, sold)
    return [at_contract_price(offer, contract_of(offer, contracts)) for offer in offers]


def contract_of(offer: Offer, contracts: Sequence[Contract]) -> Contract | None:
    """The contract that names most about an offer; two that name as much are refused."""
    found = sorted((c for c in contracts if c.match.accepts(offer)), key=lambda c: -c.match.num_named)
    if len(found) > 1 and found[0].match.num_named == found[1].match.num_named:
        raise UsageError(
            f"{found[1].place}: two discounts for {offer.cloud} {offer.region} {offer.instance}",
            found=f"{found[0].place} too",
            expected="one, or one that names more",
        )
    return found[0] if found else None


def at_contract_price(offer: Offer, contract: Contract | None) -> Offer:
    """The offer less its discount; its price is as old as the list, no younger than the contract, and ends with it."""
    if contract is None:
        return offer
    why = f"{contract.place.short} takes {PERCENT * contract.discount_ratio:.3g} % off the list price"
    agreed = offer.in_doubt(why) if contract.discount_ratio > USUAL_DISCOUNT else offer
    return replace(
        agreed.at_price_ratio(1 - contract.discount_ratio),
        source=contract.source,
        as_of=min(offer.as_of, contract.as_of),
        until=min((day for day in (offer.until, contract.until) if day is not None), default=None),
        basis=offer.basis if offer.basis is PriceBasis.ESTIMATED else PriceBasis.OBSERVED,
    )


def within_quotas(offers: Iterable[Offer], quotas: Sequence[Quota], sold: Iterable[Sold] = ()) -> list[Offer]:
    """Offers with the smallest bound that speaks of them; each quota must speak of an offer."""
    offers = list(offers)
    idle = ((q.place, q.match) for q in quotas if not any(q.match.accepts(o) for o in offers))
    refuse_idle(idle, offers, sold, OF_GPUS)
    return [bounded(offer, [q.max_instances for q in quotas if q.match.accepts(offer)]) for offer in offers]


def bounded(offer: Offer, bounds: list[int]) -> Offer:
    """The offer with the smallest of its own bound and these."""
    if not bounds:
        return offer
    return replace(offer, max_instances=min([*bounds, *([] if offer.max_instances is None else [offer.max_instances])]))


def within_gpu_quotas(
    offers: Iterable[Offer], quotas: Sequence[GpusAtMost], instances: Mapping[tuple[str, str], Instance]
) -> list[Offer]:
    """Offers with the quotas of GPUs that machines of several types share; each quota must speak of an offer."""
    offers = list(offers)
    held = [(offer, machine) for offer in offers if (machine := instances.get((offer.cloud, offer.instance)))]
    for quota in quotas:
        if not any(quota.match.accepts(offer, machine.accelerator) for offer, machine in held):
            raise no_such_gpus(quota, held)
    found = {id(offer): gpu_quotas_of(offer, machine, quotas) for offer, machine in held}
    return [replace(offer, gpu_quotas=shared) if (shared := found.get(id(offer))) else offer for offer in offers]


def gpu_quotas_of(offer: Offer, machine: Instance, quotas: Sequence[GpusAtMost]) -> tuple[GpuQuota, ...]:
    """Quotas of GPUs that an offer draws on; of two that name the same the smaller."""
    found: dict[str, GpuQuota] = {}
    for quota in sorted(quotas, key=lambda q: -q.max_gpus):
        if quota.match.accepts(offer, machine.accelerator):
            name = quota.match.name_at(offer)
            found[name] = GpuQuota(name, quota.max_gpus, machine.gpu_count)
    return tuple(found.values())


def no_such_gpus(quota: GpusAtMost, held: Sequence[tuple[Offer, Instance]]) -> UsageError:
    """The error of a quota of GPUs that nothing holds a price of."""
    wanted = quota.match
    there = sorted({m.accelerator for o, m in held if wanted._replace(gpu=m.accelerator).accepts(o, m.accelerator)})
    places = sorted({o.region for o, m in held if wanted._replace(region=o.region).accepts(o, m.accelerator)})
    known = [f"GPUs with a price there: {', '.join(there)}"] if there else []
    known += [f"regions with a price of it: {', '.join(places)}"] if places else []
    return UsageError(
        f"{quota.place}: no price matches",
        found=" ".join(wanted),
        expected="a cloud, region, GPU and price kind of which a price is held, or 'all' but for the GPU",
        hint="; ".join(known) or None,
    )


def refuse_idle(
    rows: Iterable[tuple[Place, Match]], offers: Iterable[Offer], sold: Iterable[Sold], of_gpus: str | None = None
) -> None:
    """A row that speaks of nothing is misspelt, or of a price that nobody holds."""
    for place, match in rows:
        names = [*sold, *((offer.cloud, offer.region, offer.instance) for offer in offers)]
        strange = strange_name(match, names)
        if strange is None:
            raise UsageError(
                f"{place}: no such price is known here",
                found=" ".join(match),
                expected="a price that it can speak of; 'gpufleet catalog update' fetches listed ones, your own stand "
                "in offers/, your discount in them",
            )
        column, known = strange
        found = match[MATCH_COLUMNS.index(column)]
        nearest = nearest_names(found, known)
        meant = f"Did you mean {' or '.join(nearest)}?" if nearest else None
        hint = " ".join(filter(None, [meant, of_gpus if column == "instance_type" else None])) or None
        raise UsageError(f"{place}: no price matches", found=" ".join(match), expected=f"a known {column}", hint=hint)


def strange_name(match: Match, names: Sequence[Sold]) -> tuple[str, set[str]] | None:
    """The first column whose name nothing has that is sold, and the names that there are; of the named cloud alone."""
    for at, column in enumerate(MATCH_COLUMNS[:-1]):
        known = {row[at] for row in names if at == 0 or match.cloud in (ANY, row[0])} - {""}
        if match[at] != ANY and match[at] not in known:
            return column, known
    return None


def in_dollars(foreign: ForeignOffer, rate: ExchangeRate) -> Offer:
    """A foreign price at a rate that the user states: an estimate, as old as the older of both."""
    return Offer(
        cloud=foreign.cloud,
        region=foreign.region,
        instance=foreign.instance,
        price_kind=foreign.price_kind,
        price_per_instance_usd_per_hour=foreign.price_per_instance_per_hour * rate.usd_per_unit,
        basis=PriceBasis.ESTIMATED,
        source=foreign.source,
        as_of=min(foreign.as_of, rate.as_of),
        upfront_usd=foreign.upfront * rate.usd_per_unit,
        interruption=foreign.interruption,
        currency=foreign.currency,
        until=foreign.until,
    )


def exchanged(foreign: Iterable[ForeignOffer], rates: Mapping[str, ExchangeRate]) -> list[Offer]:
    """Foreign prices whose currency has a rate; the others stay what they are and are never ranked."""
    try:
        return [in_dollars(offer, rates[offer.currency]) for offer in foreign if offer.currency in rates]
    except ValueError as refusal:
        raise UsageError(f"a price in another currency makes no offer: {refusal}") from None
