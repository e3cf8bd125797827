"""What every price feed is to the updater, and how its pages are read: a field that is not there is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from gpufleet.catalog.exchange import BrokenFeed
from gpufleet.catalog.transport import Download
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import PriceBasis, PriceKind
from gpufleet.errors import nearest_names, shorten
from gpufleet.records import dataclass

Kind = TypeVar("Kind")


class ListedPrice(NamedTuple):
    """A price of a feed, in USD per hour of a whole instance."""

    region: str
    instance: str
    price_kind: PriceKind
    usd_per_hour: float
    upfront_usd: float = 0.0


@dataclass(frozen=True)
class Visit:
    """One reading of a feed: where to ask, with which keys, for which machines."""

    download: Download
    endpoint: str
    keys: Mapping[str, str]
    instances: Mapping[str, Instance]
    gpu_named: Callable[[str], str | None]


@dataclass(frozen=True)
class Feed:
    """A public source of prices of one cloud; `caution` is what its readers should know of it."""

    name: str
    cloud: str
    title: str
    endpoint: str
    price_kinds: frozenset[PriceKind]
    read: Callable[[Visit], Iterator[ListedPrice]]
    basis: PriceBasis = PriceBasis.LIST
    key_variables: tuple[str, ...] = ()
    caution: str = ""

    @property
    def endpoint_variable(self) -> str:
        """The environment variable that names a mirror of the endpoint."""
        return f"GPUFLEET_ENDPOINT_{self.name.upper().replace('-', '_')}"


def field(row: object, name: str, kind: type[Kind], where: str) -> Kind:
    """A field of a JSON object, of the type that the feed documents."""
    if not isinstance(row, dict):
        raise BrokenFeed(f"{where}: not an object", found=row, expected=f"an object with the field {name!r}")
    if name not in row:
        raise renamed(row, name, where)
    value: Any = row[name]
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = as_float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BrokenFeed(f"{where}: {name!r} has another type", found=value, expected=kind.__name__)
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise BrokenFeed(f"{where}: {name!r} is no text", found=value, expected="characters that UTF-8 has")
    return value


def as_float(value: str | float) -> float:
    """A number, infinite where it is beyond every float.

    >>> as_float("2.29"), as_float(10**400)
    (2.29, inf)
    """
    try:
        return float(value)
    except OverflowError:
        return math.inf


def renamed(row: Mapping[str, object], name: str, where: str) -> BrokenFeed:
    """The error of a field that is not there, with the nearest that is."""
    nearest = nearest_names(name, row, count=1)
    hint = f"Nearest: {nearest[0]}." if nearest else None
    found = ", ".join(row)
    return BrokenFeed(f"{where}: the field {name!r} is missing", found=found, expected=repr(name), hint=hint)


def dollars(text: object, where: str) -> float:
    """A price written as text; a word such as 'N/A*' is no price and reads as zero, which never becomes an offer.

    >>> dollars("2.29", "row"), dollars("N/A*", "row")
    (2.29, 0.0)
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise BrokenFeed(f"{where}: a price has another type", found=text, expected="a number or a text")
    try:
        value = as_float(text)
    except ValueError:
        value = 0.0
    return value if math.isfinite(value) else 0.0


def in_dollars(currency: str, where: str) -> None:
    """Prices in another currency are refused: they must not stand beside dollars."""
    if currency.upper() != "USD":
        raise BrokenFeed(f"{where}: prices in another currency", found=shorten(currency), expected="USD")
