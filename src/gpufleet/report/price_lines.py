"""What stands right below a headline about prices: a cheaper one without a date, and machines without a price."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.report.numbers import amount, count, percent, usd, usd_per_hour
from gpufleet.report.rented import about, rented_words
from gpufleet.results.job import RentedJob
from gpufleet.results.plan import MissingPrice, RentedService, ServicePlan
from gpufleet.results.rented import RentedMachines

MOST_MISSING, UNMEASURED = 1, "roofline"


def price_lines(plan: ServicePlan) -> list[str]:
    """A cheaper price without a date, and machines whose price is not known, as one paragraph."""
    d = plan.undated_alternative
    price = "" if d is None else usd_per_hour(d.usd_per_hour)
    said = [*undated_line(d, price), *missing_line(plan.missing_prices)]
    return [" ".join(said)] if said else []


def kind(d: RentedMachines) -> str:
    """The price kind in words, with the machines of a service that are bought on demand beside spot."""
    steady = d.steady_instance_count if isinstance(d, RentedService) else 0
    beside = f" ({count(steady)} of them on demand)" if steady else ""
    return d.price_kind.replace("_", " ") + beside


def undated_line(d: RentedMachines | None, price: str) -> list[str]:
    """What would cost less, were a price that nobody dates, or an old one, still true."""
    if d is None:
        return []
    day = d.price_day
    of_day = day if d.stated_price_day is None else f"price of {day}, {aged_words(d)} by now"
    return [f"Cheaper if still true: {rented_words(d, kind(d))}: {about(d)}{price}, {of_day}."]


def unmeasured_line(d: RentedJob | None) -> list[str]:
    """What would cost less, were a speed that nobody measured as expected; and how to take it."""
    if d is None:
        return []
    high = usd(d.usd.high or d.usd.value)
    rented = f"{rented_words(d, kind(d))}: {about(d)}{usd(d.usd.value)}"
    if d.grade != UNMEASURED:
        return [f"Cheaper if still true: {rented}, price of {d.price_day}, {aged_words(d)} by now."]
    return [f"Cheaper if its speed holds: {rented}, but up to {high}: nobody measured it (--gpus {d.gpu} takes it)."]


def aged_words(d: RentedMachines) -> str:
    """How much more than its list says a price likely is, or of spot how much more it may be."""
    more = f"{percent(d.price_age_ratio - 1)} more"
    return f"up to {more}" if d.price_kind == "spot" else f"likely {more}"


def missing_line(missing: Sequence[MissingPrice]) -> list[str]:
    """Machines without a price that could have been the answer, those first that may cost most."""
    if not missing:
        return []
    named = "; ".join(missing_words(m) for m in missing[:MOST_MISSING])
    more = f"; and {len(missing) - MOST_MISSING} more" if len(missing) > MOST_MISSING else ""
    return [f"Price unknown: {named}{more}."]


def missing_words(m: MissingPrice) -> str:
    """How many of which machines, below which price they win, and what their GPUs cost elsewhere."""
    machines = f"{m.instance_count}x {m.cloud} {m.instance} ({amount(m.instance_count * m.gpus_per_instance)}x {m.gpu})"
    wins, known = usd_per_hour(m.wins_below_usd_per_hour), usd_per_hour(m.least_known_usd_per_hour)
    return f"{machines} wins below {wins} each (elsewhere from {known})"
