"""The linear layers of a block by name: what adapters sit on, and what products of a training step multiply."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.architecture.parameters import split_params
from gpufleet.domain.architecture import (
    Architecture,
    Attention,
    Block,
    DenseMlp,
    LatentAttention,
    MixtureOfExperts,
)
from gpufleet.domain.mixers import NoFeedForward
from gpufleet.domain.training import Adapter
from gpufleet.records import dataclass


@dataclass(frozen=True)
class Linear:
    """A weight [outputs, inputs]; tensor parallelism cuts its outputs, its inputs, or nothing.

    `part`: attention, mlp, shared or experts. `copies` of it lie in a layer, of which a token passes `active`. What is
    cut is cut in whole units of `unit`: those of a KV head are copied where there are more ranks than heads.
    """

    name: str
    part: str
    outputs: int
    inputs: int
    cut: str
    copies: int = 1
    active: float = 1.0
    unit: int = 1

    @property
    def num_parameters(self) -> int:
        """Weights of all copies."""
        return self.outputs * self.inputs * self.copies


def linears(block: Block, hidden_size: int) -> list[Linear]:
    """Every matrix of one layer of `block`; mixers without heads are one matrix of as many weights.

    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, True))
    >>> [(each.name, each.outputs, each.inputs) for each in linears(layer, 4096)][:2]
    [('q', 4096, 4096), ('k', 1024, 4096)]
    """
    return [*_of_mixer(block, hidden_size), *_of_feed_forward(block, hidden_size)]


def _of_mixer(block: Block, hidden: int) -> Iterator[Linear]:
    mixer = block.mixer
    if isinstance(mixer, Attention):
        yield Linear("q", "attention", mixer.num_heads * mixer.head_dim + mixer.gate_width, hidden, "outputs")
        yield Linear("k", "attention", mixer.num_kv_heads * mixer.head_dim, hidden, "outputs", unit=mixer.head_dim)
        if not mixer.keys_are_values:
            width = mixer.num_kv_heads * mixer.value_dim
            yield Linear("v", "attention", width, hidden, "outputs", unit=mixer.value_dim)
        yield Linear("o", "attention", hidden, mixer.num_heads * mixer.value_dim, "inputs")
    elif isinstance(mixer, LatentAttention):
        query = mixer.num_heads * (mixer.qk_nope_head_dim + mixer.qk_rope_head_dim)
        if mixer.q_lora_rank is None:
            yield Linear("q", "attention", query, hidden, "outputs")
        else:
            yield Linear("q", "attention", mixer.q_lora_rank, hidden, "none")
            yield Linear("q", "attention", query, mixer.q_lora_rank, "outputs")
        yield Linear("k", "attention", mixer.kv_lora_rank + mixer.qk_rope_head_dim, hidden, "none")
        expanded = mixer.num_heads * (mixer.qk_nope_head_dim + mixer.v_head_dim)
        yield Linear("v", "attention", expanded, mixer.kv_lora_rank, "outputs")
        yield Linear("o", "attention", hidden, mixer.num_heads * mixer.v_head_dim, "inputs")
    else:
        matrices = split_params(mixer, hidden)
        if weights := matrices.sharded + matrices.copied:
            yield Linear("q", "attention", max(weights // hidden, 1), hidden, "outputs")


def _of_feed_forward(block: Block, hidden: int) -> Iterator[Linear]:
    part = block.feed_forward
    if isinstance(part, NoFeedForward):
        return
    if isinstance(part, DenseMlp):
        yield from _mlp("mlp", part.width, part.gated, hidden)
    if isinstance(part, MixtureOfExperts):
        if part.shared_width:
            yield from _mlp("shared", part.shared_width, part.gated, hidden)
        width = part.latent_width or hidden
        yield from _mlp("experts", part.expert_width, part.gated, width, part.num_experts, part.top_k)


def _mlp(part: str, width: int, gated: bool, hidden: int, copies: int = 1, active: float = 1.0) -> Iterator[Linear]:
    if gated:
        yield Linear("gate", part, width, hidden, "outputs", copies, active)
    yield Linear("up", part, width, hidden, "outputs", copies, active)
    yield Linear("down", part, hidden, width, "inputs", copies, active)


def num_adapter_parameters(arch: Architecture, adapter: Adapter) -> int:
    """Weights of the adapters of all layers.

    sum over adapted weights [n, k] of rank (n + k)   [weights]   Source: Hu et al. 2021, arXiv:2106.09685
    Llama 2 7B at rank 8 on q and v trains 4,194,304 (LitGPT, tutorials/resource-tables.md):

    >>> layer = Block(32, Attention(32, 32, 128), DenseMlp(11008, True))
    >>> llama = Architecture("llama-2-7b", "llama", 4096, 32000, (layer,), False, 4096)
    >>> num_adapter_parameters(llama, Adapter(8, ("q", "v")))
    4194304
    """
    return sum(
        block.count * each.copies * adapter.rank * (each.outputs + each.inputs)
        for block in arch.blocks
        for each in linears(block, arch.hidden_size)
        if each.name in adapter.modules
    )
