"""How a replica lies on its GPUs, as users get it."""

from __future__ import annotations

from gpufleet.domain.layout import Layout
from gpufleet.results.base import Ranks


def ranks_of(layout: Layout) -> Ranks:
    """The ranks of a layout."""
    return Ranks(tp=layout.tp, pp=layout.pp, ep=layout.ep, attention_dp=layout.attention_dp)
