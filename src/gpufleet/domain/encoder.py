"""The shape of models that are not decoders: towers of layers in which every token sees every other."""

from __future__ import annotations

import math
from dataclasses import field
from enum import Enum

from gpufleet.domain.dimensions import MAX_LAYERS, require_positive
from gpufleet.domain.precision import BF16, WeightFormat
from gpufleet.records import dataclass


class Takes(Enum):
    """What one input of a tower is: a text of tokens, an image, a window of audio, or audio of any length."""

    TEXT = "sequence"
    IMAGE = "image"
    WINDOW = "window of audio"
    AUDIO = "audio"


@dataclass(frozen=True)
class LayerStack:
    """Equal transformer layers; `vector_params` are the biases and norms of one of them.

    `attends_to_encoder`: every layer also attends to the output of the encoder (T5, Whisper). `is_causal`: a token
    sees those before it only (decoders, the text tower of CLIP).
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    head_dim: int
    mlp_width: int
    gated: bool = False
    is_causal: bool = False
    attends_to_encoder: bool = False
    vector_params: int = 0

    def __post_init__(self) -> None:
        require_positive(
            "layers",
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            mlp_width=self.mlp_width,
        )
        if self.num_layers > MAX_LAYERS:
            raise ValueError(f"layers: {self.num_layers} is more than {MAX_LAYERS}")

    @property
    def attention_width(self) -> int:
        """Elements of a token's query."""
        return self.num_heads * self.head_dim


@dataclass(frozen=True)
class Convolution:
    """A convolution before or between layers; `kernel` and `stride` count positions, of an image whole patches.

    `is_padded`: the ends are padded, so that only the stride shortens the input.
    """

    in_channels: int
    out_channels: int
    kernel: int
    stride: int = 1
    groups: int = 1
    vector_params: int = 0
    is_padded: bool = True

    def __post_init__(self) -> None:
        require_positive(
            "convolution",
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            kernel=self.kernel,
            stride=self.stride,
            groups=self.groups,
        )
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(f"convolution: {self.groups} groups do not divide its channels")

    def positions_after(self, positions: float) -> float:
        """Positions that come out of so many."""
        if self.is_padded:
            return math.ceil(positions / self.stride)
        return max(math.floor((positions - self.kernel) / self.stride) + 1, 0)


@dataclass(frozen=True)
class Projection:
    """A matrix product after the layers, on every token or on one vector of an input (`once`)."""

    inputs: int
    outputs: int
    once: bool
    is_tied: bool = False

    def __post_init__(self) -> None:
        require_positive("projection", inputs=self.inputs, outputs=self.outputs)


@dataclass(frozen=True)
class Tower:
    """What one kind of input passes: convolutions, layers, projections.

    `embedding_params` are looked up (tokens, positions, types); `vector_params` are norms outside of layers.
    `fixed_tokens` is how many tokens an image or a window becomes; `extra_tokens` are added to what the convolutions
    give (class token). `positions_per_s` is the rate of what enters the convolutions of audio. `is_stretchable`:
    positions are relative, so that inputs longer than `max_tokens`, which it was trained on, pass as well.
    """

    name: str
    takes: Takes
    stack: LayerStack
    max_tokens: int
    convolutions: tuple[Convolution, ...] = ()
    projections: tuple[Projection, ...] = ()
    embedding_params: int = 0
    vector_params: int = 0
    input_positions: int | None = None
    extra_tokens: int = 0
    positions_per_s: float | None = None
    is_stretchable: bool = False

    def __post_init__(self) -> None:
        require_positive(self.name, max_tokens=self.max_tokens)

    def tokens_of(self, positions: float) -> float:
        """Tokens that the layers see of an input of so many positions."""
        for convolution in self.convolutions:
            positions = convolution.positions_after(positions)
        return positions + self.extra_tokens

    @property
    def fixed_tokens(self) -> float | None:
        """Tokens of every input, where all inputs are of one size."""
        return None if self.input_positions is None else self.tokens_of(self.input_positions)

    @property
    def window_s(self) -> float | None:
        """Seconds of audio in one window."""
        if self.input_positions is None or self.positions_per_s is None:
            return None
        return self.input_positions / self.positions_per_s


@dataclass(frozen=True)
class EncoderModel:
    """A model that is not a decoder: one tower (BERT, ViT), two (CLIP), or an encoder with a decoder (T5, Whisper).

    `other_params` belong to no tower (a logit scale). `notes` say what was left out or assumed.
    """

    name: str
    family: str
    kind: str
    towers: tuple[Tower, ...]
    decoder: Tower | None = None
    other_params: int = 0
    weights: WeightFormat = field(default_factory=lambda: WeightFormat.uniform(BF16))
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.towers:
            raise ValueError("encoder: a model needs at least one tower")

    @property
    def all_towers(self) -> tuple[Tower, ...]:
        """Every tower, the decoder last."""
        return self.towers if self.decoder is None else (*self.towers, self.decoder)

    @property
    def num_layers(self) -> int:
        """Layers of all towers."""
        return sum(tower.stack.num_layers for tower in self.all_towers)

    @property
    def max_tokens(self) -> int:
        """The longest input of the first tower."""
        return self.towers[0].max_tokens

    def tower_for(self, takes: Takes) -> Tower | None:
        """The tower that takes this kind of input, if any."""
        return next((tower for tower in self.towers if tower.takes is takes), None)
