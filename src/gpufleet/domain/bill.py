"""Lines of a bill beside the GPU machines: disk, load balancer, egress, CPU nodes."""

from __future__ import annotations

import math
from enum import Enum

from gpufleet.records import dataclass

ANYWHERE = "all"


class Per(str, Enum):
    """What a quantity is stated for; the first two are a month's."""

    SERVICE = "service"
    INSTANCE = "instance"
    MILLION_REQUESTS = "million_requests"


@dataclass(frozen=True)
class BillLine:
    """So many units at a price each, for the service, for each GPU machine, or for each million requests."""

    name: str
    cloud: str
    region: str
    quantity: float
    per: Per
    unit: str
    unit_usd: float
    source: str

    def __post_init__(self) -> None:
        for what, value in (("quantity", self.quantity), ("unit_usd", self.unit_usd)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{self.name}: {what} is a number from zero on, found {value!r}")

    def applies_to(self, cloud: str, region: str) -> bool:
        """Whether the line is of this place."""
        return self.cloud in (ANYWHERE, cloud) and self.region in (ANYWHERE, region)
