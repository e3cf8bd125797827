"""What was fitted of training runs: how far real steps lie from measured kernels, and how far predictions miss."""

from __future__ import annotations

from collections.abc import Mapping

from gpufleet.provenance import Sourced
from gpufleet.records import dataclass

USUAL = "usual"
"""The row of a table for generations that nobody measured."""


@dataclass(frozen=True)
class TrainingTimeConstants:
    """Constants of `performance.training`; tables by generation of the GPU.

    `sustained` x seconds of measured products is what long runs see, `sustained_eager` without fused kernels,
    `sustained_fp8` in 8 bits, `sustained_experts` x that on routed experts. `attention` is the share of the peak that
    flash attention reaches, `attention_eager` before the generation's own kernels, each / (1 + `attention_ramp_tokens`
    / sequence) x (head / 128)^`head_exponent`. `score_bytes` move for each score where attention is not flash.
    Element-wise kernels move `hidden_bytes` a token and hidden element (`hidden_bytes_eager` without fusion),
    `mlp_bytes` an inner one, `logit_bytes` a logit, `routed_bytes` an element on its way to an expert,
    `adapter_bytes` an element that adapters touch. Links reach `link_ratio` of their rate under tensor parallelism,
    `shard_link_ratio` beside computing, networks `network_ratio`. Of traffic `tensor_exposed` (`.._eager`),
    `expert_exposed` and at least `shard_exposed` is waited for; data parallelism hides behind `hidden_ratio` of the
    computing (`hidden_ratio_eager` without overlap). `latency_s` a rank and collective. `immaturity` a year by which
    the software is younger than `mature_years` after the GPU; `unknown_immaturity_years` where it is not dated.
    `host_s` launches one layer forward and backward (`host_s_eager`). `dequantised_ratio` of the bandwidth.
    """

    sustained: Mapping[str, Sourced]
    sustained_eager: Mapping[str, Sourced]
    sustained_fp8: Mapping[str, Sourced]
    attention: Mapping[str, Sourced]
    attention_eager: Mapping[str, Sourced]
    figures: Mapping[str, Sourced]
    spreads: Mapping[str, Sourced]

    def value(self, name: str) -> float:
        """A constant that all GPUs share."""
        return self.figures[name].value

    def of(self, table: str, generation: str) -> float:
        """A constant of a generation, or of those that nobody measured."""
        rows: Mapping[str, Sourced] = getattr(self, table)
        return rows.get(generation, rows[USUAL]).value

    def is_measured(self, table: str, generation: str) -> bool:
        """Whether a run on this generation is behind a constant."""
        return generation in getattr(self, table)
