"""One model explained: its parts, what a token costs in it, and what makes it special."""

from __future__ import annotations

from gpufleet.results.base import SCHEMA_VERSION, Result


class ModelPart(Result):
    """Parameters of one part, and their bytes in the checkpoint's own formats."""

    part: str
    num_parameters: int
    share_ratio: float
    checkpoint_bytes: float
    precision: str


class ModelLayers(Result):
    """Layers that are alike; `kv_bytes_per_token` in bf16, `state_bytes` of one sequence whatever its length."""

    count: int
    mixer: str
    feed_forward: str
    kv_bytes_per_token: float
    state_bytes: float


class ModelContext(Result):
    """What one sequence of a length holds and takes: cache in bf16, FLOP to read it and to add one token."""

    context_tokens: int
    kv_bytes: float
    prefill_flop: float
    decode_flop: float


class ModelVision(Result):
    """The vision tower, and what an image of 1,024 x 1,024 pixels becomes."""

    num_parameters: int
    image_tokens: float
    image_flop: float


class ModelExplained(Result):
    """A model as counted; every figure follows from its config alone."""

    schema_version: str = SCHEMA_VERSION
    name: str
    family: str
    num_parameters: int
    num_active_parameters: int
    checkpoint_bytes: float
    weight_format: str
    max_context_tokens: int
    special: list[str]
    parts: list[ModelPart]
    layers: list[ModelLayers]
    contexts: list[ModelContext]
    vision: ModelVision | None
    notes: list[str]
