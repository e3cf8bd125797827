"""The words of laws of scaling: whose machine, under which rates, held to what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from gpufleet.questions.fields import NamedPath
from gpufleet.questions.words import (
    BESIDE,
    EDITED,
    INTEGER,
    LOAD,
    RATE_TEXT,
    REPLICAS,
    SHARE,
    Kind,
    Request,
    Word,
    file,
    flag,
    flag_of,
    optional,
    plain,
    said_by,
    text,
    time_like,
    usual,
)
from gpufleet.records import dataclass
from gpufleet.units import Bounds

if TYPE_CHECKING:
    from gpufleet.domain.rate_curve import RateCurve
    from gpufleet.results.fleet import FleetPlan
    from gpufleet.results.plan import ServePlan

DEFAULT_TARGET = 0.95
MACHINES = Bounds(0, 100_000, "")


def policies_named(names: str) -> Sequence[str]:
    """Names of laws, with commas between.

    >>> policies_named("static, hpa,")
    ['static', 'hpa']
    """
    return [name.strip() for name in names.split(",") if name.strip()]


RATES = Word(
    file(), "Rates over time (t_s, rate_rps; timestamp, value), or requests.", LOAD, name="trace", is_needed=True
)


@dataclass(frozen=True, kw_only=True)
class AutoscaleRequest(Request):
    """Laws of scaling on the machine of a plan, under `rates`: a curve, or a file of rates or of requests.

    `mean_rate` scales the curve, `rates_model` says whose rows of a file it is. Without `policies` all laws are played,
    with the settings of their documents and with those that the first days find, but our own, which learns as it goes;
    `documented` searches none. `verify` replays the worst day of the recommended one, or its worst hours. Without
    `cold_start_s` the start is estimated for the plan's machine. At most `max_machines`, beside those that
    drain: twice what the peak needs and two at least, unless said.
    """

    plan: str | NamedPath | ServePlan | FleetPlan = field(kw_only=False)
    rates: str | NamedPath | RateCurve = field(metadata=said_by(RATES))
    policies: Sequence[str] | None = optional(
        Kind("NAME,...", plain(policies_named)), "Only these laws; default: all.", BESIDE, name="policy",
        singular="--policies",
    )  # fmt: skip
    target: float = usual(
        DEFAULT_TARGET, SHARE, f"Share of requests in time on every day; default {DEFAULT_TARGET:.0%}.", BESIDE
    )
    cold_start_s: float | None = optional(
        time_like("'300s' or '5min'"), "From the order of a machine to its first answer: 300s.", REPLICAS,
        name="cold_start",
    )  # fmt: skip
    min_machines: int = usual(
        0, INTEGER, "At least N machines at any time; default 0.", REPLICAS, name="min",
        what="the least number of machines", bounds=MACHINES,
    )  # fmt: skip
    max_machines: int | None = optional(
        INTEGER, "At most N machines beside those that drain; default: twice what the peak needs, 2 at least.",
        REPLICAS, name="max",
        what="the most machines", bounds=MACHINES,
    )  # fmt: skip
    mean_rate: float | None = optional(RATE_TEXT, "Scale the curve to this mean rate: 50/s.", LOAD)
    rates_model: str | None = optional(
        text("NAME"), "Whose rows of the trace, where it has several models.", LOAD, name="model"
    )
    edited: bool = flag_of(EDITED)
    documented: bool = flag("Play laws as documented alone: no settings are searched.", BESIDE)
    verify: bool = flag("Replay the worst day, or its worst hours, of the law to take, request by request.", BESIDE)
    seed: int = usual(0, INTEGER, "Of the requests drawn from the curve; default 0.", BESIDE)
