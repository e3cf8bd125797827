"""What is asked of a service."""

from __future__ import annotations

import math
from dataclasses import field, replace

from gpufleet.domain.slo import Slo
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.records import dataclass


@dataclass(frozen=True)
class RequestClass:
    """Requests of one kind: their rate, lengths, objectives, and what a prefix cache saves them.

    `cached_ratio` is the share of prompt tokens that the cache holds already: they are not prefilled.
    `shared_ratio` is the share whose KV all requests hold together, once. An engine refuses requests of more than
    `most_tokens`; None: it is started for all that are planned for.
    """

    name: str
    rate_requests_per_s: float
    input_tokens: TokenCounts
    output_tokens: TokenCounts
    slo: Slo = field(default_factory=Slo)
    cached_ratio: float = 0.0
    shared_ratio: float = 0.0
    most_tokens: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate_requests_per_s) and self.rate_requests_per_s > 0):
            raise ValueError(f"class {self.name!r}: a rate is a positive number, found {self.rate_requests_per_s!r}")
        for name in ("cached_ratio", "shared_ratio"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"class {self.name!r}: {name} lies from 0 to below 1, found {getattr(self, name)!r}")


@dataclass(frozen=True)
class Workload:
    """Poisson arrivals at `rate_requests_per_s`, of requests that are alike or of several classes.

    An encoder writes nothing: 0 output tokens. Where there are `classes`, the token counts are their means, the rate
    their sum and `slo` holds all their limits.
    """

    input_tokens: float
    output_tokens: float
    rate_requests_per_s: float = math.inf
    slo: Slo = field(default_factory=Slo)
    classes: tuple[RequestClass, ...] = ()

    def __post_init__(self) -> None:
        for name in ("input_tokens", "rate_requests_per_s"):
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"workload: {name} must be positive, found {value!r}")
        if not self.output_tokens >= 0:
            raise ValueError(f"workload: output_tokens must not be negative, found {self.output_tokens!r}")
        if not (math.isfinite(self.input_tokens) and math.isfinite(self.output_tokens)):
            raise ValueError("workload: token counts must be finite")

    @classmethod
    def of(cls, classes: tuple[RequestClass, ...]) -> Workload:
        """One service for requests of several classes."""
        rate = sum(c.rate_requests_per_s for c in classes)
        return cls(
            sum(c.rate_requests_per_s * c.input_tokens.mean for c in classes) / rate,
            sum(c.rate_requests_per_s * c.output_tokens.mean for c in classes) / rate,
            rate,
            Slo(tuple(limit for c in classes for limit in c.slo.limits)),
            classes,
        )

    def at_rate(self, requests_per_s: float) -> Workload:
        """The same at another rate of all together, of which every class keeps its share."""
        ratio = requests_per_s / self.rate_requests_per_s
        classes = tuple(replace(c, rate_requests_per_s=c.rate_requests_per_s * ratio) for c in self.classes)
        return replace(self, rate_requests_per_s=requests_per_s, classes=classes)

    @property
    def figures(self) -> tuple[tuple[str, str, str], ...]:
        """(class, metric, statistic) of every limit, and the 95th percentile of what has none."""
        if not self.classes:
            return tuple(("", metric, statistic) for metric, statistic in self.slo.figures)
        return tuple((c.name, metric, statistic) for c in self.classes for metric, statistic in c.slo.figures)
