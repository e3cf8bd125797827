"""Bytes of LoRA adapters: of one as it is stored, and of the slots that an engine keeps for them on each GPU."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from gpufleet.architecture.linears import Linear, linears
from gpufleet.architecture.sharding import shard
from gpufleet.domain.architecture import Architecture, Block
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.domain.beside import ADAPTER_ELEMENT_BYTES, ATTENTION, MLP, AdapterRules, ServedAdapters
from gpufleet.memory.band import Band
from gpufleet.memory.weights import stage_share

if TYPE_CHECKING:
    from gpufleet.memory.overhead import EngineMemory

EXPERTS, SHARED = "experts", "shared"
SOURCE = "LoRA (arXiv:2106.09685) as vLLM and SGLang lay it out: lora/layers, srt/lora/mem_pool.py"


def adapted_parts(adapters: ServedAdapters, rules: AdapterRules) -> tuple[str, ...]:
    """Parts of a layer whose matrices adapters sit on: routed experts only where the engine adapts them."""
    of_mlp = (MLP, SHARED, *([EXPERTS] if rules.takes_experts else [])) if MLP in adapters.parts else ()
    return (*([ATTENTION] if ATTENTION in adapters.parts else []), *of_mlp)


def adapter_bytes(arch: Architecture, rank: int, parts: Collection[str]) -> float:
    """One adapter as it is stored, in 16 bits: sum over adapted weights [n, k] of rank (n + k) elements   [bytes].

    Source: Hu et al. 2021, arXiv:2106.09685. Rank 16 on all linear layers of Llama 3 8B are 41,943,040 weights:

    >>> from gpufleet.domain.architecture import Attention, DenseMlp
    >>> layer = Block(32, Attention(32, 8, 128), DenseMlp(14336, True))
    >>> llama = Architecture("llama-3-8b", "llama", 4096, 128256, (layer,), False, 8192)
    >>> adapter_bytes(llama, 16, ("attention", "mlp")) / 2
    41943040.0
    """
    elements = sum(
        block.count * each.copies * (each.outputs + each.inputs)
        for block in arch.blocks
        for each in linears(block, arch.hidden_size)
        if each.part in parts
    )
    return rank * elements * ADAPTER_ELEMENT_BYTES


def slots_bytes_per_device(
    arch: Architecture, engine: EngineMemory, tp: Ints = 1, pp: Ints = 1, ep: Ints = 1, attention_dp: Ints = 1
) -> Band:
    """What the slots of adapters take of the fullest device, whether an adapter lies in them or not.

    slots x rank of a slot x 2 B x sum over adapted weights of the fullest stage of (n + k), of which what tensor
    parallelism cuts of a weight is cut, and the other factor copied; high: embedding and head adapted too   [bytes]
    """
    moe_tp = tp * attention_dp // ep
    layers = [_elements(block, arch.hidden_size, engine, tp, ep, moe_tp) for block in arch.blocks]
    each = engine.adapter_slots * engine.adapter_rank * ADAPTER_ELEMENT_BYTES
    of_layers = each * stage_share(arch, layers, pp)
    ends = 2.0 * each * engine.adapts_ends * (arch.vocab_size + arch.hidden_size)
    return Band(of_layers, of_layers, of_layers + ends)


def _elements(block: Block, hidden_size: int, engine: EngineMemory, tp: Ints, ep: Ints, moe_tp: Ints) -> Floats:
    """Elements of one rank of adapters on one layer of a device."""
    adapts = {
        ATTENTION: engine.adapts_attention,
        MLP: engine.adapts_mlp,
        SHARED: engine.adapts_mlp,
        EXPERTS: engine.adapts_experts,
    }
    return sum((adapts[each.part] * _on_rank(each, tp, ep, moe_tp) for each in linears(block, hidden_size)), 0.0)


def _on_rank(each: Linear, tp: Ints, ep: Ints, moe_tp: Ints) -> Floats:
    parts, copies = (moe_tp, shard(each.copies, ep)) if each.part == EXPERTS else (tp, each.copies)
    outputs: Floats = each.unit * shard(each.outputs // each.unit, parts) if each.cut == "outputs" else each.outputs
    inputs: Floats = shard(each.inputs, parts) if each.cut == "inputs" else each.inputs
    return copies * (outputs + inputs)


def host_bytes(arch: Architecture, adapters: ServedAdapters, parts: Sequence[str]) -> float:
    """What one process of an engine, of which each GPU has one, keeps of all adapters in host memory   [bytes]."""
    return adapters.number * adapter_bytes(arch, adapters.rank, parts)
