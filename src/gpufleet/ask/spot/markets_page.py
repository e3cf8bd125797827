"""Markets of spot, as parts of a page: machines with their prices, where else, and what prices rest on."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.ask.spot.job_shape import SpotAnswer, SpotMarketRow
from gpufleet.report.numbers import count, percent, usd, usd_per_hour
from gpufleet.report.page import WARNING, Columns, Table, column, number
from gpufleet.results.rented import SpotPrice

NEAREST = 6
ESTIMATED, DRAWN = "estimated", "transferred"
TRANSFERRED = (
    "Nobody publishes availability of newer GPUs: zones are drawn as those of AWS V100 and K80 were in 2022 and 2023. "
    "--trace FILE takes what you saw, --availability and --mean-up what you know."
)


def machines_words(plan: SpotAnswer) -> str:
    """How many of which machines, where, and what they cost."""
    m = plan.market
    where = m.cloud if m.cloud == m.instance else f"{m.cloud} {m.instance}, {m.region}"
    prices = f"spot {spoken_price(m.spot)}, on demand {spoken_price(m.on_demand)} each"
    return f"{count(plan.num_machines)}x {where} ({prices})"


def elsewhere(plan: SpotAnswer) -> str:
    """Where on demand alone is cheapest, if that is another place than the market."""
    alone, market = plan.alone, plan.market
    if (alone.cloud, alone.region, alone.instance) == (market.cloud, market.region, market.instance):
        return ""
    machine = "" if alone.instance == market.instance else f"{alone.instance}, "
    return f" in {machine}{alone.region}"


def markets_table(plan: SpotAnswer, what: str) -> Table:
    """Where else, by what it costs there."""
    columns: Columns[SpotMarketRow] = [
        column("machine", lambda m: m.instance),
        column("region", lambda m: m.region),
        number("spot", lambda m: spoken_price(m.spot)),
        number("on demand", lambda m: spoken_price(m.on_demand)),
        number(what, lambda m: usd(m.usd.value)),
        number("saves", lambda m: percent(m.saved_ratio)),
        column("taken a month", lambda m: m.interruption),
    ]
    return Table.of(plan.markets[:NEAREST], columns, "Markets", chosen=0)


def spoken_price(price: SpotPrice) -> str:
    """A price by the hour; an estimate has a mark."""
    return f"{'~' if price.basis == ESTIMATED else ''}{usd_per_hour(price.usd_per_hour)}"


def price_notes(plan: SpotAnswer) -> list[str]:
    """Of whom and of which day the prices of the answer are; a warning where one is an estimate or in doubt."""
    used = {"spot": plan.market.spot, "on demand": plan.market.on_demand, "on demand alone": plan.alone.price}
    told = {f"{price.source}, {price.basis}, {price.as_of}": what for what, price in used.items() if price.source}
    sources = "; ".join(f"{what}: {words}" for words, what in told.items())
    return [*price_warnings(used), *([f"Prices, never live. {sources[0].upper()}{sources[1:]}."] if sources else [])]


def price_warnings(used: Mapping[str, SpotPrice]) -> list[str]:
    """What may be wrong with them."""
    guessed = [
        f"{WARNING}the price of {what} is an estimate of {price.as_of}: say yours with --{what.split()[0]}-price."
        for what, price in used.items()
        if price.basis == ESTIMATED
    ]
    doubted = [f"{WARNING}the price of {what} is in doubt: {p.doubt}." for what, p in used.items() if p.doubt]
    return [*guessed, *doubted]


def zone_notes(grade: str) -> list[str]:
    """What availability rests on where nobody says."""
    return [TRANSFERRED] if grade == DRAWN else []
