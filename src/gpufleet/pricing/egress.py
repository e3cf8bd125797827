"""Bytes that leave a region: answers to users, and copies of weights to another region. What comes in is free."""

from __future__ import annotations

from gpufleet.domain.egress import EgressPrice
from gpufleet.domain.interruption import Spread
from gpufleet.provenance import Sourced
from gpufleet.units import GB, HOUR, HOURS_PER_MONTH, MEGA


def egress_usd_per_month(gb_per_month: float, price: EgressPrice | None) -> float | None:
    """USD for a month's GB over the tiers; None where no price is known for so many.

    c = sum over tiers of price x (min(v, end) - start)   [USD/month]
    Above the last published tier its price goes on, which is the most it can be, as tiers fall; after a free one the
    price is not known.

    >>> from datetime import date
    >>> from gpufleet.domain.egress import EgressTier
    >>> tiers = (EgressTier(0, 100, 0.0), EgressTier(100, 10240, 0.09))
    >>> price = EgressPrice("aws", "us-east-1", "", tiers, "egress-articles-2026", date(2026, 6, 1))
    >>> egress_usd_per_month(1100.0, price)
    90.0
    """
    if price is None or not price.tiers:
        return None
    beyond_gb, last = max(gb_per_month - price.known_to_gb, 0.0), price.tiers[-1]
    if beyond_gb > 0 and last.usd_per_gb == 0:
        return None
    within = (max(min(gb_per_month, tier.to_gb) - tier.from_gb, 0.0) * tier.usd_per_gb for tier in price.tiers)
    return sum(within) + beyond_gb * last.usd_per_gb


def is_at_most(gb_per_month: float, price: EgressPrice) -> bool:
    """Whether so many GB go beyond the published tiers, and the price of a month is the most that it can be."""
    return gb_per_month > price.known_to_gb


def answers_gb_per_month(requests_per_s: float, answer_tokens: float, bytes_per_token: float) -> float:
    """GB of answers that a service sends in a month.

    v = rate x tokens x bytes per token x 3600 x 730 / 1e9   [GB/month]

    Ten requests a second of 200 tokens, streamed with 250 bytes for each:

    >>> round(answers_gb_per_month(10.0, 200.0, 250.0))
    1314
    """
    return requests_per_s * answer_tokens * bytes_per_token * HOUR * HOURS_PER_MONTH / GB


def answers_usd_per_month(
    requests_per_s: float, answer_tokens: float, bytes_per_token: Sourced, price: EgressPrice | None
) -> Spread | None:
    """USD a month for the answers of a service, over the range of bytes a token; None where an end has no price."""
    value = bytes_per_token.value
    ends = (bytes_per_token.low or value, value, bytes_per_token.high or value)
    low, expected, high = (
        egress_usd_per_month(answers_gb_per_month(requests_per_s, answer_tokens, each), price) for each in ends
    )
    if low is None or expected is None or high is None:
        return None
    return Spread(low, expected, high)


def answers_usd_per_million_tokens(bytes_per_token: float, usd_per_gb: float) -> float:
    """USD for a million tokens of answers that leave, at a price per GB.

    >>> answers_usd_per_million_tokens(250.0, 0.09)
    0.0225
    """
    return bytes_per_token * MEGA / GB * usd_per_gb


def copy_usd(weights_bytes: float, price: EgressPrice | None) -> float | None:
    """USD for one copy of weights to another region; None where no price is known.

    >>> from datetime import date
    >>> from gpufleet.domain.egress import EgressTier
    >>> across = EgressPrice("aws", "us-east-1", "eu-west-1", (EgressTier(0, 1e9, 0.02),), "s", date(2023, 1, 1))
    >>> round(copy_usd(141e9, across), 2)
    2.82
    """
    return egress_usd_per_month(weights_bytes / GB, price)
