"""The machines that AWS sells with the GPUs of a setup, and what the cheapest of them cost today."""

from __future__ import annotations

import math

from gpufleet.catalog.load import Catalog
from gpufleet.catalog.query import OfferFilter, matching_offers
from gpufleet.compat.classic.arithmetic import Setup
from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.instance import Instance
from gpufleet.domain.offer import Offer, PriceKind
from gpufleet.records import dataclass

CLOUD, CLOUD_TITLE = "aws", "AWS"


@dataclass(frozen=True)
class Rental:
    """Machines that are sold with a setup's GPUs, and what they cost."""

    offer: Offer
    machine: Instance
    gpu_count: int

    @property
    def machines(self) -> int:
        """Whole machines that hold these GPUs."""
        return math.ceil(self.gpu_count / self.machine.gpu_count)

    @property
    def gpus_paid_for(self) -> int:
        """Whole GPUs of all machines together."""
        return int(self.machines * self.machine.gpu_count)

    @property
    def usd_per_hour(self) -> float:
        """All machines together."""
        return self.machines * self.offer.price_per_instance_usd_per_hour

    @property
    def label(self) -> str:
        """How it is said: '1x p5.4xlarge', and how many of its GPUs are asked for where it has more."""
        there = self.machines * self.machine.gpu_count
        part = f" ({self.gpu_count} of {there:g} GPUs)" if there > self.gpu_count else ""
        return f"{self.machines}x {self.machine.name}{part}"


def rental(tables: Catalog, setup: Setup, gpu: Accelerator) -> Rental | None:
    """The cheapest machines with these GPUs, in one machine where any is large enough; fewer machines where equal."""
    kind = PriceKind.SPOT if setup.use_spot else PriceKind.ON_DEMAND
    wanted = OfferFilter(clouds={CLOUD}, accelerators={gpu.name}, price_kinds={kind})
    offers = [(o, tables.instance_of(o)) for o in matching_offers(tables, wanted)]
    largest = max((machine.gpu_count for _, machine in offers), default=0)
    enough = [(o, m) for o, m in offers if m.gpu_count >= min(setup.gpu_count, largest)]
    rentals = [Rental(o, m, setup.gpu_count) for o, m in enough]
    return min(rentals, key=lambda r: (r.usd_per_hour, r.machines, r.offer.region), default=None)


def price(rented: Rental | None, setup: Setup) -> str:
    """The cheapest way to rent a setup's GPUs on AWS today."""
    if rented is None:
        return f"no {'spot ' if setup.use_spot else ''}price known on {CLOUD_TITLE}"
    offer, hours = rented.offer, setup.monthly_hours
    kind = f"{offer.price_kind.value.replace('_', ' ')}, {offer.basis.value}"
    return (
        f"{rented.label} in {offer.region} at ${rented.usd_per_hour:,.2f}/h ({kind} {offer.as_of}), "
        f"${rented.usd_per_hour * hours:,.0f} for {hours:g} hours"
    )
