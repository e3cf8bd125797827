"""The link between a GPU and the memory of its host, and weights that lie there: read in every step."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpufleet.domain.accelerator import Accelerator, pcie_bytes_per_s
from gpufleet.domain.architecture import Architecture, MixtureOfExperts
from gpufleet.domain.arrays import BoolArray, FloatArray, Floats
from gpufleet.domain.candidates import Candidates
from gpufleet.memory.weights import ElementBytes, layer_bytes, offloaded_bytes_per_device
from gpufleet.performance.formula_groups import FormulaGroup
from gpufleet.performance.kernel_groups import STAGE_TOKENS, StepTokens, Work
from gpufleet.records import dataclass

OFFLOADED = "weights from host memory"


def host_bytes_per_s(gpu: Accelerator) -> float:
    """Rate at which a GPU reads the memory of its host at most: over its own link, else over a full slot."""
    return gpu.host_bytes_per_s or pcie_bytes_per_s(gpu.pcie_generation)


def host_rates(candidates: Candidates) -> FloatArray:
    """The same of each candidate; no more than the PCIe link of its machine, where that is narrower   [bytes/s]."""
    c = candidates
    own = np.array([gpu.host_bytes_per_s is not None for gpu in c.palette.accelerators], dtype=np.bool_)[c.accelerator]
    rates = np.array([host_bytes_per_s(gpu) for gpu in c.palette.accelerators])[c.accelerator]
    is_narrower = ~own & c.link_is_pcie & (c.link_bytes_per_s > 0)
    return np.asarray(np.where(is_narrower, np.minimum(rates, c.link_bytes_per_s), rates))


def offloaded_bytes(arch: Architecture, candidates: Candidates) -> FloatArray:
    """Weights of one GPU of each candidate that lie in host memory   [bytes]."""
    c, palette = candidates, candidates.palette
    asked = np.array([engine.beside.offloaded_bytes for engine in palette.engines])[c.engine]
    sizes = ElementBytes.gather(palette.weight_formats, c.weight_format)
    return np.asarray(offloaded_bytes_per_device(arch, sizes, asked, c.tp, c.pp, c.ep, c.attention_dp))


@dataclass(frozen=True)
class OffloadedWeights(FormulaGroup):
    """Weights that every step reads over the host's link, those of experts only where a token needs them.

    T = pp x bytes x share (1 / (ratio x host) - 1 / memory)   [s]: beside the kernels, which nothing hides it behind
    Kernels read them in place (vLLM: UVA, model_executor/offloader/uva.py), and count them as read from GPU memory;
    a token passes the weights of all stages. Which layers lie there is not known: share is that of all.
    """

    arch: Architecture
    candidates: Candidates
    host_ratio: float

    @cached_property
    def weights_bytes(self) -> FloatArray:
        """Bytes that all stages keep there, one after the other."""
        return np.asarray(self.candidates.pp * offloaded_bytes(self.arch, self.candidates))

    @cached_property
    def host_bytes_per_s(self) -> FloatArray:
        """At its peak."""
        return host_rates(self.candidates)

    @cached_property
    def layers(self) -> list[tuple[FloatArray, FloatArray, float]]:
        """Of each kind of layers: bytes that any step reads, bytes of experts, share of the experts of a token."""
        c, found = self.candidates, []
        sizes = ElementBytes.gather(c.palette.weight_formats, c.weight_format)
        for block in self.arch.blocks:
            part = block.feed_forward
            held = layer_bytes(block, self.arch.hidden_size, sizes, c.tp, c.ep, c.attention_dp)
            experts, total = (np.asarray(block.count * each) for each in (held.experts, held.total))
            ratio = part.top_k / part.num_experts if isinstance(part, MixtureOfExperts) else 0.0
            found.append((total - experts, experts, ratio))
        return found

    def bytes_read(self, at: StepTokens) -> FloatArray:
        """Bytes that a step of so many tokens reads: bytes x sum (dense + experts (1 - (1 - k / E)^tokens)) / all."""
        tokens = at.counted[..., STAGE_TOKENS, None, :]
        read: Floats = sum(dense + experts * (1 - (1 - ratio) ** tokens) for dense, experts, ratio in self.layers)
        return np.asarray(self.weights_bytes * read / sum(dense + experts for dense, experts, _ in self.layers))

    def seconds(self, at: StepTokens) -> FloatArray:
        """Seconds beyond those that kernels count already."""
        beyond = 1 / (self.host_ratio * self.host_bytes_per_s) - 1 / self.bandwidth_bytes_per_s
        return np.asarray(self.bytes_read(at) * np.maximum(beyond, 0.0))

    def work(self, at: StepTokens) -> Work:
        """Bytes over the link, and nothing else."""
        read = self.bytes_read(at)
        return Work({"bytes": read}, 0.0, read, link_s=read / self.host_bytes_per_s)

    def is_executed(self, at: StepTokens) -> BoolArray:
        """In every step."""
        return at.is_decoding | at.is_prefilling

    @property
    def num_kernels(self) -> float:
        """None of its own."""
        return 0.0
