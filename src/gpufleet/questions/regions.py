"""The words of a choice of regions: where users are, where their requests may go, and what the grid may emit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from gpufleet.errors import UsageError
from gpufleet.questions.fields import JobRequest, MarketRequest, NamedPath
from gpufleet.questions.mix import MixRequest, QuotaRequest
from gpufleet.questions.words import (
    BESIDE,
    LOAD,
    NUMBER,
    RENTED,
    WHOLE,
    Kind,
    Request,
    as_in,
    flag,
    names,
    optional,
    plain,
    text,
)
from gpufleet.records import dataclass
from gpufleet.units import GB, Bounds, parse_bytes, parse_ratio

if TYPE_CHECKING:
    from gpufleet.results.job import JobPlan

USERS_EXPECTED = "PLACE=SHARE, such as eu=60%,us-east-1=40% or Berlin=1, 100% together"
USER = re.compile(r"\s*([^=]+?)\s*=\s*([0-9.]+\s*%?)\s*(?:,|$)")
MOST_USERS = 20


def size_words(size_bytes: float) -> str:
    """A size as a cloud bills it.

    >>> size_words(2e12)
    '2,000 GB'
    """
    return f"{size_bytes / GB:,.10g} GB"


def parse_users(said: Sequence[str]) -> list[tuple[str, float]]:
    """Places of users with their shares of all requests; one place alone needs none.

    >>> parse_users(["eu=60%", "us=40%"]), parse_users(["germany"])
    ([('eu', 0.6), ('us', 0.4)], [('germany', 1.0)])
    """
    whole = ",".join(said)
    if "=" not in whole:
        return [(whole.strip(), 1.0)]
    if USER.sub("", whole).strip():
        raise UsageError("places of users cannot be read", found=whole, expected=USERS_EXPECTED)
    pairs = [(place.strip(), parse_ratio(share)) for place, share in USER.findall(whole)]
    if len(pairs) > MOST_USERS:
        raise UsageError("too many places of users", found=len(pairs), expected=f"at most {MOST_USERS}")
    nobody = [place for place, share in pairs if share <= 0]
    if nobody:
        raise UsageError("users of a place are none of them", found=f"{nobody[0]}=0", expected="a share above 0")
    total = sum(share for _, share in pairs)
    if abs(total - 1) > 1e-6:
        raise UsageError(
            "shares of users do not add up to all of them", found=f"{total:.4g} together", expected=USERS_EXPECTED
        )
    return pairs


@dataclass(frozen=True, kw_only=True)
class PlaceRequest(Request):
    """Where things may stand: areas to stay in, and what the grid may emit."""

    stay: Sequence[str] | None = optional(
        names("AREA,..."), "Requests of users in these areas are served there, a job runs there: eu, germany.", RENTED,
        label="stay where they are", shown=", ".join,
    )  # fmt: skip
    max_grid: float | None = optional(
        NUMBER, "Only regions whose grid emits at most so many g CO2e per kWh.", RENTED, what="the most of a grid",
        bounds=Bounds(0, 2000, "g/kWh"), label="most of a grid", shown="{:g} g CO2e/kWh".format,
    )  # fmt: skip
    carbon_budget: float | None = optional(
        NUMBER, "Emit at most so many kg CO2e an hour, a job in all, at the high end.", RENTED,
        what="the carbon budget", bounds=Bounds(0, 1e6, "kg"), label="carbon budget",
        shown="{:g} kg CO2e".format,
    )  # fmt: skip
    year: int | None = optional(
        WHOLE, "Carbon of the grid in this year; default: the newest known.", RENTED, what="the year",
        bounds=Bounds(2015, 2100, ""), label="year of the grid",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RegionRequest(MixRequest, PlaceRequest):
    """Where services run: what `MixRequest` says, users by place, and the carbon of the grid.

    Objectives hold at the users, the network included. Requests of users in one of the areas `stay` are served there.
    """

    users: Sequence[str] | None = optional(
        names("PLACE=SHARE,..."), "Where users are: eu=60%,us-east-1=40%, Berlin=1; limits hold there.", LOAD,
        label="users", shown=", ".join,
    )  # fmt: skip
    follow_the_sun: bool = flag("Also rent by the hour where users are awake, beside machines for every peak.", BESIDE)


@dataclass(frozen=True, kw_only=True)
class JobRegionRequest(MarketRequest, QuotaRequest, PlaceRequest):
    """Where a job runs: the file of a plan of training or of a batch job, or that plan itself.

    The job reads `data_bytes` beside its weights, which lie in `data_in` and are copied to where it runs. `stay` holds
    the job; `carbon_budget` and `budget_usd` are for all of it.
    """

    job: str | NamedPath | JobPlan = field(kw_only=False)
    data_bytes: float | None = optional(
        Kind("SIZE", plain(parse_bytes), unit="B"),
        "A job reads so much data: 2TB; default: its tokens as text.", RENTED,
        name="data", what="the data", bounds=Bounds(0, 1e18, "bytes"), label="data", shown=size_words,
    )  # fmt: skip
    data_in: str | None = optional(
        text("REGION"), "A job's weights and data lie there (aws:us-east-1): what a copy costs is counted.", RENTED,
        label="weights and data in",
    )  # fmt: skip
    budget_usd: float | None = as_in(
        JobRequest,
        "budget",
        says="The most to spend on the whole job.",
        what="the budget",
        bounds=Bounds(0, 1e12, "USD"),
    )
