"""How many tokens requests have: one number, or numbers that differ from request to request."""

from __future__ import annotations

import math

from gpufleet.records import dataclass

PERCENTILES = ("p50", "p90", "p95", "p99")


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of prompts, or of answers, over requests.

    `squared_variation` is the variance over the square of the mean, `percentiles` the tokens at PERCENTILES, `longest`
    what must fit at all, and `octiles` the mean of each eighth of the requests, the shortest first. `beyond_ratio` of
    the requests may be longer than `longest`. Where all requests are alike, `percentiles` and `octiles` are empty and
    everything is the mean.
    """

    mean: float
    squared_variation: float = 0.0
    percentiles: tuple[float, ...] = ()
    longest: float = 0.0
    octiles: tuple[float, ...] = ()
    beyond_ratio: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.mean > 0):
            raise ValueError(f"tokens of a request are a positive number, found {self.mean!r}")
        if not (math.isfinite(self.squared_variation) and self.squared_variation >= 0):
            raise ValueError(f"a squared variation is not negative, found {self.squared_variation!r}")
        if len(self.percentiles) not in (0, len(PERCENTILES)):
            raise ValueError(f"percentiles are {', '.join(PERCENTILES)}, found {len(self.percentiles)}")
        if list(self.percentiles) != sorted(self.percentiles):
            raise ValueError(f"percentiles do not fall, found {self.percentiles}")

    @property
    def is_alike(self) -> bool:
        """Whether all requests have the same number."""
        return not self.percentiles

    def at(self, statistic: str) -> float:
        """Tokens at 'mean' or at one of PERCENTILES."""
        if statistic == "mean" or self.is_alike:
            return self.mean
        return self.percentiles[PERCENTILES.index(statistic)]

    @property
    def most(self) -> float:
        """The longest, or what all are."""
        return max(self.longest, self.mean, *self.percentiles[-1:])

    @property
    def equal_parts(self) -> tuple[float, ...]:
        """Tokens that stand for equal shares of the requests."""
        return self.octiles or (self.mean,)

    def plus(self, tokens: float) -> TokenCounts:
        """Every request so many tokens longer.

        >>> TokenCounts(100.0, 0.5, (80.0, 180.0, 220.0, 400.0), 500.0).plus(100.0).squared_variation
        0.125
        """
        return TokenCounts(
            self.mean + tokens,
            self.squared_variation * (self.mean / (self.mean + tokens)) ** 2,
            tuple(t + tokens for t in self.percentiles),
            self.longest + tokens if self.longest else 0.0,
            tuple(t + tokens for t in self.octiles),
            self.beyond_ratio,
        )

    def scaled(self, ratio: float) -> TokenCounts:
        """Every request so many times as long.

        >>> TokenCounts(100.0, 0.5, (80.0, 180.0, 220.0, 400.0), 500.0).scaled(2.0).at("p95")
        440.0
        """
        return TokenCounts(
            self.mean * ratio,
            self.squared_variation,
            tuple(tokens * ratio for tokens in self.percentiles),
            self.longest * ratio,
            tuple(tokens * ratio for tokens in self.octiles),
            self.beyond_ratio,
        )


@dataclass(frozen=True)
class AssumedCounts(TokenCounts):
    """Tokens of which only the mean was said: log-normal, cut where prompt and answer reach the model's context.

    `beside_tokens` of them, those of images, are the same in all requests.
    """

    log_spread: float = 0.0
    context_tokens: float = math.inf
    beside_tokens: float = 0.0


MOST_TOKENS = 2**24
