"""Costs by the month and savings: the seeds' arithmetic beside the prices that the catalog holds."""

from __future__ import annotations

from gpufleet.catalog.load import Catalog, load_catalog
from gpufleet.catalog.places import list_discounts
from gpufleet.catalog.query import OfferFilter, matching_offers, resolve_instance
from gpufleet.compat.rules.savings import (
    ENVIRONMENTS,
    RESERVED_SAVING,
    SCHEDULED_SHUTDOWN_SAVING,
    SPOT_SAVINGS,
    Environment,
    SavingRange,
    cost_after,
    monthly_cost,
    off_hours_ratio,
    saving_ratio,
    stated_of_spot,
)
from gpufleet.compat.rules_today.answer import RuleAnswer, RuleRow, RuleTable, exact, given
from gpufleet.compat.rules_today.questions import SavingsQuestion
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.errors import UsageError
from gpufleet.pricing.commitment import offer_usd_per_hour
from gpufleet.records import dataclass
from gpufleet.report.numbers import usd, usd_per_hour
from gpufleet.results.base import Figure
from gpufleet.units import DAY, HOUR, HOURS_PER_MONTH, HOURS_PER_MONTH_SEEDS, MINUTE

SOURCE = "GPU Requirements Assessment, 'Cost Analysis'; GPU Selection Guide, 'Cost Optimization Strategies'"
USD = "USD"
DAYS_PER_WEEK = 7
WEEKS_PER_MONTH = HOURS_PER_MONTH / (DAYS_PER_WEEK * DAY / HOUR)
PREFERRED_REGION = "us-east-1"
EXAMPLE_INSTANCE = "g4dn.xlarge"
COMMITMENTS = {PriceKind.COMMIT_1Y: "1 year", PriceKind.COMMIT_3Y: "3 years"}


@dataclass(frozen=True)
class Machine:
    """What is rented, and the catalog's prices of it where it has some."""

    name: str
    price_usd_per_hour: float
    on_demand: Offer | None = None
    spot: Offer | None = None
    committed: tuple[Offer, ...] = ()


def savings_answer(q: SavingsQuestion) -> RuleAnswer:
    """Costs a month, and what spot, commitment and switching off save; without a machine, the seeds' environments."""
    tables = load_catalog()
    machine = machine_of(q, tables)
    own = RuleTable(title=f"{q.num_instances:g}x {machine.name}", rows=machine_rows(q, machine))
    environments = RuleTable(title="environment", rows=[environment_row(tables, e) for e in ENVIRONMENTS])
    names = [machine.name] if q.is_own else [e.instance for e in ENVIRONMENTS]
    return RuleAnswer(
        rule="savings",
        question=f"{q.num_instances:g}x {machine.name} at ${machine.price_usd_per_hour:g}/h, "
        f"{q.hours_per_month:g} hours a month.",
        source=SOURCE,
        inputs=[
            given("spot saving", f"{q.spot_ratio:.0%}", "spot_ratio" in q.said),
            given("off", f"{q.hours_off_per_day:g} h a day", q.night is not None),
        ],
        tables=[own] if q.is_own else [environments, own],
        differences=differences(q),
        notes=price_notes(tables, names),
    )


def machine_of(q: SavingsQuestion, tables: Catalog) -> Machine:
    """The machine with its prices; a stated price goes before the catalog's."""
    if q.instance is None and q.price_usd_per_hour is not None:
        return Machine("machine", q.price_usd_per_hour)
    name = resolve_instance(tables, q.instance or EXAMPLE_INSTANCE).name
    on_demand, spot = (offer_of(tables, name, kind) for kind in (PriceKind.ON_DEMAND, PriceKind.SPOT))
    committed = tuple(filter(None, (offer_of(tables, name, kind) for kind in COMMITMENTS)))
    price = q.price_usd_per_hour
    if price is None and on_demand is not None:
        price = on_demand.price_per_instance_usd_per_hour
    if price is None:
        raise UsageError(f"no on-demand price of {name} is held here", hint="Give one with --price.")
    return Machine(name, price, on_demand, spot, committed)


def offer_of(tables: Catalog, instance: str, kind: PriceKind) -> Offer | None:
    """The price in the region that the seeds mean, or the lowest anywhere."""
    offers = matching_offers(tables, OfferFilter(instances=[instance], price_kinds={kind}))
    return min(offers, key=lambda o: (o.region != PREFERRED_REGION, o.price_per_instance_usd_per_hour), default=None)


def machine_rows(q: SavingsQuestion, machine: Machine) -> list[RuleRow]:
    """On demand, spot, commitment and switched off."""
    full = monthly_cost(machine.price_usd_per_hour, q.hours_per_month, q.num_instances)
    off = off_hours_ratio(q.hours_off_per_day)
    today = month_today(q, machine.on_demand) or exact(at_price(q, machine.price_usd_per_hour), USD)
    spot, nights = f"spot, {q.spot_ratio:.0%} off", f"off {q.hours_off_per_day:g} h a day ({off:.0%})"
    at_night = exact(cost_after(today.value, off), USD)
    return [
        usd_row("on demand", full, today, "" if machine.on_demand else "at your price"),
        usd_row(spot, cost_after(full, q.spot_ratio), month_today(q, machine.spot), spot_said(machine)),
        *(range_row(saving, full) for saving in SPOT_SAVINGS),
        committed_row(q, machine, full),
        range_row(SCHEDULED_SHUTDOWN_SAVING, full),
        usd_row(nights, cost_after(full, off), at_night, night_said(q)),
    ]


def usd_row(name: str, seed: float | None, ours: Figure | None, said: str = "") -> RuleRow:
    """Dollars a month."""
    return RuleRow(name=name, unit=USD, seed=seed, ours=ours, ours_text=said or ("" if ours else "price unknown"))


def month_today(q: SavingsQuestion, offer: Offer | None) -> Figure | None:
    """The month at a price of the catalog; all hours of a month are 730, not 720."""
    return None if offer is None else exact(at_price(q, offer.price_per_instance_usd_per_hour), USD)


def at_price(q: SavingsQuestion, price_usd_per_hour: float) -> float:
    """The month at a price. [USD]"""
    hours = HOURS_PER_MONTH if q.hours_per_month == HOURS_PER_MONTH_SEEDS else q.hours_per_month
    return monthly_cost(price_usd_per_hour, hours, q.num_instances)


def spot_said(machine: Machine) -> str:
    """What spot saves by the catalog, and how its price is known."""
    if machine.spot is None or machine.on_demand is None:
        return "price unknown"
    prices = [o.price_per_instance_usd_per_hour for o in (machine.on_demand, machine.spot)]
    band = machine.spot.interruption
    return f"saves {saving_ratio(*prices):.0%}" + (f", {band} reclaimed within a month" if band else "")


def night_said(q: SavingsQuestion) -> str:
    """The schedule that both figures are for, where one was asked."""
    return "" if q.night is None else f"off {clock(q.night[0])} to {clock(q.night[1])}"


def clock(hour: float) -> str:
    """A time of day.

    >>> clock(6.5)
    '06:30'
    """
    whole, rest = divmod(round(hour * HOUR / MINUTE), round(HOUR / MINUTE))
    return f"{whole:02d}:{rest:02d}"


def range_row(saving: SavingRange, full: float) -> RuleRow:
    """The costs that a range of savings leaves."""
    least, most = (cost_after(full, ratio) for ratio in (saving.high_ratio, saving.low_ratio))
    name = f"{saving.name}, {saving.low_ratio:.0%}-{saving.high_ratio:.0%}"
    return RuleRow(name=name, seed=f"{usd(least)}-{usd(most)}")


def committed_row(q: SavingsQuestion, machine: Machine, full: float) -> RuleRow:
    """The costs that the seeds' range leaves, beside the cheapest commitment to this machine that the catalog holds."""
    row = range_row(RESERVED_SAVING, full)
    if not machine.committed:
        return row.model_copy(update={"ours_text": committed_elsewhere()})
    least = min(machine.committed, key=offer_usd_per_hour)
    ours = exact(at_price(q, offer_usd_per_hour(least)), USD)
    said = "; ".join(committed_said(offer, machine.price_usd_per_hour) for offer in machine.committed)
    return row.model_copy(update={"ours": ours, "ours_text": said})


def committed_said(offer: Offer, usd_per_hour_on_demand: float) -> str:
    """What a commitment saves."""
    return (
        f"{COMMITMENTS[offer.price_kind]} saves {saving_ratio(usd_per_hour_on_demand, offer_usd_per_hour(offer)):.0%}"
    )


def committed_elsewhere() -> str:
    """What commitments save where the catalog holds them, of a machine for which it holds none."""
    rows = [
        row for row in list_discounts(load_catalog()).rows if row.num_held and PriceKind(row.price_kind) in COMMITMENTS
    ]
    saves = [f"{COMMITMENTS[PriceKind(row.price_kind)]} saves {row.held_median_ratio:.0%}" for row in rows]
    return f"none held of this machine; of others {', '.join(saves)}" if saves else "no commitment prices are held here"


def environment_row(tables: Catalog, environment: Environment) -> RuleRow:
    """One of the seeds' environments at its own price, and at the catalog's over a month of 730 hours."""
    offer = offer_of(tables, environment.instance, PriceKind.ON_DEMAND)
    printed, computed = environment.printed_usd_per_month, environment.usd_per_month
    slip = "" if round(computed) == round(printed) else f"the seed prints {usd(printed)}"
    if offer is None:
        return RuleRow(name=short_name(environment), unit=USD, seed=computed, ours_text=slip or "price unknown")
    price = offer.price_per_instance_usd_per_hour
    cost = monthly_cost(price, hours_today(environment), environment.num_instances)
    moved = "" if round(price, 2) == round(environment.price_usd_per_hour, 2) else f"now {usd_per_hour(price)}"
    said = "; ".join(filter(None, [moved, slip]))
    return RuleRow(name=short_name(environment), unit=USD, seed=computed, ours=exact(cost, USD), ours_text=said)


def short_name(environment: Environment) -> str:
    """An environment and what it runs on."""
    return f"{environment.name.partition(' (')[0]}, {environment.num_instances}x {environment.instance}"


def hours_today(environment: Environment) -> float:
    """Hours of a real month: 730 for all of it, 4.35 weeks for what is weekly, working days as they are."""
    hours = environment.hours_per_period * environment.periods_per_month
    if hours == HOURS_PER_MONTH_SEEDS:
        return HOURS_PER_MONTH
    return hours if environment.is_daily else environment.hours_per_period * WEEKS_PER_MONTH


def differences(q: SavingsQuestion) -> list[str]:
    """Where the seeds' months and shares come from."""
    lines = [
        "A month of the seeds has 720 hours and 4 weeks; ours has 730 hours and 4.35 weeks.",
        f"The seeds' savings are shares that somebody stated (spot 50-90%, {stated_of_spot()}); ours are prices of one "
        "machine, with a date.",
    ]
    if q.night is None:
        lines.append(
            "The seed says 50% for 12 hours off, and schedules 22:00 to 06:00: that is 8 hours, 33%: --off 22-6."
        )
    if not q.is_own:
        lines.append("3 x 0.752 x 24 x 30 is $1,624.32: the seed's $1,623 is a slip.")
    return lines


def price_notes(tables: Catalog, names: list[str]) -> list[str]:
    """Source, region and date of every price that was used."""
    kinds = (PriceKind.ON_DEMAND, PriceKind.SPOT, *COMMITMENTS)
    offers = [offer for name in names for kind in kinds if (offer := offer_of(tables, name, kind))]
    said = {
        f"{o.price_kind.value.replace('_', ' ')}: {o.source} of {o.as_of}, {o.region}, {o.basis.value} prices"
        for o in offers
    }
    return [f"{text[0].upper()}{text[1:]}." for text in sorted(said)]
