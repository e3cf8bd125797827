"""Hardware figures of every candidate, gathered by index from the stacked calibration, each once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpufleet.domain.arrays import BoolArray, FloatArray, IntArray
from gpufleet.domain.calibration import (
    NCCL,
    AttentionCurves,
    Calibration,
    CollectiveCurves,
    Curves,
    ExpertCurves,
    GemmCurves,
    LatentAttentionCurves,
    engine_index,
    general_index,
)
from gpufleet.domain.candidates import Candidates
from gpufleet.domain.precision import FP8, FP32, PER_TENSOR, PRECISIONS
from gpufleet.records import dataclass


def dequantised(name: str) -> str:
    """The format that weights are multiplied in where a kernel only stores them in another.

    >>> dequantised("int4"), dequantised("fp8")
    ('bf16', 'fp8')
    """
    precision = PRECISIONS[name]
    return (
        precision.arithmetic
        if precision.bytes_per_element < PRECISIONS[precision.arithmetic].bytes_per_element
        else name
    )


ON_ONE_GPU = " on one GPU"
"""What writes a format for the next product there alone: elsewhere an all-reduce comes between that does not."""


@dataclass(frozen=True, eq=False)
class Hardware:
    """Curves per operator, each with one element per candidate, at the precision of a part of its weight format.

    They are gathered when they are asked for: a dense model needs none of experts.
    """

    calibration: Calibration
    candidates: Candidates

    @property
    def attention_gemm(self) -> GemmCurves:
        """Products of attention."""
        return self.products("attention")

    @property
    def mlp_gemm(self) -> GemmCurves:
        """Products of dense feed-forward parts and shared experts."""
        return self.products("mlp")

    @property
    def head_gemm(self) -> GemmCurves:
        """The output head."""
        return self.products("head")

    @property
    def router_gemm(self) -> GemmCurves:
        """The router."""
        return self.products("base")

    @cached_property
    def fp32_router_gemm(self) -> GemmCurves:
        """The router of models that let it compute in fp32, where an engine does (`routes_in_fp32`)."""
        c, formats = self.candidates, self._formats("base")
        index = np.where(c.engine_figure("routes_in_fp32", 0.0) > 0, len(formats), c.weight_format)
        return self.calibration.gemm(c.accelerator, [*formats, FP32.name], index, self._engine)

    @cached_property
    def experts(self) -> ExpertCurves:
        """Grouped products of routed experts: kernels made for the device, but for versions that take general ones."""
        c, names = self.candidates, [engine.name for engine in self.candidates.palette.engines]
        engine = np.where(c.engine_figure("general_experts", 0.0) > 0, general_index(names)[c.engine], self._engine)
        return self.calibration.experts(c.accelerator, self._formats("experts"), c.weight_format, engine)

    @cached_property
    def attention(self) -> AttentionCurves:
        """Attention in the format of the KV cache."""
        c = self.candidates
        return self.calibration.attention(c.accelerator, self._cache_formats, c.kv_precision, self._engine)

    @cached_property
    def latent_attention(self) -> LatentAttentionCurves:
        """Latent attention in the format of its cache."""
        c = self.candidates
        return self.calibration.latent_attention(c.accelerator, self._cache_formats, c.kv_precision, self._engine)

    @cached_property
    def collectives(self) -> CollectiveCurves:
        """Collectives over the candidate's link: those of its engine, or NCCL's where it has none of its own."""
        c, nccl = self.candidates, engine_index([NCCL])
        engine = np.where(c.engine_figure("reduces_by_nccl", 0.0) > 0, nccl, self._engine)
        peers = np.array([gpu.peer_to_peer for gpu in c.palette.accelerators], dtype=np.bool_)[c.accelerator]
        return self.calibration.collectives(
            c.accelerator,
            c.link_is_pcie,
            c.link_bytes_per_s,
            engine,
            through_host=c.link_is_pcie & (c.through_host | ~peers),
        )

    @cached_property
    def bandwidth_bytes_per_s(self) -> FloatArray:
        """Memory bandwidth of the device."""
        c = self.candidates
        return np.array([a.bandwidth_bytes_per_s for a in c.palette.accelerators])[c.accelerator]

    def mixer(self, operator: str) -> Curves:
        """A kernel of rarer mixers, in 16 bits."""
        c = self.candidates
        return self.calibration.mixer(operator, c.accelerator, self._formats("base"), c.weight_format, self._engine)

    def quantised_apart(self, part: str, written_by: str) -> FloatArray:
        """1 where a kernel of its own quantises the input of products with this part, 0 where what wrote it does."""
        alone = self._written_by(part, written_by + ON_ONE_GPU) & (np.asarray(self.candidates.tp) == 1)
        return np.where(self._written_by(part, written_by) | alone, 0.0, 1.0)

    def _written_by(self, part: str, writer: str) -> BoolArray:
        c, formats = self.candidates, self._formats(part)
        fused = [engine.fused_quantisation for engine in c.palette.engines]
        is_written = np.array([[writer in each.get(name, ()) for name in formats] for each in fused])
        return is_written[c.engine, c.weight_format]

    def quantisation_slowdown(self, part: str) -> FloatArray:
        """How many times longer than by the formula an engine's kernel takes for a byte that it quantises to fp8."""
        return np.where(self._is_fp8(part), self.candidates.engine_figure("quantisation_slowdown", 1.0), 1.0)

    def searched(self, part: str) -> FloatArray:
        """1 where an engine looks through the whole input of products with this part for its scale, else 0."""
        c = self.candidates
        found = np.array([weights.activation_scales == PER_TENSOR for weights in c.palette.weight_formats])
        is_sought = self._is_fp8(part) & found[c.weight_format]
        return np.where(is_sought, c.engine_figure("searches_scales", 0.0), 0.0)

    def _is_fp8(self, part: str) -> BoolArray:
        return np.array([name == FP8.name for name in self._formats(part)])[self.candidates.weight_format]

    def products(self, part: str) -> GemmCurves:
        """Dense products with a part of the weights, as `WeightFormat` names it."""
        if part not in self._products:
            self._products[part] = self._gemm(part)
        return self._products[part]

    @cached_property
    def _products(self) -> dict[str, GemmCurves]:
        return {}

    def _gemm(self, part: str) -> GemmCurves:
        """Products in the format of the weights; in 16 bits where an engine takes as long as if they had them."""
        c, formats = self.candidates, self._formats(part)
        index, slow = c.weight_format, c.engine_figure("weights_only_as_16_bits", 0.0) > 0
        if np.any(slow):
            index = np.where(slow, index + len(formats), index)
            formats = formats + [dequantised(name) for name in formats]
        return self.calibration.gemm(c.accelerator, formats, index, self._engine)

    def _formats(self, part: str) -> list[str]:
        return [getattr(weights, part).name for weights in self.candidates.palette.weight_formats]

    @property
    def _cache_formats(self) -> list[str]:
        return [precision.name for precision in self.candidates.palette.kv_precisions]

    @cached_property
    def _engine(self) -> IntArray:
        return engine_index([engine.name for engine in self.candidates.palette.engines])[self.candidates.engine]
