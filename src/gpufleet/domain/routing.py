"""How a router deals requests out among replicas."""

from __future__ import annotations

ROUTINGS = (
    "least_requests",
    "round_robin",
    "random",
    "least_tokens",
    "least_kv",
    "two_choices",
    "prefix_aware",
)
"""By name; `simulate.routing` says what each does. The first is what is meant where none is named."""
