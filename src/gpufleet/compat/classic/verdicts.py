"""Whether today's facts refute an option at the scenario's own use, and the best one that they do not refute."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.compat.classic.lines import percent, said_saving, usd
from gpufleet.compat.classic.names import Goal, WorkloadType
from gpufleet.compat.classic.options import Option, Question
from gpufleet.compat.classic.rental import Rental
from gpufleet.compat.classic.truth import Verdict
from gpufleet.records import dataclass
from gpufleet.units import PERCENT

UNDERSTATED = 2
"""A cost is understated where the bill grows by more than so many times what the configuration says."""


@dataclass(frozen=True)
class Finding:
    """What one setup costs a month and gives at most (None is unknown), and why it does not do the work."""

    line: str
    month_usd: float | None = None
    tokens_per_s: float | None = None
    fails: tuple[str, ...] = ()
    is_known: bool = True
    rented: Rental | None = None
    room: str = ""

    @property
    def works(self) -> bool:
        """Whether the model is held and the load carried."""
        return self.is_known and not self.fails


def verdict_on(question: Question, option: Option, today: Finding, found: Finding) -> Verdict:
    """Why an option is refuted: it does not do the work, or what the configuration says of it is not so."""
    price, speed = ratio_of(found.month_usd, today.month_usd), ratio_of(found.tokens_per_s, today.tokens_per_s)
    saves = today.month_usd - found.month_usd if price and today.month_usd and found.month_usd else None
    wrong: list[str] = []
    dearer = ""
    if found.works and not option.is_today:
        dearer, gain = understated(option, price), f", for {speed:.2f}x its tokens/s" if speed else ""
        overpays = bool(dearer and price and speed and price > speed)
        wrong = [no_saving(option, price), f"{dearer}{gain}" * overpays, slower(question, option, speed)]
    against = (*found.fails, *(reason for reason in wrong if reason))
    return Verdict(against, "" if against else dearer, saves, speed, found.month_usd, found.tokens_per_s, found.works)


def printed_ratio(option: Option) -> float:
    """The price of an option beside today's, both as the configuration has them."""
    return 1 - option.saving_percent / PERCENT


def no_saving(option: Option, price_ratio: float | None) -> str:
    """A saving that is none."""
    if price_ratio is None or not printed_ratio(option) < 1 <= price_ratio:
        return ""
    return f"it saves nothing: {times(price_ratio)} today's price, not {printed_ratio(option):.2f}x"


def understated(option: Option, price_ratio: float | None) -> str:
    """A cost that grows far more than the configuration says."""
    said = printed_ratio(option)
    if price_ratio is None or said < 1 or price_ratio - 1 <= UNDERSTATED * (said - 1):
        return ""
    return f"it costs {times(price_ratio)} today's price, not {said:.2f}x"


def slower(question: Question, option: Option, speed_ratio: float | None) -> str:
    """A gain of speed that is a loss; no objection where cost is the goal and the load is carried."""
    if question.goal is Goal.COST or not speed_ratio or not option.speed_ratio > 1 > speed_ratio:
        return ""
    return f"it gives {speed_ratio:.2f}x today's tokens/s"


def times(ratio: float) -> str:
    """How many times, with as many decimals as say something.

    >>> times(16.56), times(1.204)
    ('16.6x', '1.20x')
    """
    return f"{ratio:,.1f}x" if ratio >= 10 else f"{ratio:.2f}x"


def ratio_of(option: float | None, today: float | None) -> float | None:
    """How one compares with the other, where both are known."""
    return option / today if option and today else None


def best_standing(goal: Goal, ranked: Mapping[Option, Verdict]) -> Option | None:
    """The best by prices and speeds of today of the options that are not refuted and have a price."""
    standing = {o: v for o, v in ranked.items() if not v.against and v.month_usd is not None}

    def order(option: Option) -> tuple[float, ...]:
        verdict = standing[option]
        cost, speed = verdict.month_usd or 0.0, (-(verdict.tokens_per_s or 0.0), -option.speed_ratio)
        risk = (option.risk.level, option.complexity.level, not option.is_today)
        keys = {Goal.COST: (cost, *speed), Goal.PERFORMANCE: (*speed, cost), Goal.RELIABILITY: (*risk, cost, *speed)}
        return keys[goal]

    return min(standing, key=order, default=None)


def best_line(question: Question, best: Option | None, verdict: Verdict | None, found: Finding | None) -> str:
    """The best option in words: what to rent, what it costs and saves, and how it carries the load."""
    if best is None or verdict is None or found is None or found.rented is None:
        return "BEST TODAY: none. Today's facts refute every setup of the configured GPUs, or do not know its price."
    move = "stay with" if best.is_today else "move to"
    month = f"{usd(verdict.month_usd or 0.0)} for {best.setup.monthly_hours:g} hours"
    where = f"{found.rented.label} in {found.rented.offer.region}, {month}"
    return (
        f"BEST TODAY by {question.goal.value}: {move} {best.setup.label}: {where}{saved(best, verdict)}; {found.room}."
    )


def saved(best: Option, verdict: Verdict) -> str:
    """What the move does to today's bill at today's prices."""
    amount, month = verdict.saving_usd_per_month, verdict.month_usd
    if best.is_today or amount is None or month is None:
        return ""
    part = percent(abs(amount) / (amount + month) * PERCENT)
    return f", {said_saving(amount)} ({part}%)"


def verdict_lines(best: Option, verdict: Verdict) -> list[str]:
    """Whether the recommendation of the configuration stands, and what it saves at prices of today."""
    word = "stay with" if best.is_today else "move to"
    said = f"REFUTED: {word} {best.setup.label}: {'; '.join(verdict.against)}."
    if not verdict.against:
        but = f", but {verdict.understated}" if verdict.understated else ""
        said = f"Not refuted: {word} {best.setup.label}, the recommendation below{but}."
    saves = verdict.saving_usd_per_month
    if best.is_today:
        return [said]
    if verdict.month_usd is None:
        return [f"{said} Its price today is unknown."]
    if saves is None:
        return [said]
    return [
        f"{said} At prices of today it {said_saving(saves)} a month; by those below it {said_saving(best.saving_usd)}."
    ]


def conclusion(question: Question, today: Finding, option: Finding | None = None) -> list[str]:
    """What the recommended move would do by catalog and model, where they know."""
    if option is None:
        return []
    price = ratio_of(option.month_usd, today.month_usd)
    speed = ratio_of(option.tokens_per_s, today.tokens_per_s)
    known = [f"{price:.2f}x today's price"] if price else []
    known += [f"{speed:.2f}x today's tokens/s"] if speed else []
    lines = [f"So by catalog and model the move means {' and '.join(known)}."] if known else []
    if question.work is WorkloadType.INFERENCE and price and speed and price > speed:
        condition = "It pays while today's GPUs are mostly idle: at" if price < 1 else "At"
        lines.append(f"{condition} full load a token costs {times(price / speed)} as much.")
    return lines
