"""What of a fleet could move to spot, as a page: a row for each kind of machine, with saving, risk and why not."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.ask.spot.fleet_shape import SpotFleet, SpotFleetRow
from gpufleet.ask.spot.markets_page import ESTIMATED, spoken_price, zone_notes
from gpufleet.ask.spot.service_page import share
from gpufleet.report.numbers import percent, plural, several, usd, usd_per_hour, usd_per_month
from gpufleet.report.page import WARNING, Columns, Page, Table, column, number
from gpufleet.units import HOURS_PER_MONTH


def spot_fleet_page(fleet: SpotFleet, beside: str = "") -> Page:
    """Headline, rows, notes; `beside` is what others state of spot, in words."""
    return Page(headline(fleet), [rows_table(fleet)], notes(fleet, beside), [question(fleet)])


def headline(fleet: SpotFleet) -> str:
    """What moves, and what that saves of today's bill."""
    moves = [row for row in fleet.rows if row.saved_usd_per_hour > 0 or row.saved_usd_per_run > 0]
    rows = plural(len(fleet.rows), "row")
    if not moves:
        return f"Nothing of {rows} saves on spot."
    machines = plural(sum(row.instance_count for row in moves), "machine")
    return f"Move {machines} of {len(moves)} of {rows} to spot: saves {', and '.join(savings(fleet))}."


def savings(fleet: SpotFleet) -> Iterator[str]:
    """What is saved of machines that run all the time, and of one run of each job that says its work."""
    saved, today = fleet.saved_usd_per_hour, fleet.usd_per_hour
    if saved > 0:
        yield f"{usd_per_month(saved * HOURS_PER_MONTH)}, {percent(saved / today)} of {usd_per_hour(today)}"
    runs = [row for row in fleet.rows if row.saved_usd_per_run > 0]
    if runs:
        yield f"{usd(sum(row.saved_usd_per_run for row in runs))} a run of {', '.join(row.name for row in runs)}"


def question(fleet: SpotFleet) -> str:
    """What was asked, in a sentence."""
    return (
        f"Savings are of today's cost, mean and 10th to 90th percentile of {several(fleet.num_draws, 'draw')}; "
        f"{plural(fleet.zones, 'zone')} ({fleet.availability_source})."
    )


def rows_table(fleet: SpotFleet) -> Table:
    """Row by row."""
    columns: Columns[SpotFleetRow] = [
        column("row", lambda row: row.name, key="name"),
        column("runs", lambda row: row.runs),
        number("today", lambda row: row.usd_per_hour, key="usd_per_hour", show=usd_per_hour),
        number("spot each", lambda row: "-" if row.spot is None else spoken_price(row.spot), key="spot"),
        number("saves", saved_words, key="saved"),
        number("stated", stated_words),
        column("risk", risk_words),
        column("how", lambda row: f"stays: {row.why_not}" if row.why_not else f"{row.region}: {row.how}", below=True),
    ]
    return Table.of(fleet.rows, columns, "What could move")


def stated_words(row: SpotFleetRow) -> str:
    """What others state of spot, where they do."""
    stated = row.stated
    return "-" if stated is None else f"{percent(stated.low_ratio)}-{percent(stated.high_ratio)}"


def saved_words(row: SpotFleetRow) -> str:
    """What it saves, with its range."""
    if row.saved_ratio is None:
        return "-"
    low, high = (percent(end).removesuffix("%") for end in (row.saved_ratio.low, row.saved_ratio.high))
    return f"{percent(row.saved_ratio.value)} ({low} to {high})"


def risk_words(row: SpotFleetRow) -> str:
    """What may go wrong."""
    if row.short_ratio is not None:
        return f"short {share(row.short_ratio)}"
    return "-" if row.late_ratio is None else f"late {percent(row.late_ratio)}"


def notes(fleet: SpotFleet, beside: str) -> list[str]:
    """What the figures rest on."""
    found = []
    if any(row.spot is not None and row.spot.basis == ESTIMATED for row in fleet.rows):
        found.append(f"{WARNING}prices of spot with ~ are estimates: say yours with spot_price in their rows.")
    if any(row.usd_per_hour is None for row in fleet.rows):
        found.append(f"{WARNING}rows whose price is unknown are in no sum: say it, '4 aws:g5.xlarge@1.01/h'.")
    found.append(
        "short: share of time in which not all machines of a service are ready; late: of draws in which a job ends "
        "after its deadline."
    )
    if beside:
        found.append(f"stated: what the former documents state of spot on that cloud; {beside}.")
    used = [price for row in fleet.rows for price in (row.price, row.spot) if price is not None and price.source]
    sources = {f"{price.source}, {price.basis}, {price.as_of}" for price in used}
    found += [f"Prices, never live: {'; '.join(sorted(sources))}."] if sources else []
    return [*found, *zone_notes(fleet.grade), *fleet.notes]
