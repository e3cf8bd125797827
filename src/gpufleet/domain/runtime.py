"""What executes one pass of an encoder: how it launches kernels, and how much memory traffic it saves."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.engine_images import EngineImages
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
        """Measured on its own GPUs, and on any where many rows on several GPUs agree; transferred where others were.

        Without any row only kernels are known, not how a runtime launches them.

        >>> Measured(4, ("T4",)).grade_on("H100-SXM").label, Measured(0, ()).grade_on("T4").label
        ('transferred', 'roofline')
        """
        if not self.rows:
            return Grade.ROOFLINE
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


@dataclass(frozen=True)
class Usual:
    """Families of models that are served with a runtime unless another is named; of several the lowest `rank`."""

    rank: int
    families: tuple[str, ...]


@dataclass(frozen=True)
class Unfused:
    """Where attention writes its scores to memory although the head size would allow one kernel."""

    families: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Runtime:
    """Judgements about one runtime; every constant comes from `data/runtimes/<name>.toml` with its source.

    It runs models of `families` (empty: of all) on devices of `vendors`; of NVIDIA's from `least_compute_capability` on
    and, where it comes in images, those that `images` has one for in
    the `version` that was asked for, or the newest; beside CPUs of `hosts` (empty: all). A pass takes
    the longer of its kernels and of `launch_s` per kernel, which is the host's time. Attention is one kernel for head
    sizes in `fused_head_dims` (empty: none, a 0: all) in 16 bits and less, but for `unfused`. `passes_range` is of
    models that write no answer, `answers_range` of those that do; `speech` None: not made to transcribe.
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
    families: tuple[str, ...] = ()
    usual: Usual | None = None
    unfused: Unfused = Unfused()
    images: EngineImages = EngineImages()
    version: str | None = None
    least_compute_capability: float | None = None
    hosts: tuple[str, ...] = ()

    def runs(self, family: str) -> bool:
        """Whether it runs models of this family."""
        return not self.families or family in self.families

    def runs_beside(self, host_architecture: str) -> bool:
        """Whether it runs on machines with such CPUs."""
        return not self.hosts or host_architecture in self.hosts

    def runs_on(self, gpu: Accelerator) -> bool:
        """Whether it runs on this device; one whose compute capability nobody states is taken to do."""
        if gpu.vendor not in self.vendors or not self.runs_beside(gpu.host_architecture):
            return False
        if gpu.compute_capability is None:
            return not self.images.capabilities
        is_new = self.least_compute_capability is None or float(gpu.compute_capability) >= self.least_compute_capability
        return is_new and (not self.images.capabilities or self.image_on(gpu) is not None)

    def image_on(self, gpu: Accelerator) -> str | None:
        """The container image for this device, where one is known."""
        return self.images.image(self.version, gpu.vendor, gpu.host_architecture, gpu.compute_capability)

    def running(self, family: str, gpu: Accelerator) -> Runtime:
        """The same as it runs this family on this device: with its attention in one kernel, or in several."""
        is_unfused = family in self.unfused.families or gpu.generation in self.unfused.generations
        return replace(self, fused_head_dims=()) if is_unfused else self

    def range_of(self, writes_answer: bool) -> LogRange:
        """The range of a model that writes an answer, or of one that does not."""
        return self.answers_range if writes_answer else self.passes_range

    def fuses_attention(self, head_dim: int, bytes_per_element: float) -> bool:
        """Whether attention of this head size never writes its scores to memory."""
        is_small = bytes_per_element <= 2
        return is_small and (0 in self.fused_head_dims or head_dim in self.fused_head_dims)
