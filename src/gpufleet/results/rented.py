"""Machines of one offer, as every plan that rents them says it."""

from __future__ import annotations

from datetime import date

from pydantic import field_serializer

from gpufleet.provenance import day_in_words
from gpufleet.results.base import Figure, Result


class SpotPrice(Result):
    """The price of an hour of one machine, and where it stands; of a price that somebody says, `basis` is `given`."""

    usd_per_hour: float
    basis: str
    source: str = ""
    as_of: date | None = None
    doubt: str = ""


class OfferedMachines(Result):
    """So many machines of an offer, and how their price is; `price_doubt` says why it may be wrong, where it may.

    Of an undated copy, first seen on `price_first_seen`, `price_as_of` is the earliest day that it can be of; a file
    says null. In a choice it counts `price_age_ratio` times, for its age.
    """

    cloud: str
    region: str
    instance: str
    instance_count: int
    gpu: str
    gpus_per_instance: float
    price_kind: str
    price_basis: str
    price_source: str
    price_as_of: date | None
    price_first_seen: date | None = None
    price_until: date | None = None
    price_doubt: str = ""
    price_age_ratio: float = 1.0

    @field_serializer("price_as_of", when_used="json")
    def _stated_day(self, day: date | None) -> date | None:
        return day if self.price_first_seen is None else None

    @property
    def price_day(self) -> str:
        """Of which day the price is, as far as is known."""
        return day_in_words(self.price_as_of, self.price_first_seen)

    @property
    def stated_price_day(self) -> date | None:
        """The day that the source gives its price; None of an undated copy."""
        return self.price_as_of if self.price_first_seen is None else None


class RentedMachines(OfferedMachines):
    """Machines and what runs on them; `idle_gpus` are paid for and hold no replica.

    `binding` is the code of what binds, or the name of an objective; `binding_limit` says it in words. What `drafts`
    gives each sequence a step is `accepted_tokens`.
    """

    interruption: str | None = None
    price_per_instance_usd_per_hour: float
    usd_per_hour: float
    engine: str
    drafts: str | None = None
    accepted_tokens: Figure | None = None
    weight_format: str
    gpus_per_replica: int
    replicas: int
    idle_gpus: int
    batch: float
    largest_batch: float
    binding: str = ""
    binding_limit: str
    is_tight: bool
    grade: str
