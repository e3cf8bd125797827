"""The words of a plan: what is typed laid over what a file says, and read as fields of any request."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from gpufleet.cli.market import SHIPPED_MARKET, MarketFlags
from gpufleet.cli.money import usd_of
from gpufleet.errors import UsageError
from gpufleet.inputs.workload import WorkloadFile
from gpufleet.records import dataclass
from gpufleet.units import HOUR, parse_count, parse_duration, parse_rate, parse_ratio, parse_usd_per_hour

REQUEST_FIELD = {
    "input": "input_tokens",
    "output": "output_tokens",
    "off_peak": "off_peak_rate",
    "today": "fleet_today",
}
HELD_BY = {"trace": ("rate", "input", "output"), "classes": ("rate", "input", "output", "slo")}
HINT = "A workload file may give it too: --workload."


@dataclass(frozen=True)
class ServeFlags:
    """What the command line says beside the words that a workload file may hold."""

    kv_precision: str | None
    allow_lower_precision: bool
    rows: int
    seed_config: str | None = None
    market: MarketFlags = SHIPPED_MARKET


@dataclass(frozen=True)
class FurtherFlags:
    """What is asked about the plan beside its answer; `asks_front`: by a flag of its own, not by a page of HTML."""

    why_not: tuple[str, ...] = ()
    flips: bool = False
    front: bool = False
    token_price: str | None = None
    grid_g_co2_per_kwh: float | None = None
    asks_front: bool = False


NOTHING_FURTHER = FurtherFlags()


def laid_over(typed: WorkloadFile, written: WorkloadFile) -> WorkloadFile:
    """Every field as it was typed, else as it was written."""
    pairs = {f.name: (getattr(typed, f.name), getattr(written, f.name)) for f in fields(WorkloadFile)}
    return replace(written, **{name: file if flag is None else flag for name, (flag, file) in pairs.items()})


def without(given: WorkloadFile, names: Collection[str]) -> tuple[WorkloadFile, WorkloadFile]:
    """What was given, parted in two: without the fields of these names, and these alone."""
    empty = {f.name: None for f in fields(WorkloadFile)}
    kept = {name: None for name in empty if name in names}
    return replace(given, **kept), replace(given, **{name: None for name in empty if name not in names})


def from_file(typed: WorkloadFile, written: WorkloadFile) -> frozenset[str]:
    """Fields of the request that only the file gives, itself or in the trace or the classes that it names."""
    untyped = [f.name for f in fields(WorkloadFile) if getattr(typed, f.name) is None]
    names = {name for name in untyped if getattr(written, name) is not None}
    held = {name for source in sorted(names & set(HELD_BY)) for name in HELD_BY[source]}
    return frozenset(REQUEST_FIELD.get(name, name) for name in names | (held & set(untyped)))


def plan_wishes(asked: WorkloadFile, market: MarketFlags) -> dict[str, Any]:
    """Fields of any `PlanRequest` that are said in words: where, on what, how surely and at which prices."""
    return {
        "clouds": asked.clouds,
        "regions": asked.regions,
        "pricing": asked.pricing,
        "gpus": asked.gpus,
        "precision": asked.precision,
        "engine": asked.engine,
        "headroom": ratio(asked.headroom),
        "confidence": ratio(asked.confidence),
        "price_change": market.price_change,
        "max_price_age_s": market.max_price_age_s,
        "today": market.today,
    }


def service_wishes(asked: WorkloadFile) -> dict[str, Any]:
    """Fields of any `ServiceRequest` that are said in words: what may fail, quiet hours, and what may be spent."""
    return {
        "min_replicas": whole(asked.min_replicas, "the number of replicas"),
        "spare_machines": whole(asked.spare_machines, "the number of spare machines"),
        "zones": whole(asked.zones, "the number of zones"),
        "off_peak_rate": None if asked.off_peak is None else parse_rate(asked.off_peak),
        "peak_hours": None if asked.peak_hours is None else hours(asked.peak_hours),
        "budget_usd_per_hour": usd_of(asked.budget, asked.currency, parse_usd_per_hour),
        "max_spot": ratio(asked.max_spot),
    }


def needed(value: str | None, name: str, expected: str) -> str:
    """A value that no default can stand in for."""
    if value is None:
        raise UsageError(f"{name} is missing", expected=expected, hint=HINT)
    return value


def ratio(text: str | None) -> float | None:
    """A share, where one was given."""
    return None if text is None else parse_ratio(text)


def hours(text: str) -> float:
    """Hours of a day: '10', or '10h'."""
    bare = text.strip()
    return parse_count(bare) if bare[-1:].isdigit() else parse_duration(bare) / HOUR


def whole(text: str | None, what: str) -> int | None:
    """A whole number, where one was given."""
    if text is None:
        return None
    number = 0.0 if text.strip() == "0" else parse_count(text)
    if number != int(number):
        raise UsageError(f"{what} is not whole", found=text, expected="a whole number such as 2")
    return int(number)
