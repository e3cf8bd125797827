"""How checkpoints name the matrices of each part of a model: quantisers list what they convert or skip by name."""

from __future__ import annotations

from collections import Counter
from itertools import product

from gpufleet.architecture.linears import Linear, linears
from gpufleet.domain.architecture import Architecture, DenseMlp, LatentAttention
from gpufleet.domain.dimensions import MAX_LAYERS
from gpufleet.domain.mixers import GatedDeltaNet, StateSpace
from gpufleet.records import dataclass

HEAD, FEW = "lm_head", 4
ATTENTION, MLP, SHARED, EXPERTS = "attention", "mlp", "shared", "experts"
ROLES = ("q", "gate", "up", "k", "v", "o", "down", "latent")
_NAMES_OF_KIND: dict[type, tuple[str, ...]] = {
    GatedDeltaNet: ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz", "self_attn.q_proj"),
    StateSpace: ("mixer.in_proj",),
}
_FUSED = ("qkv_proj", "query_key_value", "Wqkv", "W_pack", "c_attn")
_LEAVES = {
    "latent": ("q_a_proj", "wq_a"),
    "q": ("q_proj", "q_b_proj", "wq_b", *_FUSED),
    "k": ("k_proj", *_FUSED),
    "v": ("v_proj", *_FUSED),
    "o": ("o_proj", "out_proj", "wo_b"),
    "gate": ("gate_proj", "gate_up_proj", "w1"),
    "up": ("up_proj", "gate_up_proj", "w3", "fc1", "c_fc", "dense_h_to_4h"),
    "down": ("down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h"),
}
_LATENT = {"k": ("kv_a_proj_with_mqa", "wkv"), "v": ("kv_b_proj",)}
_WITHIN = {
    ATTENTION: ("self_attn", "attn", "attention", "self_attention", "mixer"),
    MLP: ("mlp", "mixer", "feed_forward"),
    SHARED: (
        *("mlp.shared_experts", "mlp.shared_expert", "feed_forward.shared_expert", "mixer.shared_experts"),
        *("block_sparse_moe.shared_experts", "ffn.shared_experts"),
    ),
    EXPERTS: ("mlp.experts.0", "block_sparse_moe.experts.0", "mixer.experts.0", "ffn.experts.0"),
}
_WITHIN_OF = {("gemma4_text", EXPERTS): ("experts.0",), ("gemma4_text", SHARED): ("mlp",)}


@dataclass(frozen=True)
class Matrix:
    """One matrix of the layers that have it, by the names that checkpoints give it there, and its weights in a layer.

    `kind` is that of the layer's mixer or feed-forward part, `role` its place in it: q, k, v, o, gate, up or down.
    `layers` are those among which it is.
    """

    part: str
    kind: type
    role: str
    names: tuple[str, ...]
    weights: int
    num_layers: int
    layers: range = range(MAX_LAYERS)

    @property
    def all_weights(self) -> int:
        """Weights of all layers."""
        return self.weights * self.num_layers


def matrices(arch: Architecture) -> dict[str, list[Matrix]]:
    """Every matrix of a model's layers by its part; first the one that stands for the part, as queries do.

    A part that the model lacks has one of no weight.
    """
    counts: Counter[tuple[str, type, str, tuple[str, ...], int]] = Counter()
    for block in arch.blocks:
        for each in linears(block, arch.hidden_size):
            kind = type(block.mixer if each.part == ATTENTION else block.feed_forward)
            counts[each.part, kind, _role(each), _names(arch.family, kind, each), each.num_parameters] += block.count
    dense = _leading_dense_layers(arch)
    after = {MLP: range(dense or MAX_LAYERS), SHARED: range(dense, MAX_LAYERS), EXPERTS: range(dense, MAX_LAYERS)}
    found = [Matrix(*of, n, after.get(of[0], range(MAX_LAYERS))) for of, n in counts.items()]
    weights: Counter[tuple[str, type]] = Counter()
    for matrix in found:
        weights[matrix.part, matrix.kind] += matrix.all_weights
    found.sort(key=lambda m: (-weights[m.part, m.kind], ROLES.index(m.role)))
    parts = {part: [m for m in found if m.part == part] for part in (ATTENTION, MLP, SHARED, EXPERTS)}
    return {part: of or [_none_of(arch.family, part)] for part, of in parts.items()}


def _leading_dense_layers(arch: Architecture) -> int:
    """Layers before the first with experts, where only a few begin so; 0 where dense layers lie among the others."""
    dense = sum(block.count for block in arch.blocks if isinstance(block.feed_forward, DenseMlp))
    is_first = isinstance(arch.blocks[0].feed_forward, DenseMlp)
    return dense if arch.is_moe and is_first and FEW * dense <= arch.num_layers else 0


def _none_of(family: str, part: str) -> Matrix:
    role = "q" if part == ATTENTION else "gate"
    return Matrix(part, type(None), role, _names(family, type(None), Linear(role, part, 0, 0, "outputs")), 0, 1)


def _role(each: Linear) -> str:
    """The place of a matrix: projections into the space of queries that all ranks hold stand for nothing."""
    return "latent" if each.name == "q" and each.cut == "none" else each.name


def _names(family: str, kind: type, each: Linear) -> tuple[str, ...]:
    if kind in _NAMES_OF_KIND:
        return _NAMES_OF_KIND[kind]
    leaves = (_LATENT if kind is LatentAttention else {}).get(_role(each), _LEAVES[_role(each)])
    within = _WITHIN_OF.get((family, each.part), _WITHIN[each.part])
    return tuple(f"{outer}.{leaf}" for outer, leaf in product(within, leaves))
