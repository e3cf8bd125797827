"""What is asked of a service."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from gpufleet.domain.slo import Slo


@dataclass(frozen=True)
class Workload:
    """Requests of one length class: Poisson arrivals at `rate_requests_per_s` unless said otherwise."""

    input_tokens: float
    output_tokens: float
    rate_requests_per_s: float = math.inf
    slo: Slo = field(default_factory=Slo)

    def __post_init__(self) -> None:
        for name in ("input_tokens", "output_tokens", "rate_requests_per_s"):
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"workload: {name} must be positive, found {value!r}")
        if not (math.isfinite(self.input_tokens) and math.isfinite(self.output_tokens)):
            raise ValueError("workload: token counts must be finite")
