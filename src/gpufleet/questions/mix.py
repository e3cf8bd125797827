"""The words of a mix of machine types: what it is held to beside the objectives of its services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpufleet.errors import UsageError
from gpufleet.questions.words import (
    BESIDE,
    RENTED,
    SHARE,
    SLACK,
    USD_AT_ALL,
    Kind,
    Request,
    flag,
    names,
    optional,
    text,
    usual,
)
from gpufleet.records import dataclass
from gpufleet.units import HOUR, Bounds, parse_duration, parse_ratio

LONGEST_LIMIT_S = HOUR
COST, GPUS = "cost", "gpus"
PROMPT, BOTH = "prompt", "both"
QUOTA_EXPECTED = "GPU=N, CLOUD:GPU=N or CLOUD:REGION:GPU=N, such as aws:us-east-1:H100=16"
SHARES_EXPECTED = "CLOUD=SHARE, such as aws=60%,gcp=30%,azure=10%, 100% together"


class SaidQuota(NamedTuple):
    """So many GPUs at most, of a cloud and a region where they are said."""

    gpu: str
    most_gpus: int
    cloud: str | None = None
    region: str | None = None


def time_to_search(said: str, _: str) -> float:
    """A time, 0 too: then what is found at once is the answer.

    >>> time_to_search("0", ""), time_to_search("1min", "")
    (0.0, 60.0)
    """
    return 0.0 if said.strip() == "0" else parse_duration(said, "'10s', or 0 for what is found at once")


def parse_quota(said: str) -> SaidQuota:
    """A quota of GPUs.

    >>> parse_quota("aws:us-east-1:H100=16")
    SaidQuota(gpu='H100', most_gpus=16, cloud='aws', region='us-east-1')
    """
    where, _, number = said.rpartition("=")
    parts = [part.strip() for part in where.split(":")]
    if not all(parts) or len(parts) > 3 or not number.strip().isdecimal():
        raise UsageError("a quota cannot be read", found=said, expected=QUOTA_EXPECTED)
    place: list[str | None] = [*parts[:-1], None, None]
    return SaidQuota(parts[-1], int(number), place[0], place[1])


def parse_shares(said: Sequence[str]) -> list[tuple[str, float]]:
    """Shares of clouds, which are all of them together.

    >>> parse_shares(["aws=60%", "gcp=0.4"])
    [('aws', 0.6), ('gcp', 0.4)]
    """
    pairs = [share.partition("=") for share in said]
    if not all(cloud.strip() and share.strip() for cloud, _, share in pairs):
        raise UsageError("shares of clouds cannot be read", found=",".join(said), expected=SHARES_EXPECTED)
    shares = [(cloud.strip(), parse_ratio(share.strip())) for cloud, _, share in pairs]
    total = sum(share for _, share in shares)
    if abs(total - 1) > 1e-6 or len({cloud for cloud, _ in shares}) < len(shares):
        found = f"{','.join(said)}: {total:.4%} together".replace(".0000%", "%")
        raise UsageError("shares of clouds are not 100% together", found=found, expected=SHARES_EXPECTED)
    return shares


SEARCH_TIME = Kind("TIME", time_to_search, unit="s")


@dataclass(frozen=True, kw_only=True)
class QuotaRequest(Request):
    """How many GPUs may be had at most, of all clouds, of one, or of one region."""

    quotas: Sequence[str] | None = optional(
        names("GPU=N,..."), "At most N GPUs: H100=16, aws:H100=8, aws:us-east-1:H100=8.", RENTED, name="quota",
        label="quotas", shown=", ".join,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MixRequest(QuotaRequest):
    """What a mix is held to: quotas, shares of clouds, what may be lost, and how long it is searched.

    Budget, spot share, spare machines, zones and today's machines are said as in a plan of a service, and hold for all
    services together.
    """

    shares: Sequence[str] | None = optional(
        names("CLOUD=SHARE,..."), "What each cloud has of it: aws=60%,gcp=30%,azure=10%.", RENTED,
        label="shares of clouds", shown=", ".join,
    )  # fmt: skip
    share_of: str = usual(
        COST, text("cost|gpus"), "Shares are of the cost (default) or of the GPUs.", RENTED, label="shares of"
    )
    tolerance: float | None = optional(
        SHARE, "How far a cloud may be off its share; default: one machine.", RENTED, what="the tolerance",
        bounds=Bounds(0, 1, ""), label="tolerance", shown="{:.3g} of the whole".format,
    )  # fmt: skip
    survive_region: bool = flag("Keep every objective even if any one region is lost.", SLACK)
    route_by: str = usual(
        PROMPT, text("prompt|both"), "A router knows the prompt (default), or foretells the answer too.", BESIDE,
        label="routed by",
    )  # fmt: skip
    leaving_usd: float | None = optional(
        USD_AT_ALL, "What giving up one machine of --today costs once; spread over a month.", RENTED, name="leaving",
        what="the cost of leaving", bounds=Bounds(0, 1e9, "USD"), label="leaving a machine", shown="${:,.2f}".format,
    )  # fmt: skip
    time_limit_s: float | None = optional(
        SEARCH_TIME, "Search for so long at most; default: as many steps of the solver on any machine.", BESIDE,
        name="time_limit", what="the time limit", bounds=Bounds(0, LONGEST_LIMIT_S, "s"), label="time limit",
        shown="{:g} s".format,
    )  # fmt: skip

    def __post_init__(self) -> None:
        for said, known, what in (
            (self.share_of, (COST, GPUS), "--share-of"),
            (self.route_by, (PROMPT, BOTH), "--route-by"),
        ):
            if said not in known:
                raise UsageError(f"{what} is not understood", found=said, expected=" or ".join(known))
