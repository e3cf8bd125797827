"""Lines of 80 columns, and figures as they are said in them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from gpufleet.report.controls import printable
from gpufleet.units import PERCENT

WIDTH, INDENT = 80, "  "
MANY_TIMES = 10


def hanging(text: str, indent: str = INDENT, hang: str = INDENT) -> list[str]:
    """A text behind `indent`; its further lines stand `hang` deeper.

    >>> hanging("- reduce the batch")
    ['  - reduce the batch']
    """
    width = WIDTH - len(indent)
    lines = textwrap.wrap(printable(text), width, subsequent_indent=hang, break_on_hyphens=False)
    return [indent + line for line in lines]


def bullets(texts: Iterable[str], indent: str = INDENT) -> Iterator[str]:
    """One bullet for each text."""
    for text in texts:
        yield from hanging(f"- {text}", indent)


def usd(amount: float) -> str:
    """USD without cents.

    >>> usd(-33480.4)
    '-$33,480'
    """
    return f"{'-' if round(amount) < 0 else ''}${abs(amount):,.0f}"


def said_saving(usd_per_month: float) -> str:
    """What a move does to the bill.

    >>> said_saving(-120.0), said_saving(0.0)
    ('costs $120 more', 'saves nothing')
    """
    if not round(usd_per_month):
        return "saves nothing"
    return f"saves {usd(usd_per_month)}" if usd_per_month > 0 else f"costs {usd(-usd_per_month)} more"


def share(ratio: float) -> str:
    """A part of a whole in percent, and from ten wholes on as times.

    >>> share(0.272), share(356.4)
    ('27%', '356x')
    """
    return f"{ratio:,.0f}x" if ratio >= MANY_TIMES else f"{ratio:.0%}"


def percent(value: float) -> str:
    """A percentage with one decimal where it has few digits.

    >>> percent(89.53), percent(-42400.0)
    ('89.5', '-42,400')
    """
    return f"{value:,.0f}" if abs(value) >= MANY_TIMES * PERCENT else f"{value:.1f}"


def plural(number: float, thing: str) -> str:
    """A number of things.

    >>> plural(1, "byte"), plural(2, "byte")
    ('1 byte', '2 bytes')
    """
    return f"{number:g} {thing}{'' if number == 1 else 's'}"
