"""What the questions of plans say: what all of them do, and what services, models that write, and one service add."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING

from gpufleet.errors import UsageError
from gpufleet.records import dataclass

if TYPE_CHECKING:
    from gpufleet.domain.architecture import Architecture
    from gpufleet.domain.slo import Slo
    from gpufleet.domain.token_counts import TokenCounts

MOST_ROWS = 1000


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What every question of a plan may say; None takes the default. Lists name what is allowed.

    Limits hold with `confidence`, from 0.5 (the expected value; so where None) over 0.9 (the high end of every range).
    `price_change`: what if all rented machines cost so much more (0.2: 20 %) or less (-0.1) than held here.
    Prices older than `max_price_age_s` on `today` end the question with DataMissing.
    `from_file` names the fields that a workload file gave, `from_config` those that were preferred: they change nothing
    but the origin that the answer states.
    """

    clouds: Sequence[str] | None = None
    regions: Sequence[str] | None = None
    pricing: Sequence[str] | None = None
    gpus: Sequence[str] | None = None
    precision: Sequence[str] | None = None
    engine: str | None = None
    headroom: float | None = None
    confidence: float | None = None
    price_change: float | None = None
    max_price_age_s: float | None = None
    today: date | None = None
    rows: int = 10
    notes: Sequence[str] = ()
    from_file: Collection[str] = ()
    from_config: Collection[str] = ()

    @property
    def may_use_spot(self) -> bool:
        """Whether spot machines may be rented where no price kind is named."""
        return True


@dataclass(frozen=True, kw_only=True)
class ServiceRequest(PlanRequest):
    """What a question of a service adds: what may fail, quiet hours, and what may be spent.

    Capacity holds without `spare_machines`, or without one of `zones`. At `off_peak_rate` machines are given back, for
    all but `peak_hours` of a day.
    """

    min_replicas: int | None = None
    spare_machines: int | None = None
    zones: int | None = None
    off_peak_rate: float | None = None
    peak_hours: float | None = None
    budget_usd_per_hour: float | None = None
    max_spot: float | None = None

    @property
    def may_use_spot(self) -> bool:
        """Whether a share of the machines may be on spot."""
        return self.max_spot is not None


@dataclass(frozen=True, kw_only=True)
class WriterRequest(PlanRequest):
    """What a question of a model that writes adds; `fractions` also plans machines that hold a slice of a GPU.

    `prefix_cache` is the share of prompt tokens that a cache holds.
    """

    model: str | PathLike[str] | Architecture = field(kw_only=False)
    allow_lower_precision: bool = False
    kv_precision: str | None = None
    prefix_cache: float | None = None
    fractions: bool = False


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
class ServeRequest(WriterRequest, ServiceRequest):
    """A model that writes, at a rate; `WriterRequest`, `ServiceRequest` and `PlanRequest` say what else may be named.

    Token counts are one number, or counts that differ from request to request. `classes` are kinds of requests of one
    service: then rate, lengths, objectives and prefix cache are theirs. `prefix_kv` (`prefix_cache` where None) is the
    share of prompt tokens whose KV all requests hold together.
    `fleet_today`: the machines that run now, such as '3 aws:p5.48xlarge@98.32/h'; the plan says what to do with them.
    """

    rate: float
    input_tokens: float | TokenCounts
    output_tokens: float | TokenCounts
    slo: str | Slo | None = None
    classes: Sequence[RequestKind] = field(default=(), kw_only=True)
    prefix_kv: float | None = field(default=None, kw_only=True)
    fleet_today: str | None = field(default=None, kw_only=True)

    @property
    def kinds(self) -> Sequence[RequestKind]:
        """The classes of requests; one without a name where all are of a kind."""
        return self.classes or (
            RequestKind(
                "", self.rate, self.input_tokens, self.output_tokens, self.slo, self.prefix_cache, self.prefix_kv
            ),
        )


def refuse_rows(rows: int) -> None:
    """Refuse a number of rows that no page holds."""
    if not 1 <= rows <= MOST_ROWS:
        raise UsageError("the number of rows is out of range", found=rows, expected=f"from 1 to {MOST_ROWS}")
