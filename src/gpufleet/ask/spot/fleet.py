"""`spot --fleet`: what of the machines that run today could move to spot, what that saves, and what it risks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from gpufleet.answers.figures import spread_of
from gpufleet.answers.played_on_spot import drawn_figure
from gpufleet.api.spoken import spoken
from gpufleet.ask.spot.fleet_file import SERVICE, FleetRow, read_spot_fleet
from gpufleet.ask.spot.fleet_shape import SpotFleet, SpotFleetRow, StatedSaving
from gpufleet.ask.spot.job import plan_spot
from gpufleet.ask.spot.job_shape import WORTH_RATIO, SpotPlan
from gpufleet.ask.spot.markets import given, markets_of, offered, price_in
from gpufleet.ask.spot.markets_answer import AskedMarkets
from gpufleet.ask.spot.service import MOST_SERVICE_MACHINES, chosen_play, prices_of, refuse_words_of_jobs, why_stays
from gpufleet.ask.spot.supply import service_supply, zones_drawn
from gpufleet.ask.spot.words import SpotRequest
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_instance
from gpufleet.catalog.spot_availability import load_availability_fit
from gpufleet.catalog.spot_jobs import load_job_habits
from gpufleet.catalog.tables import Catalog
from gpufleet.domain.instance import Instance
from gpufleet.domain.interruption import Spread
from gpufleet.domain.offer import PriceKind
from gpufleet.errors import DataMissing, Infeasible, UsageError, named
from gpufleet.inputs.fleet_today import TypedMachines
from gpufleet.questions.words import refuse_out_of_range
from gpufleet.results.base import Figure
from gpufleet.results.rented import SpotPrice
from gpufleet.units import HOUR, MINUTE

FROM_ANEW = "without checkpoints each loss begins the work anew"
TOO_MANY = f"more than {MOST_SERVICE_MACHINES} machines of a service are not played at once: split the row"
UNPRICED = "its price of today is unknown"
DOES_NOT_PAY = "spot with what stands in for it costs more than is paid today"
Stated = Callable[[str], StatedSaving | None]
"""What others state of spot on a cloud."""


def fleet_on_spot(
    request: SpotRequest | None = None, *, stated: Stated = lambda _: None, catalog: Catalog | None = None, **said: Any
) -> SpotFleet:
    """Each row of the file `fleet`: whether it can move, what it would cost, save and risk."""
    asked = request if request is not None else spoken(SpotRequest, None, said)
    refuse_out_of_range(asked)
    if asked.fleet is None or asked.job is not None:
        raise UsageError("a fleet is asked about alone", expected="gpufleet spot --fleet fleet.yaml")
    tables = load_catalog() if catalog is None else catalog
    rows = read_spot_fleet(str(asked.fleet))
    moves = [moved(row, asked, tables, stated) for row in rows]
    return SpotFleet(
        rows=moves,
        zones=asked.zones,
        availability_source=source_of(asked)[0],
        grade=source_of(asked)[1],
        num_draws=asked.draws,
        seed=asked.seed,
        notes=[*doubted(moves), *notes_of(rows)],
    )


def doubted(rows: Sequence[SpotFleetRow]) -> Iterator[str]:
    """A warning for each price in doubt, of today's machines or of spot."""
    for row in rows:
        for kind, price in (("on demand", row.price), ("on spot", row.spot)):
            if price is not None and price.doubt:
                yield f"Warning: {row.name}: the price of {row.cloud} {row.instance} {kind} is in doubt: {price.doubt}."


def notes_of(rows: Sequence[FleetRow]) -> list[str]:
    """What was taken where rows do not say it."""
    habits, found = load_job_habits(), []
    if any(row.runs != SERVICE and "work" not in row.words for row in rows):
        work, deadline = habits.usual_work_s / HOUR, habits.usual_deadline_s / HOUR
        one = f"one of {work:g} h within {deadline:g} h"
        found.append(f"A job that does not say its work is taken as {one}, one after the other.")
    if any(row.runs == SERVICE and "restart" not in row.words for row in rows):
        start = habits.restart_s.expected / MINUTE
        found.append(f"A start of a service takes {start:g} min where its row says no restart.")
    return found


def source_of(asked: SpotRequest) -> tuple[str, str]:
    """How availability came about, and how far to trust it."""
    if asked.trace is not None:
        return "your trace", "measured"
    _, source, grade = zones_drawn(asked, load_availability_fit())
    return source, grade


def moved(row: FleetRow, asked: SpotRequest, tables: Catalog, stated: Stated) -> SpotFleetRow:
    """One row of the fleet."""
    with named(row.name):
        instance = resolve_instance(tables, row.machines.name)
        own = spoken(SpotRequest, replace(asked, fleet=None), dict(row.words))
        refuse_out_of_range(own)
        if row.runs == SERVICE:
            refuse_words_of_jobs(own)
    price = paid(row.machines, instance) or list_price(instance, tables)
    today = SpotFleetRow(
        name=row.name,
        machines=row.machines.asked,
        instance_count=row.machines.count,
        cloud=instance.cloud,
        instance=instance.name,
        runs=row.runs,
        price=price,
        usd_per_hour=None if price is None else price.usd_per_hour * row.machines.count,
        why_not=cannot(row) or ("" if price else UNPRICED),
        stated=stated(instance.cloud),
    )
    if today.why_not or price is None:
        return today
    try:
        found = markets_of(own, [f"{instance.cloud}:{instance.name}"], tables)
    except DataMissing as error:
        return today.model_copy(update={"why_not": f"{error.problem}: say spot_price in its row"})
    if row.runs == SERVICE:
        return service_moved(today, price.usd_per_hour * row.machines.count, own, found)
    return job_moved(today, price, own, tables)


def cannot(row: FleetRow) -> str:
    """Why a row cannot move at all, if so."""
    if row.runs == SERVICE:
        too_many = TOO_MANY if row.machines.count > MOST_SERVICE_MACHINES else ""
        return why_stays(row.machines.count) or too_many
    return "" if row.has_checkpoints else FROM_ANEW


def paid(machines: TypedMachines, instance: Instance) -> SpotPrice | None:
    """What one machine costs, where it was typed."""
    price = machines.price
    if price is None:
        return None
    return given(price.usd_per_hour * (instance.gpu_count if price.is_of_gpu else 1))


def list_price(instance: Instance, tables: Catalog) -> SpotPrice | None:
    """The cheapest on demand of the tables."""
    prices = [price_in(kinds, PriceKind.ON_DEMAND, None) for _, kinds in offered(instance, None, tables)]
    return min((price for price in prices if price is not None), key=lambda p: p.usd_per_hour, default=None)


def service_moved(today: SpotFleetRow, usd_per_hour: float, asked: SpotRequest, found: AskedMarkets) -> SpotFleetRow:
    """A service of several machines, held by the cheapest policy that keeps the target."""
    start = asked.restart_s or load_job_habits().restart_s
    supply = service_supply(asked, today.instance_count, start.expected)
    market, told, play = chosen_play(asked, today.instance_count, start.expected, supply, found)
    usd = told.by_policy(told.runs.usd_per_hour(*prices_of(market)))[0]
    saved = drawn_figure(1 - usd / usd_per_hour, "1", supply.grade)
    policy = play.policy
    parts = [f"{today.instance_count - policy.floor} on spot"]
    parts += [f"{policy.floor} on demand"] if policy.floor else []
    parts += [f"up to {policy.spares} spare"] if policy.spares else []
    parts += ["on demand stands in"] if policy.fallback != "none" else []
    return today.model_copy(
        update={
            "region": market.place.region,
            "spot": market.spot,
            "how": ", ".join(parts),
            "saved_ratio": saved,
            "short_ratio": 1 - play.attained.value,
            "why_not": "" if saved.value > WORTH_RATIO else DOES_NOT_PAY,
        }
    )


def job_moved(today: SpotFleetRow, price: SpotPrice, asked: SpotRequest, tables: Catalog) -> SpotFleetRow:
    """A job with checkpoints; where it says no work, a usual one."""
    habits = load_job_habits()
    work = asked.work_s or Spread(habits.usual_work_s, habits.usual_work_s, habits.usual_work_s)
    deadline_s = asked.deadline_s or work.high * habits.usual_deadline_s / habits.usual_work_s
    machine = [f"{today.cloud}:{today.instance}"]
    own = replace(asked, work_s=work, deadline_s=deadline_s, machine=machine, machines=today.instance_count)
    try:
        plan = plan_spot(own, catalog=tables)
    except Infeasible as error:
        return today.model_copy(update={"why_not": str(error)})
    saved = saved_of_job(plan, price.usd_per_hour)
    return today.model_copy(
        update={
            "usd_per_run": None if asked.work_s is None else run_usd(plan, price.usd_per_hour),
            "region": plan.market.region,
            "spot": plan.market.spot,
            "how": f"by policy {plan.answer.policy}, on demand {plan.answer.on_demand_ratio:.0%} of the time",
            "saved_ratio": saved,
            "late_ratio": plan.answer.late_ratio,
            "why_not": "" if saved.value > WORTH_RATIO else DOES_NOT_PAY,
        }
    )


def run_usd(plan: SpotPlan, usd_per_hour: float) -> float:
    """What the work costs at today's price of a machine   [USD]."""
    return plan.alone.usd / plan.alone.price.usd_per_hour * usd_per_hour


def saved_of_job(plan: SpotPlan, usd_per_hour: float) -> Figure:
    """What is saved of the same work at today's price of a machine."""
    today_usd, usd = run_usd(plan, usd_per_hour), spread_of(plan.answer.usd)
    low, value, high = (1 - end / today_usd for end in (usd.high, usd.expected, usd.low))
    return Figure(value=value, unit="1", low=low, high=high, grade=plan.answer.usd.grade)
