"""A currency that an answer is written in, at a rate that its reader states: none is shipped, as rates move."""

from __future__ import annotations

import re

from gpufleet.records import dataclass

CODE = re.compile(r"[A-Z]{3}")
DOLLAR = "USD"
CURRENCY_KEY = "currency"
LEAST_PER_USD, MOST_PER_USD = 1e-6, 1e7
NEAR_THE_DOLLAR, LEAST_NEAR, MOST_NEAR = ("EUR", "GBP", "CHF"), 0.3, 3.0
MOST_APART = 0.05


def is_likely(code: str, per_usd: float) -> bool:
    """Whether a rate can be meant: of currencies that stay near the dollar, 0.3 to 3 for one; of others, any.

    >>> is_likely("EUR", 0.92), is_likely("EUR", 92.0), is_likely("JPY", 150.0)
    (True, False, True)
    """
    return code not in NEAR_THE_DOLLAR or LEAST_NEAR <= per_usd <= MOST_NEAR


@dataclass(frozen=True)
class Currency:
    """A currency by its three letters (ISO 4217), and how much of it one dollar is.

    >>> Currency("EUR", 0.92).amount(100.0), Currency("EUR", 0.92).usd(92.0)
    (92.0, 100.0)
    """

    code: str
    per_usd: float

    def __post_init__(self) -> None:
        if not CODE.fullmatch(self.code) or self.code == DOLLAR:
            raise ValueError(f"a currency other than the dollar has three letters, found {self.code!r}")
        if not LEAST_PER_USD <= self.per_usd <= MOST_PER_USD:
            raise ValueError(f"one dollar is no such amount of {self.code}: {self.per_usd!r}")
        if not is_likely(self.code, self.per_usd):
            raise ValueError(f"one dollar was never near {self.per_usd:g} {self.code}")

    def agrees_with(self, usd_per_unit: float) -> bool:
        """Whether a rate the other way round, dollars for one unit, is the same within a few percent.

        >>> Currency("EUR", 0.92).agrees_with(1.087), Currency("EUR", 0.92).agrees_with(0.92)
        (True, False)
        """
        return abs(self.per_usd * usd_per_unit - 1) <= MOST_APART

    def amount(self, usd: float) -> float:
        """What an amount of dollars is in this currency."""
        return usd * self.per_usd

    def usd(self, amount: float) -> float:
        """What an amount in this currency is in dollars."""
        return amount / self.per_usd
