"""What users get of training: one layout's step and memory, and priced plans of whole runs."""

from __future__ import annotations

from gpufleet.domain.verdict import FITS, TIGHT
from gpufleet.results.answer import Answer
from gpufleet.results.base import ExplainedTerm, Figure, Result
from gpufleet.results.job import JobPlan, RentedJob


class TrainingLayout(Result):
    """How the work is laid out: GPUs that work are tp pp cp dp; `num_micro_batches` a step and rank.

    `sharding` and `recompute` by the names of the field; `stages_differ`: some stages hold a layer more.
    """

    tp: int = 1
    pp: int = 1
    interleave: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    sharding: str = "DDP"
    micro_batch: float = 1
    num_micro_batches: float = 1
    recompute: str = "none"
    stages_differ: bool = False

    @property
    def num_gpus(self) -> int:
        """GPUs that work."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def label(self) -> str:
        """Field shorthand: TP4/PP2x3/DP8 ZeRO-1, micro-batch 2, no recomputation."""
        parts = [f"{name}{size}" for name, size in (("TP", self.tp), ("CP", self.cp), ("EP", self.ep)) if size > 1]
        if self.pp > 1:
            parts.append(f"PP{self.pp}" + (f"x{self.interleave}" if self.interleave > 1 else ""))
        if self.dp > 1 or not parts:
            parts.append(f"DP{self.dp}")
        shards = f" {self.sharding}" if self.dp * self.cp > 1 else ""
        return "/".join(parts) + shards

    @property
    def short_label(self) -> str:
        """The same without the sharding of a pipeline, which keeps weights and gradients whole."""
        return self.label.partition(" ")[0] if self.pp > 1 else self.label


class TrainingSpeed(Result):
    """One step of a layout: its time, what it is made of, and how well the GPUs are used.

    `exposed_s` sum to the step. `mfu_ratio`: 6 x active parameters and attention over causal pairs, over the dense
    peak of 16 bits; `hfu_ratio` counts what is computed again as well.
    """

    step_s: Figure
    tokens_per_s_per_gpu: Figure
    exposed_s: dict[str, float]
    mfu_ratio: float
    hfu_ratio: float
    binding: str


class TrainingMemoryFigures(Result):
    """Memory of the fullest GPU of a layout, by term, and whether it fits.

    `host_bytes` of each GPU lie in host memory; the machine needs `host_need_bytes` of its own `host_memory_bytes`,
    which is None where nothing lies there or nobody says how much there is.
    """

    total_bytes: Figure
    peak_bytes: Figure
    device_bytes: float
    host_bytes: float
    host_need_bytes: float = 0.0
    host_memory_bytes: float | None = None
    terms: list[ExplainedTerm]
    verdict: str

    @property
    def fits(self) -> bool:
        """Whether the expected total has room."""
        return self.fits_gpu and self.fits_host

    @property
    def fits_gpu(self) -> bool:
        """Whether the expected total has room on the GPU."""
        return self.total_bytes.value <= self.device_bytes

    @property
    def fits_host(self) -> bool:
        """Whether the machine has room for what lies outside of its GPUs, as far as is known."""
        return self.host_memory_bytes is None or self.host_need_bytes <= self.host_memory_bytes


class TrainingEstimate(Answer):
    """A training step of a model in one layout on given GPUs."""

    model: str
    method: str
    gpu: str
    num_gpus: int
    layout: TrainingLayout
    speed: TrainingSpeed
    memory: TrainingMemoryFigures


class TrainingDeployment(RentedJob):
    """Machines that train a model, in which layout, until when and for how much.

    As of any job, with sequences for requests: a copy of the model works on `requests_per_replica` sequences in all,
    a step takes `wave_s`. `steps` of the whole run; failures and restarts are in `finish_s` and `paid_s`:
    `failures` are expected, and a checkpoint every `checkpoint_interval_s`.
    """

    layout: TrainingLayout
    speed: TrainingSpeed
    memory: TrainingMemoryFigures
    steps: float
    tokens_per_s: Figure
    gpu_hours: Figure
    usd_per_million_tokens: Figure
    energy_kwh: Figure | None = None
    failures: float
    failures_are_counted: bool
    checkpoint_write_s: float
    checkpoint_interval_s: float
    network_is_assumed: bool = False


class OtherStack(Result):
    """Usual software other than what was assumed, in which it does not fit: what it takes in its best layout.

    `is_choice`: the answer chose what differs (its layout), so that its verdict holds as it stands.
    """

    assumed: str
    otherwise: str
    flag: str
    verdict: str
    total_bytes: float
    device_bytes: float
    is_choice: bool = False


class TrainingPlan(JobPlan):
    """Ways to train a model on so many tokens, cheapest first; the first is the answer. None means infeasible.

    `requests` are sequences. `deadline_s` is infinite where none was asked. `faster`: the soonest of all that were
    looked at; `steady`: the cheapest that cannot be taken away, where the answer can. `otherwise`: usual software that
    nobody ruled out and for which the machines to rent are too small.
    """

    method: str
    num_active_parameters: int
    num_trained_parameters: int
    tokens: float
    sequence_tokens: float
    global_batch: int
    precision: str
    optimizer: str
    checkpoint_bytes: float
    deployments: list[TrainingDeployment]
    faster: TrainingDeployment | None = None
    steady: TrainingDeployment | None = None
    least_gpus: int | None = None
    otherwise: list[OtherStack] = []

    @property
    def memory_verdict(self) -> str:
        """How the answer fits: tight where usual software that nobody ruled out would not."""
        own = self.answer.memory.verdict
        return TIGHT if own == FITS and not all(stack.is_choice for stack in self.otherwise) else own

    @property
    def answer(self) -> TrainingDeployment:
        """The cheapest way."""
        return self.deployments[0]


class LargestThatFits(Result):
    """The most that one setting allows with all others kept."""

    micro_batch: int | None = None
    sequence_tokens: int | None = None


class TrainingChange(Result):
    """A change of the question with which it fits: what to say instead, and the memory then.

    Where something lies in host memory, its machine needs `host_need_bytes`, as `host_machine` has.
    """

    change: str
    flag: str
    layout: str
    verdict: str
    total_bytes: float
    device_bytes: float
    host_bytes: float = 0.0
    host_need_bytes: float = 0.0
    host_machine: str = ""


class TrainingFit(Answer):
    """Whether training a model fits given GPUs: memory by term, the most that fits, and what would help.

    `estimate` is of the fastest layout that fits, else of the one with least memory. `largest` and the choice of the
    layout hold with `confidence`, where anything does. `longest_sequence_tokens` is the model's own limit.
    `host_machine` has the memory for what lies outside of the GPUs, or the most of any. `verdict` is tight where
    usual software that nobody ruled out would not fit (`otherwise`).
    """

    model: str
    method: str
    num_parameters: int
    num_trained_parameters: int
    gpu: str
    num_gpus: int
    num_machines: int
    rank: int | None = None
    sequence_tokens: float
    longest_sequence_tokens: int
    global_batch: int
    precision: str
    optimizer: str
    confidence: float
    num_layouts: int
    estimate: TrainingEstimate
    largest: LargestThatFits
    host_machine: str = ""
    changes: list[TrainingChange]
    otherwise: list[OtherStack] = []

    @property
    def fits(self) -> bool:
        """Whether the expected total has room."""
        return self.estimate.memory.fits
