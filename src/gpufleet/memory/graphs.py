"""What CUDA graphs take of a device, and what an engine takes after it has sized its KV pool."""

from __future__ import annotations

from typing import cast

import numpy as np

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.arrays import Floats, Ints
from gpufleet.memory.band import Band
from gpufleet.memory.overhead import EngineMemory

FEW_SIZES = 3  # 1, 2 and 4 tokens; from 8 on every eighth
NARROW_STEP_TOKENS = 8
WIDE_FROM_TOKENS = 256
PCIE_PEERS = 2  # vllm/distributed/device_communicators/custom_all_reduce.py: more without NVLink use NCCL


def graph_bytes_per_device(engine: EngineMemory, arch: Architecture, tp: Ints, pp: Ints, attention_dp: Ints) -> Band:
    """Captured graphs of one device: a fixed part, what every layer of every graph keeps, and attention-DP's buffers.

    graph_bytes + graphs x ceil(layers / pp) x graph_layer_bytes
    + graphs x ceil(reductions / pp) x graph_reduction_bytes where NCCL reduces
    + graph_batch x attention_dp x dp_graph_bytes where attention_dp > 1   [bytes]
    Source: pools logged by vLLM 0.5 to 0.19, 0.13 to 2.28 GiB; NCCL puts several nodes into a graph for a reduction
    (vllm pull/2192: 0.18 to 0.24 MiB each), engines' own kernels one.
    """
    graphs = captured_graphs(engine)
    layers = graphs * np.ceil(arch.num_layers / pp)
    reduced = graphs * np.ceil(arch.num_reductions / pp) * reduces_by_nccl(engine, tp)
    padded = cast(Floats, np.where(np.asarray(attention_dp) > 1, engine.graph_batch * attention_dp, 0.0)[()])
    of_layers = engine.graph_layer_bytes.scaled(layers).plus(engine.graph_reduction_bytes.scaled(reduced))
    return engine.graph_bytes.plus(of_layers).plus(engine.dp_graph_bytes.scaled(padded))


def captured_graphs(engine: EngineMemory) -> Floats:
    """Graphs that an engine captures when it starts: of pieces of a step, and of whole decode steps.

    vLLM 0.11 with 256 sequences: 67 and 35 (issues/27782).
    """
    pieces = np.minimum(2.0 * engine.max_batch, engine.piece_graph_tokens)
    decodes = np.minimum(engine.max_batch, engine.decode_graph_tokens)
    return graph_sizes(pieces, engine.wide_graph_step) + graph_sizes(decodes, engine.wide_graph_step)


def graph_sizes(largest: Floats, wide_step: Floats) -> Floats:
    """Sizes up to the largest for which a graph is captured: 1, 2, 4, every eighth to 256, then every wide step.

    >>> float(graph_sizes(256.0, 8.0)), float(graph_sizes(512.0, 16.0))
    (35.0, 51.0)
    """
    narrow = np.minimum(largest, WIDE_FROM_TOKENS)
    few = np.minimum(np.ceil(np.log2(np.maximum(narrow, 0.5)) + 1.0), FEW_SIZES)
    wide = np.maximum(largest - WIDE_FROM_TOKENS, 0.0) // wide_step
    return cast(Floats, few + narrow // NARROW_STEP_TOKENS + wide)


def reduces_by_nccl(engine: EngineMemory, tp: Ints) -> Floats:
    """1 where NCCL reduces and not the engine's own kernels: more GPUs than a link joins, or than two over PCIe."""
    return np.where(np.asarray(tp) > np.maximum(engine.linked_gpus, PCIE_PEERS), 1.0, 0.0)


def after_pool_bytes(engine: EngineMemory, activations: Band, graphs: Band) -> Band:
    """What an engine takes once its KV pool is sized, or has taken before it reads what is free.

    activations not profiled + graphs not counted + context and communicators of the start   [bytes]
    """
    unprofiled = activations.scaled(1.0 - engine.profiled_share)
    return unprofiled.plus(graphs.scaled(1.0 - engine.graphs_in_fraction)).plus(engine.startup_bytes)
