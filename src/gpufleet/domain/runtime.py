"""What executes one pass of an encoder: how it launches kernels, and how much memory traffic it saves."""

from __future__ import annotations

from dataclasses import dataclass

from gpufleet.provenance import Sourced


@dataclass(frozen=True)
class Passes:
    """Element-wise traffic of one layer, counted in the code of a runtime, beside its products and its attention.

    `hidden`: reads and writes of a token's hidden state; `mlp`: of its feed-forward state; `scores`: of a score of two
    tokens where attention is not one kernel; `kernels` and `score_kernels`: launches of these.
    """

    hidden: float
    mlp: float
    scores: float
    kernels: int
    score_kernels: int


@dataclass(frozen=True, eq=False)
class Runtime:
    """Judgements about one runtime; every constant comes from `data/runtimes/<name>.toml` with its source.

    It runs on devices of `vendors`. A pass takes the longer of its kernels and of `launch_s` per kernel, which is the
    host's time. Attention is one kernel for head sizes in `fused_head_dims` (empty: none, a 0: all) in 16 bits and
    less. `log_low` and `log_high` are the 10th and 90th percentile of ln(measured / predicted) on measurements left
    out of the fit.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    vendors: tuple[str, ...]
    launch_s: Sourced
    passes: Passes
    product_kernels: int
    fused_head_dims: tuple[int, ...]
    reserve_bytes: Sourced
    hidden_copies: Sourced
    log_low: Sourced
    log_high: Sourced
    formats: tuple[str, ...]
    grade: str = "measured"

    def fuses_attention(self, head_dim: int, bytes_per_element: float) -> bool:
        """Whether attention of this head size never writes its scores to memory."""
        is_small = bytes_per_element <= 2
        return is_small and (0 in self.fused_head_dims or head_dim in self.fused_head_dims)
