"""Cost of one unit of work."""

from __future__ import annotations

from gpufleet.domain.arrays import Floats
from gpufleet.units import HOUR, MEGA


def usd_per_million_tokens(usd_per_hour: Floats, tokens_per_s: Floats) -> Floats:
    """USD for a million tokens at a sustained rate.

    c = p / (tokens_per_s x 3600) x 1e6   [USD per 1e6 tokens]

    >>> round(usd_per_million_tokens(36.0, 1000.0), 6)
    10.0
    """
    return usd_per_hour / (tokens_per_s * HOUR) * MEGA


def usd_per_request(usd_per_hour: Floats, requests_per_s: Floats) -> Floats:
    """USD for one request at a sustained rate.

    >>> usd_per_request(3600.0, 1.0)
    1.0
    """
    return usd_per_hour / (requests_per_s * HOUR)
