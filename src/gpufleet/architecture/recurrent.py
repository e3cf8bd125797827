"""Layers that keep a state of fixed size instead of a cache: gated delta nets and state-space models."""

from __future__ import annotations

from typing import TypeAlias, cast

import numpy as np

from gpufleet.architecture.sharding import SplitParams, shard
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.domain.mixers import GatedDeltaNet, StateSpace

Recurrent: TypeAlias = GatedDeltaNet | StateSpace
PRODUCTS_PER_STATE_ELEMENT = 3
CONVOLUTION_BYTES_PER_ELEMENT = 2.0


def recurrent_params(mixer: Recurrent, hidden_size: int) -> SplitParams:
    """Matrix parameters of one recurrent layer, without its convolution, norms and scalars.

    Gated delta net: hidden (2 keys + 2 values + heads) + gate + decay. Qwen3.5-35B-A3B:

    >>> recurrent_params(GatedDeltaNet(16, 32, 128, 128, 4), 2048).on_rank()
    33685504
    """
    if isinstance(mixer, GatedDeltaNet):
        return _delta_net_params(mixer, hidden_size)
    return SplitParams(_state_space_params(mixer, hidden_size))


def _delta_net_params(mixer: GatedDeltaNet, hidden_size: int) -> SplitParams:
    """Projections in and out, beta, the output gate and the decay; low ranks are copied by every rank."""
    sharded = hidden_size * (mixer.convolved_width + mixer.value_width + mixer.num_value_heads)
    gate_rank, decay_rank = mixer.gate_rank or 0, mixer.decay_rank or 0
    sharded += mixer.value_width * (gate_rank or hidden_size)
    sharded += mixer.key_width * decay_rank if decay_rank else hidden_size * mixer.num_value_heads
    return SplitParams(sharded, hidden_size * (gate_rank + decay_rank))


def _state_space_params(mixer: StateSpace, hidden_size: int) -> int:
    """Mamba-2: hidden (3 inner + 2 groups state + heads). Mamba: 3 hidden inner + inner (2 rank + 2 state)."""
    inner = mixer.inner_width
    if mixer.time_step_rank:
        return 3 * hidden_size * inner + inner * 2 * (mixer.time_step_rank + mixer.state_size)
    return hidden_size * (3 * inner + 2 * mixer.num_groups * mixer.state_size + mixer.num_heads)


def state_bytes_per_layer(mixer: Recurrent, tp: Ints = 1, least_bytes_per_element: Floats = 0.0) -> Floats:
    """Bytes that one sequence keeps in one recurrent layer, or in one of its ranks: heads are dealt out.

    state elements / tp x bytes + (taps - 1) x convolved channels / tp x 2   [bytes]
    `least_bytes_per_element`: of an engine that keeps states in a wider format than the model asks for.
    Qwen3.5-35B-A3B, state in fp32:

    >>> net = GatedDeltaNet(16, 32, 128, 128, 4)
    >>> float(state_bytes_per_layer(net)) / 2**20, float(state_bytes_per_layer(net, tp=8)) / 2**20
    (2.046875, 0.255859375)
    """
    taps = CONVOLUTION_BYTES_PER_ELEMENT * (mixer.conv_width - 1)
    state = shard(mixer.state_elements, tp) * np.maximum(mixer.state_bytes_per_element, least_bytes_per_element)
    return cast(Floats, state + taps * shard(mixer.convolved_width, tp))


def recurrence_flop_per_token(mixer: Recurrent) -> int:
    """FLOP of one token beside the projections: forget and recall, update, read, and the convolution.

    2 x 3 x state elements + 2 x taps x channels   [flop]

    >>> recurrence_flop_per_token(GatedDeltaNet(16, 32, 128, 128, 4))
    3211264
    """
    convolution = mixer.conv_width * mixer.convolved_width
    return 2 * (PRODUCTS_PER_STATE_ELEMENT * mixer.state_elements + convolution)
