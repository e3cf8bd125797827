"""Hardware figures of every candidate, gathered once by index from the stacked calibration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpufleet.domain.arrays import FloatArray
from gpufleet.domain.calibration import (
    AttentionCurves,
    Calibration,
    CollectiveCurves,
    Curves,
    ExpertCurves,
    GemmCurves,
    LatentAttentionCurves,
    engine_index,
)
from gpufleet.domain.candidates import Candidates


@dataclass(frozen=True)
class Hardware:
    """Curves per operator, each with one element per candidate; those of rarer mixers are gathered when asked for."""

    attention_gemm: GemmCurves
    mlp_gemm: GemmCurves
    head_gemm: GemmCurves
    router_gemm: GemmCurves
    experts: ExpertCurves
    attention: AttentionCurves
    latent_attention: LatentAttentionCurves
    collectives: CollectiveCurves
    bandwidth_bytes_per_s: FloatArray
    mixer: Callable[[str], Curves]


def gather_hardware(calibration: Calibration, candidates: Candidates) -> Hardware:
    """The curves of each candidate's accelerator at the precision of each part of its weight format."""
    c, palette = candidates, candidates.palette
    gpu = c.accelerator
    formats, kv = palette.weight_formats, [p.name for p in palette.kv_precisions]
    engine = engine_index([e.name for e in palette.engines])[c.engine]

    def precision_of(part: str) -> list[str]:
        return [getattr(f, part).name for f in formats]

    return Hardware(
        attention_gemm=calibration.gemm(gpu, precision_of("attention"), c.weight_format, engine),
        mlp_gemm=calibration.gemm(gpu, precision_of("mlp"), c.weight_format, engine),
        head_gemm=calibration.gemm(gpu, precision_of("head"), c.weight_format, engine),
        router_gemm=calibration.gemm(gpu, precision_of("base"), c.weight_format, engine),
        experts=calibration.experts(gpu, precision_of("experts"), c.weight_format, engine),
        attention=calibration.attention(gpu, kv, c.kv_precision, engine),
        latent_attention=calibration.latent_attention(gpu, kv, c.kv_precision, engine),
        collectives=calibration.collectives(gpu, c.link_is_pcie, c.link_bytes_per_s, engine),
        bandwidth_bytes_per_s=np.array([a.bandwidth_bytes_per_s for a in palette.accelerators])[gpu],
        mixer=lambda operator: calibration.mixer(operator, gpu, precision_of("base"), c.weight_format, engine),
    )
