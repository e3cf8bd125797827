"""How checkpoints name the modules of each part of a model: quantisers list what they convert or skip by name."""

from __future__ import annotations

from collections import Counter

from gpufleet.architecture.parameters import mixer_params
from gpufleet.domain.architecture import Architecture, Block, DenseMlp, MixtureOfExperts
from gpufleet.domain.mixers import GatedDeltaNet, StateSpace
from gpufleet.records import dataclass

HEAD = "lm_head"
_ATTENTION = (
    "layers.#.self_attn.q_proj",
    "layers.#.self_attn.q_b_proj",
    "layers.#.mixer.q_proj",
    "layers.#.attn.wq_b",
)
_DELTA_NET = ("layers.#.linear_attn.in_proj_qkv", "layers.#.self_attn.q_proj")
_STATE_SPACE = ("layers.#.mixer.in_proj",)
_DENSE_MLP = ("layers.#.mlp.gate_proj", "layers.#.mixer.up_proj")
_EXPERTS = (
    "layers.#.mlp.experts.0.gate_proj",
    "layers.#.block_sparse_moe.experts.0.w1",
    "layers.#.mixer.experts.0.up_proj",
    "layers.#.ffn.experts.0.w1",
)
_SHARED_EXPERTS = (
    "layers.#.mlp.shared_experts.gate_proj",
    "layers.#.mlp.shared_expert.gate_proj",
    "layers.#.feed_forward.shared_expert.gate_proj",
    "layers.#.block_sparse_moe.shared_experts.gate_proj",
    "layers.#.mixer.shared_experts.up_proj",
    "layers.#.ffn.shared_experts.w1",
)
_EXPERTS_OF = {"gemma4_text": ("layers.#.experts.0.gate_proj",)}
_SHARED_EXPERTS_OF = {"gemma4_text": ("layers.#.mlp.gate_proj",)}


@dataclass(frozen=True)
class PartNames:
    """Modules that stand for one part of a layer, and how many layers have it."""

    modules: tuple[str, ...]
    num_layers: int


def mixer_names(arch: Architecture) -> PartNames:
    """Modules of the kind of token mixer that holds most parameters: one format stands for all mixers of a model."""
    params: Counter[type] = Counter()
    for block in arch.blocks:
        params[type(block.mixer)] += block.count * int(mixer_params(block.mixer, arch.hidden_size))
    kind = max(params, key=lambda mixer: params[mixer])
    modules = {GatedDeltaNet: _DELTA_NET, StateSpace: _STATE_SPACE}.get(kind, _ATTENTION)
    return PartNames(modules, sum(b.count for b in arch.blocks if isinstance(b.mixer, kind)))


def expert_names(arch: Architecture) -> PartNames:
    """Modules of the routed experts."""
    return PartNames(_EXPERTS_OF.get(arch.family, _EXPERTS), _num_layers(arch, MixtureOfExperts))


def mlp_names(arch: Architecture) -> PartNames:
    """Modules of dense MLPs; of shared experts where the model routes."""
    if arch.is_moe:
        return PartNames(_SHARED_EXPERTS_OF.get(arch.family, _SHARED_EXPERTS), _num_layers(arch, MixtureOfExperts))
    return PartNames(_DENSE_MLP, _num_layers(arch, DenseMlp))


def _num_layers(arch: Architecture, kind: type) -> int:
    def has(block: Block) -> bool:
        return isinstance(block.feed_forward, kind)

    return sum(block.count for block in arch.blocks if has(block))
