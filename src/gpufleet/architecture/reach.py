"""How far each layer sees: the whole context, a sliding window, or its own chunk."""

from __future__ import annotations

import math
from collections.abc import Callable

from gpufleet.architecture.config_fields import ConfigFields
from gpufleet.errors import UsageError
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Reach:
    """Tokens that a layer attends to; `chunked` when they are those of its own chunk only."""

    tokens: float = math.inf
    chunked: bool = False


EVERYTHING = Reach()


def sliding(fields: ConfigFields, default: int | None = None) -> Reach:
    """The config's sliding window; everything where it is null."""
    if "sliding_window" not in fields.values:
        return EVERYTHING if default is None else Reach(default)
    window = fields.optional_count("sliding_window")
    return EVERYTHING if window is None else Reach(window)


def chunked(fields: ConfigFields) -> Reach:
    """The config's attention chunk; everything where it is null (class default 8192)."""
    if "attention_chunk_size" in fields.values and fields.optional_count("attention_chunk_size") is None:
        return EVERYTHING
    return Reach(fields.count("attention_chunk_size", default=8192), chunked=True)


def layer_reaches(fields: ConfigFields, num_layers: int, local: Reach, is_local: Callable[[int], bool]) -> list[Reach]:
    """Reach of every layer, from `layer_types` where the config lists them, else from the family's rule."""
    kinds = fields.items("layer_types", num_layers)
    if kinds is None:
        return [local if is_local(layer) else EVERYTHING for layer in range(num_layers)]
    return [_named_reach(fields, kind, local) for kind in kinds]


def _named_reach(fields: ConfigFields, kind: object, local: Reach) -> Reach:
    reach = {"full_attention": EVERYTHING, "sliding_attention": local, "chunked_attention": local}.get(str(kind))
    if reach is None:
        expected = "full_attention, sliding_attention or chunked_attention"
        raise UsageError(f"{fields.name}: a kind of layer that is not planned yet", found=kind, expected=expected)
    return reach
