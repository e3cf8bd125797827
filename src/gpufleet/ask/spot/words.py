"""A job with a deadline on spot machines, or a service, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

from gpufleet.domain.interruption import USUAL_SEED, USUAL_ZONES, Spread
from gpufleet.errors import UsageError
from gpufleet.questions.fields import NamedPath
from gpufleet.questions.words import (
    BESIDE,
    EDITED,
    INTEGER,
    LOAD,
    PERIOD,
    RENTED,
    SHARE,
    SLACK,
    USD_PER_TIME,
    WHOLE,
    Kind,
    Request,
    file,
    flag_of,
    names,
    optional,
    usual,
)
from gpufleet.records import dataclass
from gpufleet.units import HOUR, Bounds, parse_duration

DEFAULT_DRAWS, MOST_DRAWS, MOST_ZONES, MOST_MACHINES = 200, 5000, 50, 10_000
DEFAULT_TARGET = 0.99
LONGEST_S = 366 * 24 * HOUR
TO = "-"


def spread_of_time(said: str, what: str) -> Spread:
    """A time, or its 10th and 90th percentile with a dash between.

    >>> spread_of_time("10min", ""), spread_of_time("40h-60h", "")
    (Spread(low=600.0, expected=600.0, high=600.0), Spread(low=144000.0, expected=180000.0, high=216000.0))
    """
    ends = [parse_duration(end, "'48h', or '40h-60h'") for end in said.split(TO)]
    if len(ends) > 2 or ends[0] > ends[-1]:
        raise UsageError(f"{what or 'a time'} cannot be read", found=said, expected="'48h', or '40h-60h'")
    return Spread(ends[0], (ends[0] + ends[-1]) / 2, ends[-1])


SPREAD = Kind("TIME[-TIME]", spread_of_time, unit="s")


@dataclass(frozen=True, kw_only=True)
class SpotRequest(Request):
    """A job and its deadline: the file of a plan of training or of a batch job, or the time that it takes.

    Or a service: the file of its plan, and the `target` share of time in which all its machines are ready.
    `work_s` and `restart_s` may be ranges. Machines are `machine` ('aws:p3.2xlarge'), so many of them at once; without
    prices of the tables `spot_price` and `on_demand_price` say them. A `trace` is availability of one's own.
    """

    job: str | NamedPath | None = field(default=None, kw_only=False)
    deadline_s: float | None = optional(
        PERIOD, "Done within 72h, 3d, 1week of the start.", LOAD, name="deadline", what="the deadline", label="deadline"
    )
    work_s: Spread | None = optional(
        SPREAD,
        "The job takes this long without a stop: 48h, 40h-60h.",
        LOAD,
        name="work",
        what="the work",
        label="work",
    )
    target: float | None = optional(
        SHARE, "All machines of a service are ready for this much of the time; default 99%.", LOAD,
        what="the target", bounds=Bounds(0, 1, ""), label="target",
    )  # fmt: skip
    machine: Sequence[str] | None = optional(
        names("CLOUD:TYPE,..."), "On one of these machine types: aws:p3.2xlarge.", RENTED, label="machine"
    )
    machines: int = usual(
        1, WHOLE, "On so many machines at once; default 1.", RENTED, what="the number of machines",
        bounds=Bounds(1, MOST_MACHINES, ""), label="machines",
    )  # fmt: skip
    regions: Sequence[str] | None = optional(names("NAME,..."), "Only in these regions.", RENTED, singular="--region")
    zones: int = usual(
        USUAL_ZONES, WHOLE, f"Zones that the job may move between; default {USUAL_ZONES}.", RENTED,
        what="the number of zones", bounds=Bounds(1, MOST_ZONES, ""), label="zones",
    )  # fmt: skip
    spot_price: float | None = optional(
        USD_PER_TIME, "Price of one machine on spot, in place of the tables'.", RENTED, what="the price of spot"
    )
    on_demand_price: float | None = optional(
        USD_PER_TIME, "Price of one machine on demand, in place of the tables'.", RENTED,
        what="the price of on demand",
    )  # fmt: skip
    restart_s: Spread | None = optional(
        SPREAD, "From the order of a machine until it works: 12min, 5min-20min.", SLACK, name="restart",
        what="the restart", label="restart",
    )  # fmt: skip
    checkpoint_write_s: float | None = optional(
        PERIOD, "The job stops so long to write a checkpoint: 1min.", SLACK, name="checkpoint_write",
        what="the write of a checkpoint", label="checkpoint write",
    )  # fmt: skip
    checkpoint_every_s: float | None = optional(
        PERIOD, "Work between two checkpoints; default: what loses least (Young, Daly).", SLACK,
        name="checkpoint_every", what="the time between checkpoints", label="checkpoint every",
    )  # fmt: skip
    reserve_s: float | None = optional(
        PERIOD, "Keep so much time for on demand to be had, should it be refused at first.", SLACK, name="reserve",
        what="the reserve", label="reserve",
    )  # fmt: skip
    trace: str | NamedPath | None = optional(
        file(), "Availability that you saw, by zone (JSON or CSV), in place of what is drawn.", LOAD
    )
    fleet: str | NamedPath | None = optional(
        file("fleet.yaml"), "What of today's fleet could move to spot: rows of machines and what they run.", BESIDE
    )
    availability: float | None = optional(
        SHARE, "Share of time in which a zone has the machines, with --mean-up.", LOAD,
        what="the availability", bounds=Bounds(0, 1, ""), label="availability",
    )  # fmt: skip
    mean_up_s: float | None = optional(
        PERIOD, "How long a zone keeps the machines on average, with --availability.", LOAD, name="mean_up",
        what="the mean time up", label="mean time up",
    )  # fmt: skip
    edited: bool = flag_of(EDITED)
    draws: int = usual(
        DEFAULT_DRAWS, WHOLE, f"Markets that are drawn; default {DEFAULT_DRAWS}.", BESIDE, what="the number of draws",
        bounds=Bounds(20, MOST_DRAWS, ""), label="draws",
    )  # fmt: skip
    seed: int = usual(
        USUAL_SEED, INTEGER, "Of all that is drawn: the same seed, the same answer; default 0.", BESIDE,
        what="the seed", bounds=Bounds(0, math.inf, "a whole number"), label="seed",
    )  # fmt: skip
