"""What can be asked of `plan serve`: nothing is loaded to state a question."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture
    from gpufleet.domain.slo import Slo
    from gpufleet.domain.token_counts import TokenCounts


@dataclass(frozen=True)
class RequestKind:
    """One class of requests as it was asked for."""

    name: str
    rate: float
    input_tokens: float | TokenCounts
    output_tokens: float | TokenCounts
    slo: str | Slo | None = None
    prefix_cache: float | None = None
    prefix_kv: float | None = None


@dataclass(frozen=True)
class ServeRequest:
    """The question as it was asked; None takes the default. Lists name what is allowed.

    Token counts are one number, or counts that differ from request to request. `classes` are kinds of requests of one
    service: then rate, lengths, objectives and prefix cache are theirs. `prefix_cache` is the share of prompt tokens
    that a cache holds, `prefix_kv` (the same, where None) the share whose KV all requests hold together. Capacity holds
    without `spare_machines`, or without one of `zones`. At `off_peak_rate` machines are given back, for all but
    `peak_hours` of a day. `from_file` names the fields that a workload file gave, `from_config` those that were
    preferred: they change nothing but the origin that the answer states.
    `fractions` also plans machines that hold a slice of a GPU.
    `price_change`: what if all rented machines cost so much more (0.2: 20 %) or less (-0.1) than held here.
    Limits hold with `confidence`, from 0.5 (the expected value; so where None) over 0.9 (the high end of every range).
    Prices older than `max_price_age_s` on `today` end the question with DataMissing.
    `fleet_today`: the machines that run now, such as '3 aws:p5.48xlarge@98.32/h'; the plan says what to do with them.
    """

    model: str | PathLike[str] | Architecture
    rate: float
    input_tokens: float | TokenCounts
    output_tokens: float | TokenCounts
    slo: str | Slo | None = None
    clouds: Sequence[str] | None = None
    regions: Sequence[str] | None = None
    pricing: Sequence[str] | None = None
    gpus: Sequence[str] | None = None
    precision: Sequence[str] | None = None
    allow_lower_precision: bool = False
    kv_precision: str | None = None
    engine: str | None = None
    headroom: float | None = None
    min_replicas: int | None = None
    rows: int = 10
    from_file: Collection[str] = ()
    from_config: Collection[str] = ()
    fractions: bool = False
    max_price_age_s: float | None = None
    today: date | None = None
    classes: Sequence[RequestKind] = ()
    prefix_cache: float | None = None
    prefix_kv: float | None = None
    spare_machines: int | None = None
    zones: int | None = None
    off_peak_rate: float | None = None
    peak_hours: float | None = None
    budget_usd_per_hour: float | None = None
    max_spot: float | None = None
    notes: Sequence[str] = ()
    price_change: float | None = None
    confidence: float | None = None
    fleet_today: str | None = None
