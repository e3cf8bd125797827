"""The fleet that runs today, as users type it: '3 aws:p5.48xlarge@98.32/h, 2 H100:8'."""

from __future__ import annotations

import re

from gpufleet.domain.currency import Currency
from gpufleet.errors import UsageError
from gpufleet.inputs.currency import said_usd
from gpufleet.records import dataclass
from gpufleet.units import parse_usd, parse_usd_per_hour

LONGEST, MOST_MACHINES, MOST_TYPES = 400, 10_000, 4
EXPECTED = "machines, each with its price where you know it: '3 aws:p5.48xlarge@98.32/h', '2 H100:8@25/h'"
BILL = re.compile(r"\$?[0-9.][0-9.,_]*(?:e[0-9]+)?[kKmM]?\s*/\s*[A-Za-z]+")
GROUPED = re.compile(r"(?<![^\s@,+$])[0-9]{1,3}(?:,[0-9]{3})+(?=[.0-9]*\s*/)")
SEPARATOR = re.compile(r",|\s\+|\+(?=\s*[0-9])")
COUNT = r"(?:(?P<count>[0-9]{1,9})(?:\s*[xX×*]\s*|\s+))?"
MACHINES = re.compile(COUNT + r"(?P<name>[^@\s](?:[^@]*[^@\s])?)\s*(?:@(?P<price>.*))?")
SAID_AMOUNT = re.compile(
    r"(?P<sign>[€£])?\s*(?P<amount>(?<![\w.])[0-9][0-9.,_]*[kKmM]?)(?:\s*(?P<code>[A-Z]{3}))?\s*(?=/)"
)
HOURLY = re.compile(r"\s*/\s*(?:(?:gpu|machine)\s*/\s*)?h(?:our)?\b", re.IGNORECASE)
THREE_DECIMALS = re.compile(r"(?<![\w.,])([0-9]{1,3}\.[0-9]{3})(?![\w.,])")
PER = re.compile(r"(?P<amount>[^/]*)/\s*(?P<unit>gpu|machine)\s*/(?P<time>[^/]*)", re.IGNORECASE)


@dataclass(frozen=True)
class StatedPrice:
    """What an hour costs, of a machine or of one of its GPUs; `is_sure`: it was said of which."""

    usd_per_hour: float
    is_of_gpu: bool = False
    is_sure: bool = False


@dataclass(frozen=True)
class TypedMachines:
    """So many machines of one type, and what one costs where that was typed."""

    asked: str
    count: int
    name: str
    price: StatedPrice | None


@dataclass(frozen=True)
class TypedFleet:
    """Machines of one or several types, and the bill of all where that was typed."""

    machines: tuple[TypedMachines, ...]
    bill_usd_per_hour: float | None = None


def parse_fleet(text: str) -> TypedFleet:
    """Machines joined by ',' or '+', at most one of the parts a bill of them all.

    >>> fleet = parse_fleet("3 aws:p5.48xlarge + H100:8, 73,000/mo")
    >>> [(m.count, m.name) for m in fleet.machines], fleet.bill_usd_per_hour
    ([(3, 'aws:p5.48xlarge'), (1, 'H100:8')], 100.0)
    """
    parts = [part.strip() for part in SEPARATOR.split(GROUPED.sub(without_commas, text[: LONGEST + 1]))]
    if len(text) > LONGEST or not all(parts):
        raise UsageError("cannot read today's fleet", found=text, expected=EXPECTED)
    bills = [part for part in parts if BILL.fullmatch(part)]
    machines = tuple(parse_machines(part) for part in parts if part not in bills)
    refuse_strange(text, machines, bills)
    return TypedFleet(machines, parse_bill(bills[0]) if bills else None)


def fleet_in_dollars(text: str, currency: Currency | None) -> str:
    """The same fleet with every amount that names another currency in dollars.

    >>> fleet_in_dollars("3 aws:p5.48xlarge@92 EUR/h, 2 H100:8@25/h", Currency("EUR", 0.92))
    '3 aws:p5.48xlarge@100/h, 2 H100:8@25/h'
    """

    def in_dollars(match: re.Match[str]) -> str:
        if not (match["sign"] or match["code"]):
            return match[0]
        amount = plainly_decimal(match["amount"]) if HOURLY.match(text, match.end()) else match["amount"]
        typed = f"{match['sign'] or ''}{amount} {match['code'] or ''}"
        return plainly_decimal(f"{said_usd(typed, currency, parse_usd):.10g}")

    return SAID_AMOUNT.sub(in_dollars, text)


def plainly_decimal(text: str) -> str:
    """A price of an hour with three decimals, as clouds list them, in a spelling that has one reading.

    >>> plainly_decimal("1.861/h")
    '1.8610/h'
    """
    return THREE_DECIMALS.sub(r"\g<1>0", text)


def without_commas(match: re.Match[str]) -> str:
    """An amount without the commas that group its thousands."""
    return match[0].replace(",", "")


def refuse_strange(text: str, machines: tuple[TypedMachines, ...], bills: list[str]) -> None:
    """Refuse a bill of nothing, two bills, a bill beside prices of all, and more types than are weighed together."""
    if not machines:
        raise UsageError("today's fleet has a bill and no machines", found=text, expected=EXPECTED)
    if len(bills) > 1:
        raise UsageError("today's fleet has several bills", found=", ".join(bills), expected="one bill of all machines")
    if bills and all(m.price is not None for m in machines):
        expected = "the bill or the prices, or a bill and prices of all types but one: the rest is its share"
        raise UsageError("today's fleet has a bill and prices", found=text, expected=expected)
    if len(machines) > MOST_TYPES:
        raise UsageError("today's fleet has too many types", found=len(machines), expected=f"at most {MOST_TYPES}")


def parse_machines(text: str) -> TypedMachines:
    """'3 aws:p5.48xlarge@98.32/h', '3x H100:8', or a name alone for one machine."""
    match = MACHINES.fullmatch(text)
    if match is None or match["name"][0] in "-+$":
        raise UsageError("cannot read today's machines", found=text, expected=EXPECTED)
    count = 1 if match["count"] is None else int(match["count"])
    if not 1 <= count <= MOST_MACHINES:
        raise UsageError(
            "the number of today's machines is out of range", found=text, expected=f"from 1 to {MOST_MACHINES:,}"
        )
    price = None if match["price"] is None else parse_price(match["price"].strip(), text)
    return TypedMachines(text, count, match["name"].strip(), price)


def parse_bill(text: str) -> float:
    """'52,000/mo' of all machines   [USD/h]."""
    try:
        return parse_usd_per_hour(text)
    except UsageError as refusal:
        if THREE_DECIMALS.search(text):
            raise
        expected = "USD per time above 0, such as '52,000/mo'"
        raise UsageError("cannot read the bill of today's fleet", found=text, expected=expected) from refusal


def parse_price(typed: str, whole: str) -> StatedPrice:
    """'98.32/h' of a machine; '12.29/gpu/h' and '98.32/machine/h' say of what.

    >>> parse_price("$12.29/gpu/h", "")
    StatedPrice(usd_per_hour=12.29, is_of_gpu=True, is_sure=True)
    """
    per = PER.fullmatch(typed)
    text = f"{per['amount'].strip()}/{per['time'].strip()}" if per else typed
    try:
        usd_per_hour = parse_usd_per_hour(plainly_decimal(text) if HOURLY.search(text) else text)
    except UsageError as refusal:
        if THREE_DECIMALS.search(text):
            raise
        expected = "USD per time of one machine, such as '@98.32/h', or of one GPU, such as '@12.29/gpu/h'"
        raise UsageError("cannot read the price of today's machines", found=whole, expected=expected) from refusal
    return StatedPrice(usd_per_hour, bool(per and per["unit"].lower() == "gpu"), per is not None)
