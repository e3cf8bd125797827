"""What was asked about a plan beyond its answer: flips, the front, why not something else, a token API."""

from __future__ import annotations

from collections.abc import Sequence

from gpufleet.report.numbers import amount, percent, significant, usd, usd_per_hour
from gpufleet.report.page import Column, Columns, Table, column
from gpufleet.report.pools import pools_of_plan_table
from gpufleet.report.rented import about
from gpufleet.report.token_prices import api_in_words
from gpufleet.report.words import at_least_ms
from gpufleet.results.base import Refused
from gpufleet.results.levers import Flip, FlipWinner
from gpufleet.results.plan import BreakEven, Deployment, ServePlan, WhyNot
from gpufleet.units import MILLISECOND, PERCENT

SHOWN_DIGITS, MANY_TIMES = 4, 10
PRICE_QUANTITIES = {
    "price": "price of {of}",
    "another's price": "price of {of}",
    "machines to be had": "{of} available",
}


def further_tables(plan: ServePlan, all_flips: bool, most_refused: int | None = None) -> list[Table]:
    """Whatever was asked for beside the front."""
    return [
        *([flip_table(plan.flips, moves_alike(plan))] if all_flips and plan.flips else []),
        *(why_not_table(asked, most_refused) for asked in plan.asked_about),
        *(verification_tables(plan)),
        *([break_even_table(plan.break_even, plan)] if plan.break_even else []),
        *([pools_of_plan_table(plan.pools)] if plan.pools else []),
    ]


def verification_tables(plan: ServePlan) -> list[Table]:
    """The plan's figures beside those of its requests replayed; what says so is loaded then."""
    if plan.verification is None:
        return []
    from gpufleet.report.verification import verification_table

    return [verification_table(plan.verification)]


def drawn_front(plan: ServePlan, width: int) -> list[Table]:
    """The front, drawn; what draws it is loaded then."""
    if plan.front is None:
        return []
    from gpufleet.report.front import front_table

    return [front_table(plan, plan.front, width)]


def machines_of(winner: FlipWinner | Deployment) -> str:
    """How many of which machines, with their price."""
    name = winner.instance.removeprefix("Standard_")
    spot = "" if winner.price_kind == "on_demand" else f" {winner.price_kind.replace('_', ' ')}"
    return f"{winner.instance_count}x {winner.cloud} {name}{spot} ({about(winner)}{usd_per_hour(winner.usd_per_hour)})"


def moves_alike(plan: ServePlan) -> list[str]:
    """What stays as it is, or moves along, where a question has more than one rate or length."""
    names = {i.name for i in plan.inputs}
    classes = ["Rates and lengths of all classes change together."] if plan.num_classes else []
    quiet = ["The off-peak rate stays fixed; the peak is never below it."] if "rate off peak" in names else []
    spread = ["Lengths that differ are scaled together."] if plan.lengths_differ and not classes else []
    return classes + spread + quiet


def flip_table(flips: list[Flip], notes: Sequence[str] = ()) -> Table:
    """Where the choice changes when one thing moves and all else stays."""
    columns = [
        Column("quantity", "if", wraps=True),
        Column("now", "is now", align="right", priority=1),
        Column("value", "moves to", align="right"),
        Column("change", "by", align="right", priority=2),
        Column("wins", "then", wraps=True),
    ]
    moved = "One value changes at a time; a price changes in all regions of a machine."
    checked = "Checked: 1% closer to today's value, the choice is the same."
    title, said = "What flips the choice", [f"{moved} {checked}", *notes]
    return Table.of_cells(columns, [flip_cells(flip) for flip in flips], title, said)


def flip_cells(flip: Flip) -> tuple[str, ...]:
    """One quantity and direction: what it is and where it stands, where it moves to, by how much, and what wins."""
    stands = PRICE_QUANTITIES.get(flip.quantity, flip.quantity).format(of=flip.of), in_unit(flip.now, flip.unit)
    if flip.value is None:
        edge = f"{'up' if flip.is_rise else 'down'} to {in_unit(flip.searched_to, flip.unit)}"
        return *stands, "any", "-", f"the same row {edge}"
    wins = "no single offer serves" if flip.winner is None else machines_of(flip.winner)
    ratio = flip.change_ratio
    change = "-" if ratio is None else f"{'+' if flip.is_rise else '-'}{significant(PERCENT * abs(ratio), 2)}%"
    return *stands, in_unit(flip.value, flip.unit), change, wins


def in_unit(value: float, unit: str) -> str:
    """A value of a flip with its unit, in as many digits as the search answers for."""
    if unit == "USD/h":
        return usd_per_hour(value)
    if unit == "s":
        return duration_in_digits(value)
    number = f"{value:,.{SHOWN_DIGITS}g}" if value < 10**SHOWN_DIGITS else f"{value:,.0f}"
    return f"{number}/s" if unit == "1/s" else f"{number} {unit}"


def duration_in_digits(seconds: float) -> str:
    """A time in four digits.

    >>> duration_in_digits(0.03419), duration_in_digits(10.44)
    ('34.19 ms', '10.44 s')
    """
    unit, scale = ("s", 1.0) if seconds >= 1 else ("ms", MILLISECOND)
    return f"{seconds / scale:.{SHOWN_DIGITS}g} {unit}"


def why_not_table(asked: WhyNot, most: int | None = None) -> Table:
    """Why something else is not the answer, with the candidates of it that were rejected, the nearest first."""
    nearest = sorted(asked.refused, key=nearness)[:most]
    title = f"Why not {asked.asked}? {verdict(asked)}"
    return Table.of(nearest, REFUSED_COLUMNS, title, [f"{note}." for note in asked.notes], empty="")


REFUSED_COLUMNS: Columns[Refused] = [
    column("candidate", lambda r: r.candidate + (f" ({r.count} layouts)" if r.count > 1 else "")),
    column("reason", lambda r: r.reason, wraps=True),
    column("by how much", lambda r: r.detail or "-", wraps=True),
]
"""A candidate with the layouts that it stands for, why it was rejected, and by how much it missed."""


def verdict(asked: WhyNot) -> str:
    """The reason in one sentence."""
    if asked.is_answer and not asked.not_asked:
        return "It is the answer."
    if asked.cheapest is None:
        return f"It cannot serve this: {best_refusal(asked)}.{needed_words(asked)}"
    left_out = f" It was left out by {asked.not_asked}." if asked.not_asked else ""
    best = f"{machines_of(asked.cheapest)}, {asked.cheapest.replicas} x {asked.cheapest.layout}"
    if asked.answer is None:
        return f"It would serve this with {best}.{left_out}"
    return f"It would take {best}: {difference(asked, asked.cheapest, asked.answer)}.{left_out}"


def needed_words(asked: WhyNot) -> str:
    """What limits would let it serve, and what it would cost then."""
    limits = " and ".join(f"{label} < {at_least_ms(seconds)}" for label, seconds in asked.needed_limits_s.items())
    d = asked.serves_then
    if d is None:
        return f" It would need {limits}, and a price." if limits else ""
    beside = "" if asked.answer is None else f", {beside_answer(d.usd_per_hour / asked.answer.usd_per_hour - 1)}"
    return f" It would with {limits}: {machines_of(d)}, {d.replicas} x {d.layout}{beside}."


def beside_answer(ratio: float) -> str:
    """How much more or less than the answer.

    >>> beside_answer(0.5), beside_answer(-0.25)
    ('50% more than the answer', '25% less than the answer')
    """
    return f"{significant(PERCENT * abs(ratio), 2)}% {'less' if ratio < 0 else 'more'} than the answer"


def difference(asked: WhyNot, cheapest: Deployment, answer: Deployment) -> str:
    """The cost beside the answer's, and the price at which both are equal."""
    ratio = cheapest.usd_per_hour / answer.usd_per_hour - 1
    if ratio <= 0:
        return f"{percent(-ratio)} less than the answer" if ratio else "the same as the answer"
    price = asked.wins_below_usd_per_hour
    needed = "no price makes it win" if price is None else f"it wins below {usd_per_hour(price)} per machine"
    now = usd_per_hour(cheapest.price_per_instance_usd_per_hour)
    return f"{beside_answer(ratio)} ({machines_of(answer)}); {needed}, now {now}"


def best_refusal(asked: WhyNot) -> str:
    """The candidate that came nearest to serving."""
    if asked.largest_machine_gpus is None:
        return f"no machine in the tables has {asked.gpu}"
    if asked.gpus_per_replica and asked.gpus_per_replica > asked.largest_machine_gpus:
        return f"the largest machine with {asked.gpu} has {amount(asked.largest_machine_gpus)} of them"
    return nearest_refusal(asked.refused)


def nearest_refusal(refused: Sequence[Refused]) -> str:
    """Of all that was rejected, what came nearest."""
    if not refused:
        return "no layout of this many GPUs is possible"
    nearest = min(refused, key=nearness)
    return f"{nearest.candidate}, {nearest.reason}" + (f", {nearest.detail}" if nearest.detail else "")


def nearness(refused: Refused) -> tuple[int, float]:
    """How far from serving a candidate is: by its stage, then by how much it misses."""
    return STAGES.get(refused.code, 0), refused.shortfall


STAGES = {"beyond_quota": -5, "no_price": -4, "over_limit": -3, "too_large": -2}


def break_even_table(found: BreakEven, plan: ServePlan) -> Table:
    """The answer beside an API that charges by the token, over all hours where those at the peak and off it differ."""
    columns = [Column("name", "compared with a token API"), Column("value", "", wraps=True)]
    asked = f"{usd(found.usd_per_million_input_tokens)} in, {usd(found.usd_per_million_output_tokens)} out per 1M"
    price = f"{asked}, as given" if found.api is None else f"{asked}: {api_in_words(found.api)}"
    is_flat = plan.mean_requests_per_s is None
    rate = f"{amount(plan.all_hours_requests_per_s)} requests/s{'' if is_flat else ' over all hours'}"
    rows = [
        ("the API's price", price),
        ("the API", f"{usd_per_hour(found.api_usd_per_hour)} at {rate}"),
        ("these machines", f"{usd_per_hour(found.own_usd_per_hour)}, {beside_api(found.own_over_api_ratio)}"),
        ("machines cost no more", break_even_words(found)),
    ]
    notes = ["Machines are paid for even when idle; staff and other costs are not included."]
    notes += [] if is_flat else ["Rates are peak rates; the off-peak rate stays as it is."]
    return Table.of_cells(columns, rows, "Break-even", notes)


def beside_api(ratio: float) -> str:
    """The cost of machines as a share of the API's, or as so many times it.

    >>> beside_api(0.65), beside_api(2174.4)
    ('65% of the API', '2,174 times the API')
    """
    return f"{percent(ratio)} of the API" if ratio < MANY_TIMES else f"{significant(ratio)} times the API"


def break_even_words(found: BreakEven) -> str:
    """From which rate on."""
    first, settled = found.first_requests_per_s, found.settled_requests_per_s
    if first is None:
        return "at no rate up to 1,000,000 requests/s"
    begin = f"from {significant(first)} requests/s"
    if settled is None:
        return f"{begin}, but at many higher rates one more machine makes them more expensive again"
    return f"{begin} on" if settled <= first else f"{begin}; at every rate from {significant(settled)} on"
