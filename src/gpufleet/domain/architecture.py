"""The shape of a model: blocks of identical layers, each a token mixer and a feed-forward part."""

from __future__ import annotations

import math
from dataclasses import field
from enum import Enum
from typing import TypeAlias

from gpufleet.domain.dimensions import MAX_LAYERS, require_positive
from gpufleet.domain.images import PromptImages
from gpufleet.domain.mixers import (
    CompressedAttention,
    GatedDeltaNet,
    NoFeedForward,
    NoMixer,
    StateSpace,
    TokenIndex,
)
from gpufleet.domain.precision import BF16, WeightFormat
from gpufleet.records import dataclass


class QueryKeyNorm(Enum):
    """Whether queries and keys are normalised before attention: not at all, head by head, or over all heads at once.

    A norm over all heads makes tensor-parallel ranks exchange its sum of squares.
    """

    NONE = "none"
    PER_HEAD = "per head"
    ALL_HEADS = "all heads"


@dataclass(frozen=True)
class Attention:
    """Softmax attention over heads that share KV heads (MHA, GQA, MQA), over the whole context or a window.

    `chunked`: the context is cut into chunks of `window_tokens` that do not see each other (Llama 4).
    `vector_params` counts biases, q/k norms and sinks: everything that is not one of the four projections.
    `value_head_dim` where values are narrower than keys (MiMo-V2); `gate_width` outputs of a gate on the attention
    (Qwen3.5: one per element, Step-3: one per head); `keys_are_values`: one projection serves both (Gemma 4).
    `kept_tokens` bounds what a query reads of its reach, as `index` chose it, or the index of a layer below.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    window_tokens: float = math.inf
    vector_params: int = 0
    chunked: bool = False
    query_key_norm: QueryKeyNorm = QueryKeyNorm.NONE
    value_head_dim: int | None = None
    gate_width: int = 0
    keys_are_values: bool = False
    kept_tokens: float = math.inf
    index: TokenIndex | None = None

    def __post_init__(self) -> None:
        require_positive("attention", num_heads=self.num_heads, num_kv_heads=self.num_kv_heads, head_dim=self.head_dim)
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"attention: {self.num_heads} heads cannot share {self.num_kv_heads} KV heads evenly")
        if not self.window_tokens > 0:
            raise ValueError(f"attention: window_tokens must be positive, found {self.window_tokens!r}")

    @property
    def value_dim(self) -> int:
        """Elements of one head's value."""
        return self.value_head_dim or self.head_dim

    @property
    def chooses_tokens(self) -> bool:
        """Whether an index of its own chooses what it reads."""
        return self.index is not None and math.isfinite(self.kept_tokens)


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek MLA): the cache holds one compressed vector per token and layer.

    `kept_tokens` and `index` as of `Attention` (DeepSeek-V3.2, GLM-5); `gate_width` outputs of a gate on it (Kimi K3).
    """

    num_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    vector_params: int = 0
    kept_tokens: float = math.inf
    index: TokenIndex | None = None
    gate_width: int = 0

    def __post_init__(self) -> None:
        require_positive(
            "latent attention",
            num_heads=self.num_heads,
            q_lora_rank=1 if self.q_lora_rank is None else self.q_lora_rank,
            kv_lora_rank=self.kv_lora_rank,
            qk_nope_head_dim=self.qk_nope_head_dim,
            qk_rope_head_dim=self.qk_rope_head_dim,
            v_head_dim=self.v_head_dim,
        )


@dataclass(frozen=True)
class DenseMlp:
    """A feed-forward part: up and down projection, and a gate projection when `gated`."""

    width: int
    gated: bool
    vector_params: int = 0

    def __post_init__(self) -> None:
        require_positive("mlp", width=self.width)


@dataclass(frozen=True)
class MixtureOfExperts:
    """Routed experts of which `top_k` serve a token, and shared ones that serve every token.

    `expert_vector_params` are the biases of one routed expert; `vector_params` router bias and shared-expert gate.
    `latent_width` where experts work on a projection of the hidden state (Nemotron-3 Super, Kimi K3).
    `routes_in_fp32`: engines that can keep the router's product in fp32.
    """

    num_experts: int
    top_k: int
    expert_width: int
    gated: bool
    shared_width: int = 0
    expert_vector_params: int = 0
    vector_params: int = 0
    latent_width: int | None = None
    routes_in_fp32: bool = False

    def __post_init__(self) -> None:
        require_positive("experts", num_experts=self.num_experts, top_k=self.top_k, expert_width=self.expert_width)
        if self.top_k > self.num_experts:
            raise ValueError(f"experts: top_k {self.top_k} exceeds {self.num_experts} experts")


Mixer: TypeAlias = Attention | LatentAttention | CompressedAttention | GatedDeltaNet | StateSpace | NoMixer
FeedForward: TypeAlias = DenseMlp | MixtureOfExperts | NoFeedForward


@dataclass(frozen=True)
class Block:
    """`count` identical layers; `vector_params` are the layer norms of one of them.

    `summed_together`: attention and MLP read the same input and are added before ranks reduce them, once a layer.
    """

    count: int
    mixer: Mixer
    feed_forward: FeedForward
    vector_params: int = 0
    summed_together: bool = False

    def __post_init__(self) -> None:
        require_positive("block", count=self.count)


@dataclass(frozen=True)
class VisionTower:
    """The encoder that turns patches of an image into tokens of the language model.

    `params` counts everything of it, projector included; its matrices that every patch passes are
    `params_per_patch`, those that every image token passes `params_per_token`. `patches_per_token` are merged.
    `width` is that of its MLPs, `patch_elements` the pixel values of a patch over its frames and colours,
    `largest_image_tokens` what its processor makes of the largest image by default; 0 where that is not known.
    An image is scaled to `image_size` pixels on each side, or on its longer one where it `keeps_shape`; 0: no size
    is its own. `closes_rows`: a token more for each row.
    An image is cut into at most `most_tiles` squares of `image_size`, and shown whole once more; 0: it is not cut.
    In `num_windowed_layers` patches see `window_patches` of them.
    `is_cross_attended`: some layers of the language model read the image beside the prompt, which does not hold it.
    """

    num_layers: int
    hidden_size: int
    patch_size: int
    patches_per_token: int
    params: int
    params_per_patch: int
    params_per_token: int
    width: int = 0
    patch_elements: int = 0
    largest_image_tokens: int = 0
    image_size: int = 0
    keeps_shape: bool = True
    closes_rows: bool = False
    most_tiles: int = 0
    num_windowed_layers: int = 0
    window_patches: int = 0
    is_cross_attended: bool = False

    def __post_init__(self) -> None:
        require_positive(
            "vision tower",
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            patch_size=self.patch_size,
            patches_per_token=self.patches_per_token,
        )
        if self.params < 1:
            raise ValueError(f"vision tower: params must be positive, found {self.params!r}")


@dataclass(frozen=True)
class Draft:
    """What proposes tokens that a model then verifies, several in one step.

    `model` proposes one token in each of its passes; None where text that was there before is looked up. Where it
    `shares_vocabulary` the model lends it embedding and head, and where it `shares_format` it is kept in the format of
    the model's weights, else in its own.
    """

    method: str
    model: Architecture | None = None
    shares_vocabulary: bool = False
    shares_format: bool = False


@dataclass(frozen=True)
class Architecture:
    """A decoder language model.

    `embedding_params` holds what comes with the token embedding (learned positions, embedding norm);
    `vector_params` the final norm and a head bias. `embedding_width` is the width of one token's embedding where it
    differs from the hidden size (OPT-350M). `residual_streams` copies of the hidden state run beside each other
    (hyper-connections of DeepSeek-V4). `is_assumed` marks a family that is only read by its usual fields. `notes` say
    what was left out or assumed; `images` are those of a question's prompts, `max_model_len` the tokens of the longest
    request for which its engine is started (None: for what is asked). `num_predictors` are modules of the checkpoint
    that predict tokens beyond the next, `draft` what an engine drafts with. The order of blocks is not kept: layers are
    interchangeable for counting.
    """

    name: str
    family: str
    hidden_size: int
    vocab_size: int
    blocks: tuple[Block, ...]
    tied_embeddings: bool
    max_context_tokens: int
    embedding_params: int = 0
    vector_params: int = 0
    weights: WeightFormat = field(default_factory=lambda: WeightFormat.uniform(BF16))
    embedding_width: int | None = None
    notes: tuple[str, ...] = ()
    vision: VisionTower | None = None
    images: PromptImages | None = None
    max_model_len: int | None = None
    residual_streams: int = 1
    is_assumed: bool = False
    num_predictors: int = 0
    draft: Draft | None = None

    def __post_init__(self) -> None:
        require_positive(
            "architecture",
            hidden_size=self.hidden_size,
            vocab_size=self.vocab_size,
            max_context_tokens=self.max_context_tokens,
        )
        if not self.blocks:
            raise ValueError("architecture: a model needs at least one layer")
        if self.num_layers > MAX_LAYERS:
            raise ValueError(f"architecture: {self.num_layers} layers is more than {MAX_LAYERS}")

    @property
    def taken_tokens(self) -> int:
        """Tokens of the longest request that is taken: of the context, or what the engine is started for."""
        return self.max_context_tokens if self.max_model_len is None else self.max_model_len

    @property
    def num_layers(self) -> int:
        """Layers of all blocks."""
        return sum(block.count for block in self.blocks)

    @property
    def num_reductions(self) -> int:
        """Sums over the ranks of tensor parallelism in one step: after attention and after the MLP, or of both once."""
        return sum(block.count * (1 if block.summed_together else 2) for block in self.blocks)

    @property
    def is_moe(self) -> bool:
        """Whether any layer routes tokens to experts."""
        return any(isinstance(block.feed_forward, MixtureOfExperts) for block in self.blocks)

    @property
    def is_usual(self) -> bool:
        """Whether every layer is attention of keys and values, and a dense feed-forward part."""
        return not self.is_moe and all(isinstance(block.mixer, Attention) for block in self.blocks)

    @property
    def num_heads(self) -> int:
        """Query heads of the widest layer: what tensor parallelism divides."""
        return max(block.mixer.num_heads for block in self.blocks)

    @property
    def num_kv_heads(self) -> int:
        """KV heads of the widest layer; MLA keeps one latent that every rank copies."""
        return max(b.mixer.num_kv_heads if isinstance(b.mixer, Attention) else 1 for b in self.blocks)
