"""What `gpufleet rules` is asked: a question for each rule, the seed's own example where nothing is said."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gpufleet.compat.rules.gpus import precision_bytes
from gpufleet.compat.rules.memory import calculate_memory_requirements
from gpufleet.compat.rules.runtime import FLOP_PER_PARAMETER_INFERENCE, FLOP_PER_PARAMETER_TRAINING, WorkloadProfile
from gpufleet.compat.rules.savings import SPOT_RATIO, hours_between
from gpufleet.compat.rules.scaling import ParallelismStrategy
from gpufleet.errors import UsageError
from gpufleet.questions.words import (
    COUNT,
    PLAIN_NUMBER,
    ROW_COUNT,
    SHARE,
    Kind,
    Request,
    Word,
    flag_of,
    flag_word,
    maybe_file,
    names,
    optional,
    plain,
    text,
    time_like,
    usual,
    worded,
)
from gpufleet.records import dataclass
from gpufleet.units import (
    DAY,
    GB,
    HOUR,
    HOURS_PER_MONTH_SEEDS,
    MINUTE,
    USD_PER_HOUR,
    Bounds,
    parse_bytes,
    parse_corpus,
    parse_tokens,
)

DEFAULT_GPU = "A100-80GB"
PASSES_OF_TRAINING = 20
SEED_HOURS_OFF = 12.0
MANY = Bounds(1, 1_000_000, "")


def plausible_price(text: str, _: str) -> float:
    """A price that a machine could have, or zero: it is free then."""
    usd_per_hour = float(text)
    if usd_per_hour:
        USD_PER_HOUR.refuse_outside(usd_per_hour, "--price", usd_per_hour)
    return usd_per_hour


def parse_night(text: str) -> tuple[float, float]:
    """Hours of a day from which and to which machines are off: '22-6', '22:00-06:30'.

    >>> parse_night("22:30-6")
    (22.5, 6.0)
    """
    match = re.fullmatch(r"\s*(\d{1,2})(?::(\d{2}))?\s*-\s*(\d{1,2})(?::(\d{2}))?\s*", text)
    parts = [int(part or 0) for part in match.groups()] if match else []
    times = [hour + minute * MINUTE / HOUR for hour, minute in zip(parts[::2], parts[1::2], strict=True)]
    if not times or max(times) > DAY / HOUR or max(parts[1::2]) >= MINUTE:
        raise UsageError("cannot read the hours that are off", found=text, expected="'22-6' or '22:00-06:30'")
    return times[0], times[1]


TOKENS = Kind("TOKENS", plain(parse_tokens))
GIGABYTES = Kind("SIZE", lambda text, _: parse_bytes(text) / GB)
SIZE = Word(text("[SIZE]"), "Parameters, such as 7B, or a model, such as llama-3.1-8b.", is_argument=True)
PARAMETERS = Word(COUNT, "Parameters, such as 7B or 350M; default: those of --model.")
PRECISION = Word(Kind("NAME", plain(str.casefold)), "fp32, fp16, bf16, fp8 or int8.")
MODEL = Word(maybe_file("MODEL"), "Model for our own answer; default: the nearest in parameters.")
TRAINING = flag_word("Training instead of inference.")
BATCH = Word(ROW_COUNT, "Sequences in a batch.", bounds=MANY)
GPU = Word(text("NAME"), "GPU whose engine memory is counted; default A100-80GB.")
PRICE = Word(Kind("USD", plausible_price, takes=float), "Price per hour.", name="price", bounds=Bounds(0, math.inf, ""))
CONTEXT = Word(TOKENS, "Tokens of prompt and answer of a user; default 4k, of right-size 2048.", name="context")


@dataclass(frozen=True, kw_only=True)
class MemoryQuestion(Request):
    """Memory of a model by part; by default the seed's example of 7B."""

    size: str | None = worded(SIZE)
    parameters: float = worded(PARAMETERS, 7e9)
    precision: str = worded(PRECISION, "fp16")
    batch: int = worded(BATCH, 4)
    tokens: int = usual(
        2048,
        Kind("TOKENS", lambda text, _: round(parse_tokens(text))),
        "Tokens of a sequence, such as 8k; default 2048.",
        name="sequence",
    )
    training: bool = flag_of(TRAINING)
    model: str | None = worded(MODEL)
    gpu: str = worded(GPU, DEFAULT_GPU)

    def rule(self) -> dict[str, float]:
        """The seed's figures."""
        size = precision_bytes(self.precision)
        return calculate_memory_requirements(round(self.parameters), size, self.batch, self.tokens, self.training)


@dataclass(frozen=True, kw_only=True)
class RuntimeQuestion(Request):
    """Time, cost and energy of tokens on a GPU; then hours to train on 100M tokens."""

    size: str | None = worded(SIZE)
    parameters: float = worded(PARAMETERS, 7e9)
    tokens: float = usual(1000, COUNT, "Tokens to read or write, or to train on.")
    precision: str = worded(PRECISION, "fp16")
    training: bool = flag_of(TRAINING)
    gpus: Sequence[str] = usual(
        ("consumer", "datacenter"),
        names("NAME,..."),
        "consumer, datacenter (the seed's two), or GPUs of the catalog.",
        name="gpu",
    )
    efficiency: float = usual(0.6, SHARE, "Share of the peak; default 60%.")
    memory_accessed_gb: float | None = optional(
        GIGABYTES, "Memory read and written, such as 14GB; default: the weights.", name="memory_moved"
    )
    price_usd_per_hour: float | None = worded(PRICE)
    model: str | None = worded(MODEL)
    training_tokens: float = usual(
        100e6, COUNT, "Tokens of the table of training times; default 100M.", name="train_on"
    )
    tokens_per_s: float | None = optional(COUNT, "Your own training rate, as one more row.")

    def workload(self) -> WorkloadProfile:
        """The seed's counts: 2 or 6 FLOP a parameter and token; weights read once, or twenty times in training."""
        flop = FLOP_PER_PARAMETER_TRAINING if self.training else FLOP_PER_PARAMETER_INFERENCE
        weights_gb = self.parameters * precision_bytes(self.precision) / GB
        passes = PASSES_OF_TRAINING if self.training else 1
        moved_gb = passes * weights_gb if self.memory_accessed_gb is None else self.memory_accessed_gb
        return WorkloadProfile(self.parameters * flop * self.tokens, moved_gb, self.precision)


@dataclass(frozen=True, kw_only=True)
class ScalingQuestion(Request):
    """Memory, efficiency and speedup of several GPUs, by strategy."""

    num_gpus: int = usual(8, ROW_COUNT, "Number of GPUs; default 8.", name="gpus", bounds=Bounds(1, 4096, ""))
    strategies: Sequence[str] = usual(
        tuple(strategy.name for strategy in ParallelismStrategy),
        names("NAME,..."),
        "data, model, pipeline, tensor; all by default.",
        name="strategy",
    )
    model_size_gb: float = usual(
        14.0, GIGABYTES, "Memory of the model, such as 14GB; default: --model in FP16.", name="model_size"
    )
    batch: int = worded(BATCH, 32)
    overhead: float = usual(0.1, SHARE, "Share lost to communication; default 10%.")
    model: str | None = worded(MODEL)
    gpu: str = worded(GPU, DEFAULT_GPU)


@dataclass(frozen=True, kw_only=True)
class GpusQuestion(Request):
    """Number of GPUs for inference and training, and the size class of a model."""

    size: str | None = worded(SIZE)
    parameters: float = worded(PARAMETERS, 70e9)
    precision: str = worded(PRECISION, "fp16")
    gpu_memory_gb: float = usual(80.0, GIGABYTES, "Memory of one GPU, such as 24GB; default 80GB.", name="gpu_memory")
    gpu: str | None = worded(GPU, says="GPU for our own answer, instead of a memory size.")
    context_tokens: float = worded(CONTEXT, 4096)
    users: int = usual(1, ROW_COUNT, "Users at once; default 1.", bounds=MANY)
    model: str | None = worded(MODEL)
    train_on: float | None = optional(Kind("N", plain(parse_corpus)), "Tokens to train on, such as 10B; with --within.")
    within_s: float | None = optional(
        time_like("'24h' or '3d'"),
        "Time for them: 24h, 3d, 1week; counts the GPUs that are in time.",
        name="within",
    )


@dataclass(frozen=True, kw_only=True)
class RightSizeQuestion(Request):
    """The smallest GPU for a model by the seed's table, and the size classes."""

    model: str | None = optional(
        maybe_file("[MODEL]"), "A row of the seed's table, such as 'Llama 7B'; all by default.", is_argument=True
    )
    context_tokens: float = worded(CONTEXT, 2048.0)


@dataclass(frozen=True, kw_only=True)
class SavingsQuestion(Request):
    """Monthly costs, and what spot, commitment and switching off save."""

    instance: str | None = optional(text("NAME"), "Instance type, such as g5.xlarge.")
    price_usd_per_hour: float | None = worded(PRICE)
    num_instances: int = usual(1, ROW_COUNT, "Number of machines; default 1.", name="count", bounds=MANY)
    hours_per_month: float = usual(
        HOURS_PER_MONTH_SEEDS, PLAIN_NUMBER, "Hours a month; default 720.", name="hours", bounds=Bounds(0, 744, "")
    )
    spot_ratio: float = usual(SPOT_RATIO, SHARE, "What spot saves, by the rule; default 70%.", name="spot")
    night: tuple[float, float] | None = optional(
        Kind("FROM-TO", plain(parse_night)), "Hours of the day when machines are off, such as 22-6.", name="off"
    )

    @property
    def is_own(self) -> bool:
        """Whether a machine or a price was named; without one the seeds' examples are shown."""
        return self.instance is not None or self.price_usd_per_hour is not None

    @property
    def hours_off_per_day(self) -> float:
        """Hours switched off: those between the stated times, or the seed's twelve."""
        return SEED_HOURS_OFF if self.night is None else hours_between(*self.night)


NOTHING_SAID: frozenset[str] = frozenset()
MEMORY_OF_TRAINING = MemoryQuestion(precision="fp32", batch=2, training=True, said=NOTHING_SAID)
RUNTIME_OF_TRAINING = RuntimeQuestion(tokens=10000, training=True, said=NOTHING_SAID)
TRAINING_EXAMPLES: dict[type[Request], Request] = {
    type(example): example for example in (MEMORY_OF_TRAINING, RUNTIME_OF_TRAINING)
}
"""The seed's own example of training, of the questions that ask about either."""
