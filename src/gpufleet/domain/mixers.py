"""Token mixers that are not plain softmax attention: sparse, compressed and recurrent ones, one type per mechanism."""

from __future__ import annotations

from gpufleet.domain.dimensions import require_positive
from gpufleet.records import dataclass


@dataclass(frozen=True)
class TokenIndex:
    """A few small heads that score what is cached, so that attention reads only the best of it.

    `cache_bytes_per_entry` is what the index itself caches for one entry (keys of `head_dim`, with their scales).
    `query_width` is the width that its queries are projected from; `projected_width` counts the outputs that come
    straight from the hidden state (keys, weights of the heads). Its norms count among the layer's vectors.
    Source: lightning indexer of DeepSeek-V3.2 (arXiv:2512.02556).
    """

    num_heads: int
    head_dim: int
    query_width: int
    projected_width: int
    cache_bytes_per_entry: float

    def __post_init__(self) -> None:
        require_positive("token index", num_heads=self.num_heads, head_dim=self.head_dim)
        if not self.cache_bytes_per_entry > 0:
            raise ValueError(f"token index: cache_bytes_per_entry must be positive, found {self.cache_bytes_per_entry}")


@dataclass(frozen=True)
class CompressedAttention:
    """Attention over a window of single tokens and over groups of `tokens_per_entry` tokens compressed into one.

    One vector of `head_dim` per entry is key and value of all heads. `kept_entries` bounds the compressed entries
    that a query reads, which `index` chooses. 0 tokens an entry: the window alone. The output projection goes through
    `output_groups` low-rank maps. `overlap` is how many groups of tokens flow into one entry; `rope_head_dim` of its
    elements are turned by position, which stay in 16 bits where the cache is fp8.
    Source: DeepSeek-V4 (compressed sparse and heavily compressed attention), class DeepseekV4 of transformers 5.23.
    """

    num_heads: int
    head_dim: int
    q_lora_rank: int
    output_groups: int
    output_rank: int
    window_tokens: int
    tokens_per_entry: int = 0
    overlap: int = 1
    kept_entries: float = float("inf")
    index: TokenIndex | None = None
    vector_params: int = 0
    rope_head_dim: int = 0

    def __post_init__(self) -> None:
        require_positive(
            "compressed attention",
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            q_lora_rank=self.q_lora_rank,
            output_groups=self.output_groups,
            output_rank=self.output_rank,
            window_tokens=self.window_tokens,
            overlap=self.overlap,
        )
        if self.num_heads * self.head_dim % self.output_groups:
            raise ValueError(f"compressed attention: {self.output_groups} groups do not divide the heads")


@dataclass(frozen=True)
class GatedDeltaNet:
    """Linear attention with a gated delta rule: a matrix of key by value per head is all that a sequence keeps.

    Gated DeltaNet (arXiv:2412.06464; Qwen3-Next, Qwen3.5) forgets by one number per head, Kimi Delta Attention
    (arXiv:2510.26692) by one per channel, through `decay_rank`. `gate_rank` None is an output gate of full rank.
    `conv_width` taps of a short convolution run over queries, keys and values.
    """

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_width: int
    gate_rank: int | None = None
    decay_rank: int | None = None
    state_bytes_per_element: float = 4.0
    vector_params: int = 0

    def __post_init__(self) -> None:
        require_positive(
            "gated delta net",
            num_key_heads=self.num_key_heads,
            num_value_heads=self.num_value_heads,
            key_head_dim=self.key_head_dim,
            value_head_dim=self.value_head_dim,
            conv_width=self.conv_width,
        )
        if self.num_value_heads % self.num_key_heads:
            raise ValueError(
                f"gated delta net: {self.num_value_heads} value heads cannot share {self.num_key_heads} key heads"
            )

    @property
    def num_heads(self) -> int:
        """What tensor parallelism divides: key heads, which are never copied."""
        return self.num_key_heads

    @property
    def key_width(self) -> int:
        """Elements of a token's keys, and of its queries."""
        return self.num_key_heads * self.key_head_dim

    @property
    def value_width(self) -> int:
        """Elements of a token's values."""
        return self.num_value_heads * self.value_head_dim

    @property
    def convolved_width(self) -> int:
        """Channels of the short convolution."""
        return 2 * self.key_width + self.value_width

    @property
    def state_elements(self) -> int:
        """Numbers of the recurrent state of one sequence."""
        return self.num_value_heads * self.key_head_dim * self.value_head_dim


@dataclass(frozen=True)
class StateSpace:
    """A selective state-space layer: Mamba-2 (arXiv:2405.21060), or Mamba (arXiv:2312.00752) by its time-step rank.

    `inner_width` channels keep `state_size` numbers each; Mamba-2 shares inputs and outputs of the state over
    `num_groups`. `conv_width` taps of a short convolution run before it.
    """

    inner_width: int
    state_size: int
    conv_width: int
    num_heads: int
    num_groups: int = 1
    time_step_rank: int | None = None
    state_bytes_per_element: float = 2.0
    vector_params: int = 0

    def __post_init__(self) -> None:
        require_positive(
            "state space",
            inner_width=self.inner_width,
            state_size=self.state_size,
            conv_width=self.conv_width,
            num_heads=self.num_heads,
            num_groups=self.num_groups,
        )

    @property
    def convolved_width(self) -> int:
        """Channels of the short convolution: Mamba-2 convolves the state's inputs and outputs too."""
        shared = 0 if self.time_step_rank else 2 * self.num_groups * self.state_size
        return self.inner_width + shared

    @property
    def state_elements(self) -> int:
        """Numbers of the recurrent state of one sequence."""
        return self.inner_width * self.state_size


@dataclass(frozen=True)
class NoMixer:
    """A layer that mixes no tokens: its feed-forward part stands alone (Nemotron-H), or search removed it (NAS)."""

    vector_params: int = 0
    num_heads: int = 0


@dataclass(frozen=True)
class NoFeedForward:
    """A layer that only mixes tokens."""

    vector_params: int = 0
