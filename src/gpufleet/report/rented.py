"""Machines of an offer in words and as rows of a ranking: how many of what, where, bought how, until when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpufleet.domain.confidence import EXPECTED, HIGH_END
from gpufleet.report.numbers import amount, count, percent, plural, usd, usd_per_hour
from gpufleet.report.page import Column, Fact, Row, Table
from gpufleet.report.text import cut
from gpufleet.report.words import engine_words
from gpufleet.results.base import Input
from gpufleet.results.job import RentedJob
from gpufleet.results.levers import FlipWinner
from gpufleet.results.plan import MissingPrice, RentedService, ServicePlan
from gpufleet.results.rented import OfferedMachines, RentedMachines
from gpufleet.results.verification import VerifiedDeployment

NARROW_PAGE, SHORT_MACHINE = 100, 26
EVERYWHERE, MOST_NAMED = "all", 3
HOLDS, TIGHT, EXPECTED_ONLY = "holds", "tight", "expected"
"""Up to the high end of its range, as surely as the plan promises but not there, and as expected only."""
CLOUDS_IN_WORDS = {"aws": "AWS", "azure": "Azure", "gcp": "Google Cloud", "oci": "Oracle Cloud"}
SURER = "--confidence 0.9"
PLANS_FOR_IT = f"{SURER} plans for it"
MOST_MISSING, UNMEASURED = 1, "roofline"
UNVARIED = 12
OUTDATED = "A price of some age counts as what one likely pays by now."
DOUBTED = "What holds less surely counts more than it costs (--steady)."
PRICE_DAYS = (
    Column("price_as_of", "price of", where="data"),
    Column("price_first_seen", "first seen", where="data"),
    Column("price_doubt", "in doubt", where="data"),
    Column("price_day", "price of", priority=11, where="text"),
)


def machines(d: OfferedMachines) -> str:
    """How many of which type."""
    return f"{d.instance_count}x {d.cloud} {d.instance}"


def short_machines(d: OfferedMachines | FlipWinner | VerifiedDeployment) -> str:
    """The same without what every machine type of a cloud begins with."""
    return f"{d.instance_count}x {d.cloud} {d.instance.removeprefix('Standard_')}"


def rented_words(d: OfferedMachines, bought: str) -> str:
    """How many of which type, of which GPUs, where and how they are bought."""
    return f"{machines(d)} ({gpus(d)}), {place(d)}, {bought}{in_doubt(d)}"


def in_doubt(*rented: OfferedMachines) -> str:
    """That a price is in doubt; a warning below says why."""
    return ", in doubt" if any(d.price_doubt for d in rented) else ""


def gpus(d: OfferedMachines) -> str:
    """All GPUs that are paid for."""
    return f"{amount(d.instance_count * d.gpus_per_instance)}x {d.gpu}"


def place(d: OfferedMachines) -> str:
    """The region, or that the price holds in all."""
    return region_name(d.region)


def region_name(region: str) -> str:
    """A region, or that the price holds in all."""
    return "any region" if region == EVERYWHERE else region


def about(d: OfferedMachines | FlipWinner) -> str:
    """The mark of a price that was estimated."""
    return "~" if d.price_basis == "estimated" else ""


def marked(d: OfferedMachines, price: str) -> str:
    """A price in a table: '~' where it was estimated, '?' where nobody knows its day."""
    return f"{about(d)}{price}{'' if d.price_first_seen is None else '?'}"


def until_line(d: OfferedMachines) -> list[str]:
    """When the price ends, where it does."""
    return [] if d.price_until is None else [f"This price holds until {d.price_until} ({d.price_source})."]


class Promised(Protocol):
    """A plan that keeps its limits with a confidence."""

    @property
    def confidence(self) -> float:
        """How surely limits are kept."""
        ...

    @property
    def missed_confidence(self) -> float | None:
        """How surely nothing keeps them."""
        ...


def range_word(is_tight: bool, confidence: float) -> str:
    """How far into its range a row keeps its limits, in a plan that keeps them with a confidence.

    >>> range_word(False, 0.8), range_word(True, 0.8), range_word(True, 0.5)
    ('holds', 'tight', 'expected')
    """
    return (EXPECTED_ONLY if confidence <= EXPECTED else TIGHT) if is_tight else HOLDS


def range_legend(is_any_tight: bool, confidence: float, holds: str, breaks: str) -> list[str]:
    """What the word of a row says that is not up to the high end of its range."""
    if not is_any_tight:
        return []
    sure = f"{holds} as expected only" if confidence <= EXPECTED else f"{holds} at {percent(confidence)} confidence"
    return [f"{range_word(True, confidence)}: {sure}, {breaks} at the high end of its range."]


def verdict(plan: Promised, is_tight: bool, holds: str = "holds", breaks: str = "breaks", verb: str = "") -> str:
    """How surely a plan `holds`, and whether it `breaks` at the high end of its ranges, as a sentence."""
    if plan.missed_confidence is not None:
        does = f"{verb}{holds}"
        sure = percent(plan.missed_confidence)
        return f"No plan of sensible size {does} at {sure} confidence: this one {does} as expected."
    sure = "as expected" if plan.confidence <= EXPECTED else f"at {percent(plan.confidence)} confidence"
    if is_tight:
        said = f"{holds} {sure}, {breaks} at {percent(HIGH_END)}."
        return said.capitalize() if plan.confidence <= EXPECTED else f"{TIGHT.capitalize()}: {said}"
    return f"{holds.capitalize()} {sure}{f' and at {percent(HIGH_END)}' if plan.confidence < HIGH_END else ''}."


def verdict_fact(plan: Promised, is_tight: bool, sentence: str, holds: str = "holds", breaks: str = "breaks") -> Fact:
    """The verdict of an answer: how surely it `holds`, and what `breaks` at the high end of ranges where that is tight.

    A note of the capacity to spare stands beside it, so nothing here says that there is little of it.
    """
    if plan.missed_confidence is not None:
        return Fact("Verdict", "As expected only", sentence, "bad")
    sure = "as expected" if plan.confidence <= EXPECTED else f"at {percent(plan.confidence)} confidence"
    at_the_end = f"at {percent(HIGH_END)}"
    surer = f"{at_the_end} too" if plan.confidence < HIGH_END else ""
    value = f"{holds.capitalize()} {sure}"
    return (
        Fact("Verdict", value, f"{at_the_end} {breaks}", "tight") if is_tight else Fact("Verdict", value, surer, "good")
    )


def rented_fact(d: OfferedMachines, bought: str) -> Fact:
    """How many machines, and below what they are called where they are bought, place and kind of price."""
    return Fact("Machines", str(d.instance_count), f"{d.instance}, {place(d)}, {bought}{in_doubt(d)}")


def gpus_in_words(rented: Sequence[OfferedMachines]) -> list[str]:
    """All GPUs that are paid for by provider, and whose they are: what a manager calls the machines."""
    found: dict[str, dict[str, float]] = {}
    for d in rented:
        of = found.setdefault(CLOUDS_IN_WORDS.get(d.cloud, d.cloud), {})
        of[d.gpu] = of.get(d.gpu, 0.0) + d.instance_count * d.gpus_per_instance
    return [
        f"{' and '.join(f'{amount(n)} {gpu}' for gpu, n in of.items())} "
        f"GPU{'' if sum(of.values()) == 1 else 's'} at {cloud}"
        for cloud, of in found.items()
    ]


def try_first(rented: Sequence[RentedMachines], check: str = "") -> str:
    """What to do with an answer that serves: `check` it, try it on one machine of each type."""
    each = " of each type" if len(rented) > 1 else ""
    all_of_it = " before you rent all" if sum(d.instance_count for d in rented) > len(rented) else ""
    return f"{surer(rented)}{check}rent one machine{each}, start it and measure it{all_of_it}."


def surer(rented: Sequence[RentedMachines]) -> str:
    """How to be surer, where an answer breaks something at the high end of its ranges."""
    return f"ask with {SURER} if it must hold there too; " if any(d.is_tight for d in rented) else ""


def titled(rented: Sequence[OfferedMachines], does: str, work: str, price: str) -> str:
    """The title of a page: what is rented `does` what work, for which price."""
    number = sum(d.instance_count * d.gpus_per_instance for d in rented)
    verb = f"{does}{'es' if does.endswith('o') else 's'}" if number == 1 else does
    named = gpus_in_words(rented)
    types = len({d.gpu for d in rented})
    if max(types, len(named)) > MOST_NAMED:
        clouds = dict.fromkeys(CLOUDS_IN_WORDS.get(d.cloud, d.cloud) for d in rented)
        named = [f"{amount(number)} GPUs of {plural(types, 'type')} at {', '.join(clouds)}"]
    return f"{' and '.join(named)} {verb} {work} for {price}{in_doubt(*rented)}."


def tight_row(
    rows: Sequence[RentedMachines], prices: Sequence[str], why: str, holds: str, confidence: float
) -> list[str]:
    """Where the answer breaks at the high end, `why`: the cheapest row that `holds` there, with its price."""
    if not rows[0].is_tight:
        return []
    word = "As expected only" if confidence <= EXPECTED else TIGHT.capitalize()
    steady = next((i for i, d in enumerate(rows) if not d.is_tight), None)
    if steady is None:
        others = ", as in all rows" if len(rows) > 1 else ""
        return [f"{word}: {why}{others}: {PLANS_FOR_IT}."]
    price = about(rows[steady]) + prices[steady]
    return [f"{word}: {why}; row {steady + 1} ({price}) {holds} there too; {PLANS_FOR_IT}."]


def machines_texts(rows: Sequence[RentedMachines], width: int) -> list[str]:
    """How many machines of which type, a text for each row; a narrow page shortens names that stay apart so."""
    counts = [f"{d.instance_count}x " for d in rows]
    names = [short_machines(d).removeprefix(number) for d, number in zip(rows, counts, strict=True)]
    if width >= NARROW_PAGE:
        return [count + name for count, name in zip(counts, names, strict=True)]
    short = [cut(name, SHORT_MACHINE - len(count)) for count, name in zip(counts, names, strict=True)]
    alike = {text for text in short if len({n for n, s in zip(names, short, strict=True) if s == text}) > 1}
    return [c + (n if s in alike else s) for c, n, s in zip(counts, names, short, strict=True)]


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


def ranking(
    rented: Sequence[RentedMachines],
    columns: list[Column],
    rows: list[Row],
    legend: Sequence[str],
    marks: Sequence[str] = (),
) -> Table:
    """Every row, the first marked as chosen; the `legend` says what becomes of a row at the high end of its range."""
    by_now = " by now" if OUTDATED in marks else ""
    order = f"Ranked by cost{by_now} and certainty" if DOUBTED in marks else f"Cheapest{by_now} first"
    title = f"{order}, one row per machine type"
    marks_of_prices = [
        *(["~: estimated"] if any(d.price_basis == "estimated" for d in rented) else []),
        *(["?: undated"] if any(d.price_first_seen for d in rented) else []),
    ]
    title += f" ({', '.join(marks_of_prices)})" if marks_of_prices else ""
    return Table(columns, rows, title, [*legend, *marks], 0 if rows else None)


def varied_columns(rented: Sequence[RentedMachines]) -> list[Column]:
    """Weights and engine: worth a narrow page's room where the rows differ in them."""
    engines = {engine_words(d.engine, d.drafts) for d in rented}
    ones = {"weights": {d.weight_format for d in rented}, "engine": engines}
    return [
        Column(f"{name}_text", name, priority=1 if len(values) > 1 else UNVARIED, where="text")
        for name, values in ones.items()
    ]


def are_regions_asked(inputs: Sequence[Input]) -> bool:
    """Whether anybody said where machines may stand."""
    return any(i.name == "regions" and i.origin != "default" for i in inputs)


def machine_cells(rank: int, d: RentedMachines, machines: str, confidence: float) -> Row:
    """What machines are, where, how surely and of which day their price is."""
    return {
        "row": str(rank),
        "machines": machines,
        "place": place(d),
        "gpus": gpus(d),
        "weights_text": d.weight_format,
        "engine_text": engine_words(d.engine, d.drafts),
        "verdict": range_word(d.is_tight, confidence),
        "price_day": d.price_day,
        "price_as_of": d.stated_price_day,
    }
