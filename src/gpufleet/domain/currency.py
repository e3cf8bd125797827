"""A currency that an answer is written in, at a rate that its reader states: none is shipped, as rates move."""

from __future__ import annotations

import re
from dataclasses import dataclass

CODE = re.compile(r"[A-Z]{3}")
DOLLAR = "USD"
CURRENCY_KEY = "currency"
LEAST_PER_USD, MOST_PER_USD = 1e-6, 1e7


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

    def amount(self, usd: float) -> float:
        """What an amount of dollars is in this currency."""
        return usd * self.per_usd

    def usd(self, amount: float) -> float:
        """What an amount in this currency is in dollars."""
        return amount / self.per_usd
