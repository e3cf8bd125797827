"""Copies of one pool, as somebody asks for them."""

from __future__ import annotations

from typing import NamedTuple


class PoolRequest(NamedTuple):
    """Copies of a model, each on `number` GPUs; parts of the layout that nobody stated are None.

    Each copy is started for `max_batch` sequences and `max_step_tokens`, by its engine's defaults where those are None.
    """

    copies: int
    name: str
    number: int
    tp: int | None = None
    pp: int | None = None
    ep: int | None = None
    attention_dp: int | None = None
    max_batch: int | None = None
    max_step_tokens: int | None = None
