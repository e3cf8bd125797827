"""What executes one pass of an encoder: how it launches kernels, and how much memory traffic it saves."""

from __future__ import annotations

from gpufleet.provenance import Grade, Sourced
from gpufleet.records import dataclass

FEWEST_ROWS, FEWEST_GPUS = 10, 2


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


@dataclass(frozen=True)
class Copies:
    """Tensors that a pass holds at a time: `mlp` of feed-forward state, `scores`, `convolved` of a convolution."""

    mlp: float
    scores: float
    convolved: float


@dataclass(frozen=True)
class Measured:
    """How many published rows the constants of a runtime rest on, and on which GPUs."""

    rows: int
    gpus: tuple[str, ...]

    def grade_on(self, gpu: str) -> Grade:
        """Measured on its own GPUs, and on any where many rows on several GPUs agree; elsewhere transferred.

        >>> Measured(4, ("T4",)).grade_on("H100-SXM").label
        'transferred'
        """
        is_broad = self.rows >= FEWEST_ROWS and len(self.gpus) >= FEWEST_GPUS
        return Grade.MEASURED if is_broad or gpu in self.gpus else Grade.TRANSFERRED


@dataclass(frozen=True)
class LogRange:
    """10th and 90th percentile of ln(measured / predicted) on measurements left out of the fit, and what was fitted."""

    low: Sourced
    high: Sourced
    measured: Measured


@dataclass(frozen=True)
class Speech:
    """How a runtime takes a recording: what the host does for each second of it, and how windows follow.

    `host_s_per_audio_s`: reading it and making mel frames, while the GPU waits. `new_audio_ratio`: the share of a
    window that the one before has not heard. `most_windows`: windows that it takes together, None without limit.
    `beams`: hypotheses that it keeps unless it is told.
    """

    host_s_per_audio_s: Sourced
    new_audio_ratio: Sourced
    most_windows: int | None
    beams: int


@dataclass(frozen=True, eq=False)
class Runtime:
    """Judgements about one runtime; every constant comes from `data/runtimes/<name>.toml` with its source.

    It runs on devices of `vendors`. A pass takes the longer of its kernels and of `launch_s` per kernel, which is the
    host's time. Attention is one kernel for head sizes in `fused_head_dims` (empty: none, a 0: all) in 16 bits and
    less. `passes_range` is of models that write no answer, `answers_range` of those that do; `speech` None: not made to
    transcribe.
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
    copies: Copies
    passes_range: LogRange
    answers_range: LogRange
    formats: tuple[str, ...]
    speech: Speech | None = None

    def range_of(self, writes_answer: bool) -> LogRange:
        """The range of a model that writes an answer, or of one that does not."""
        return self.answers_range if writes_answer else self.passes_range

    def fuses_attention(self, head_dim: int, bytes_per_element: float) -> bool:
        """Whether attention of this head size never writes its scores to memory."""
        is_small = bytes_per_element <= 2
        return is_small and (0 in self.fused_head_dims or head_dim in self.fused_head_dims)
