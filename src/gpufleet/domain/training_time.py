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

    `sustained` x seconds of measured products is what long runs see, `sustained_fp8` in 8 bits, `sustained_nvfp4` in 4.
    `attention_fused` and `attention_flash_2` are the shares of the peak that kernels of attention reach
    (`AttentionKernel`). `figures` by name, for all GPUs:

    - attention: / (1 + `attention_ramp_tokens` / sequence) x (head / 128)^`head_exponent`; FlashAttention 1 reaches
      `flash_1_ratio` of version 2; backward passes reach `backward_attention_ratio` of the forward one's rate. Without
      flash `score_bytes` move for each score.
    - element-wise bytes: `hidden_bytes` (`.._eager`) a token and hidden element, `mlp_bytes` an inner one,
      `logit_bytes` a logit, `adapter_bytes` one that adapters touch.
    - adapters: products as narrow as a rank reach `narrow_product_ratio` of the peak.
    - experts: a layer waits `expert_layer_s` for the host, of which `expert_grouped_ratio` remains since
      `expert_grouped_year` of a generation. `recurrent_bytes` an element that passes through states, `biased_bytes` an
      inner one of experts with biases, whose activation is not fused.
    - links reach `link_ratio` of their rate, `shard_link_ratio` beside computing, networks `network_ratio`; a
      collective takes `latency_s` a rank. Of traffic `tensor_exposed` (`.._eager`), `expert_exposed` and at least
      `shard_exposed` is waited for; data parallelism hides behind `hidden_ratio` (`.._eager`) of the computing.
    - young software: `immaturity` a year by which it is younger than `mature_years` after its GPU,
      `unknown_immaturity_years` where it is not dated.
    - host: `host_s` (`.._eager`) launches a layer forward and backward; `optimizer_ratio`, `dequantised_ratio` of the
      bandwidth; `offload_exposed` of what hides behind computing, `host_memory_bytes_per_s` of a machine.

    `spreads` bound measured / predicted seconds by kind of run.
    """

    sustained: Mapping[str, Sourced]
    sustained_fp8: Mapping[str, Sourced]
    sustained_nvfp4: Mapping[str, Sourced]
    attention_fused: Mapping[str, Sourced]
    attention_flash_2: Mapping[str, Sourced]
    expert_grouped_year: Mapping[str, Sourced]
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
        row: Sourced | None = getattr(self, table).get(generation)
        return row is not None and bool(row.points)
