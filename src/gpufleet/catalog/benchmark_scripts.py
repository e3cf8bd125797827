"""How published benchmarks loaded an engine and what they built it for, from `data/benchmarks`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any, NamedTuple

from gpufleet.catalog.schema import Place, number, required_number, text, whole
from gpufleet.catalog.table_files import SHIPPED, table_in, tables_of
from gpufleet.domain.versions import version_key
from gpufleet.records import dataclass

FOLDER = SHIPPED / "benchmarks"
QUEUE_COLUMNS = ("published_in", "input_tokens", "output_tokens", "requests", "source_id")
CONDITIONS = ("engine", "model_id", "gpu", "precision", "tp", "input_tokens", "total_tokens")
LIMITS = ("max_batch", "max_step_tokens", "memory_fraction", "mixes_prompts")
WAITS = ("batch_wait_steps", "batch_wait_ratio")
OPTIONS = (*LIMITS, "kv_precision", "poll_interval_steps", *WAITS, "whole_experts", "splits_rows")
OPTION_COLUMNS = ("published_in", *CONDITIONS, "since_version", *OPTIONS, "source_id")
POOL_LOAD = (
    "published_in",
    "engine",
    "model_id",
    "gpu",
    "precision",
    "isl",
    "prefill_copies",
    "decode_copies",
    "concurrency",
)
FIRST_TOKEN_COLUMNS = ("engine", "until_version", "late_steps", "late_s", "points", "source_id")
POOL_LIMITS = ("prefill_max_batch", "prefill_max_step_tokens", "decode_max_batch")
USUAL_WAVES = 10
"""Prompts per client where nobody says: a benchmark of few waves would be mostly its start burst."""


@dataclass(frozen=True)
class Polling:
    """Decode steps between two looks for new requests on GPUs of some generations: others from `crowd` clients on."""

    generations: Sequence[str]
    few_steps: float
    crowd: int
    crowd_steps: float


@dataclass(frozen=True)
class BenchmarkClient:
    """What one client does with every engine, and what it asks of some, by the engine's name.

    `runs`: into how many runs, one after another, the requests of a row at a rate are split.
    `mean_length_ratio`: mean length of what it sends over the stated one; `published_in`: marks of the sources that
    publish its results; `prompts_in_turn`: how many prompts, all of one length, it sends there again and again.
    `uncounted_waves`: prompts that each client of a closed loop sends before any is counted.
    `is_alike`: its requests are alike to the token and each is sent as soon as the last is answered, so that clients of
    a closed loop may stay in step.
    """

    waves: int = USUAL_WAVES
    runs: int = 1
    polling: Mapping[str, Polling] = field(default_factory=dict)
    gather_steps: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    mean_length_ratio: float = 1.0
    published_in: Sequence[str] = ()
    prompts_in_turn: int | None = None
    is_alike: bool = False
    uncounted_waves: int = 0


class StartLimits(NamedTuple):
    """Sequences and tokens of a step, and share of memory, that an engine was started for; None: its default.

    `mixes_prompts`: it was asked to let prompts and decoding share steps.
    """

    max_batch: int | None = None
    max_step_tokens: int | None = None
    memory_fraction: float | None = None
    mixes_prompts: bool = False


class Queue(NamedTuple):
    """Requests that a benchmark queued at once, by their lengths."""

    published_in: str
    input_tokens: float
    output_tokens: float
    requests: int
    source: str


class LaunchOptions(NamedTuple):
    """What a benchmark started or built an engine with; None: the engine's choice.

    `poll_interval_steps`: where the script polls otherwise than its client usually does. `whole_experts`: the script
    spreads whole experts over the GPUs of a replica, whatever EP its configuration names. `batch_wait`: steps that
    prompts wait at most for others, and the share of a step's budget of tokens that ends their wait. `splits_rows`:
    GPUs share each product, in an engine that gives each a run of layers today.
    """

    limits: StartLimits = StartLimits()
    kv_precision: str | None = None
    poll_interval_steps: float | None = None
    whole_experts: bool = False
    batch_wait: tuple[float, float] = (0.0, 0.0)
    splits_rows: bool = False


class FirstTokens(NamedTuple):
    """How late clients of a closed loop see first tokens of an engine before `until_version`: steps and seconds.

    Fitted to replays of `points` measured loops; None: every version.
    """

    engine: str
    until_version: str | None
    late_steps: float
    late_s: float
    points: int
    source: str

    def holds(self, engine: str, version: str | None) -> bool:
        """Whether a version of an engine is one of these."""
        until = self.until_version
        is_old = until is None or (version is not None and version_key(version) < version_key(until))
        return is_old and engine == self.engine


class StartedPools(NamedTuple):
    """What a benchmark started its copies for that prefill and those that decode, under a `load` of POOL_LOAD.

    Sequences are of one group of attention-DP.
    """

    load: Mapping[str, str]
    prefill_max_batch: int | None
    prefill_max_step_tokens: int | None
    decode_max_batch: int | None
    source: str


class Launched(NamedTuple):
    """How a benchmark started an engine where `conditions` hold: those of the columns CONDITIONS that are stated.

    `since_version`: the first version that was started so; None: all.
    """

    published_in: str
    conditions: Mapping[str, str]
    since_version: str | None
    options: LaunchOptions
    source: str

    def holds(self, run: Mapping[str, str | None], version: str | None) -> bool:
        """Whether a run of that version was started so; none is older than all, a build with a name newer than all."""
        since = self.since_version
        is_new = since is None or (version is not None and version_key(version) >= version_key(since))
        return is_new and self.conditions.items() <= run.items()

    @property
    def num_conditions(self) -> int:
        """How much is asked of a run: of two rows that hold, the one that asks more counts."""
        return len(self.conditions) + (self.since_version is not None)


class BenchmarkScripts(NamedTuple):
    """All that is known of published benchmarks."""

    clients: Mapping[str, BenchmarkClient]
    queues: tuple[Queue, ...]
    launches: tuple[Launched, ...]
    pools: tuple[StartedPools, ...]
    first_tokens: tuple[FirstTokens, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Ids in sources.toml of every row."""
        rows = [*(client.source for client in self.clients.values()), *(queue.source for queue in self.queues)]
        rows += [launched.source for launched in self.launches]
        rows += [started.source for started in self.pools]
        rows += [late.source for late in self.first_tokens]
        return tuple(dict.fromkeys(rows))


@lru_cache(maxsize=1)
def load_benchmark_scripts() -> BenchmarkScripts:
    """The shipped tables.

    >>> load_benchmark_scripts().clients["inferencex"].waves
    10
    """
    return BenchmarkScripts(
        clients={name: client_from(table) for name, table in tables_of(FOLDER / "clients.toml")},
        queues=tuple(table_in(FOLDER, "queued_requests.csv", QUEUE_COLUMNS, queue_from)),
        launches=tuple(table_in(FOLDER, "launch_options.csv", OPTION_COLUMNS, launched_from)),
        pools=tuple(table_in(FOLDER, "pool_options.csv", (*POOL_LOAD, *POOL_LIMITS, "source_id"), pools_from)),
        first_tokens=tuple(table_in(FOLDER, "first_tokens.csv", FIRST_TOKEN_COLUMNS, first_tokens_from)),
    )


def client_from(table: Mapping[str, Any]) -> BenchmarkClient:
    """A table of clients.toml."""
    return BenchmarkClient(
        waves=table.get("waves", USUAL_WAVES),
        runs=table.get("runs", 1),
        polling={engine: Polling(**figures) for engine, figures in table.get("polling", {}).items()},
        gather_steps=table.get("gather_steps", {}),
        source=table["source_id"],
        mean_length_ratio=table.get("mean_length_ratio", 1.0),
        published_in=tuple(table.get("published_in", ())),
        prompts_in_turn=table.get("prompts_in_turn"),
        is_alike=table.get("is_alike", False),
        uncounted_waves=table.get("uncounted_waves", 0),
    )


def queue_from(place: Place, row: Mapping[str, str]) -> Queue:
    """A row of queued_requests.csv."""
    return Queue(
        published_in=text(place, "published_in", row["published_in"]),
        input_tokens=required_number(place, "input_tokens", row["input_tokens"]),
        output_tokens=required_number(place, "output_tokens", row["output_tokens"]),
        requests=int(required_number(place, "requests", row["requests"])),
        source=text(place, "source_id", row["source_id"]),
    )


def launched_from(place: Place, row: Mapping[str, str]) -> Launched:
    """A row of launch_options.csv; an empty condition holds for every run."""
    limits = StartLimits(
        whole(place, "max_batch", row["max_batch"]),
        whole(place, "max_step_tokens", row["max_step_tokens"]),
        number(place, "memory_fraction", row["memory_fraction"]),
        row["mixes_prompts"] == "yes",
    )
    polling = number(place, "poll_interval_steps", row["poll_interval_steps"])
    steps, ratio = (number(place, name, row[name]) or 0.0 for name in WAITS)
    return Launched(
        published_in=text(place, "published_in", row["published_in"]),
        conditions={name: row[name] for name in CONDITIONS if row[name]},
        since_version=row["since_version"] or None,
        options=LaunchOptions(
            limits,
            row["kv_precision"] or None,
            polling,
            row["whole_experts"] == "yes",
            (steps, ratio),
            row["splits_rows"] == "yes",
        ),
        source=text(place, "source_id", row["source_id"]),
    )


def first_tokens_from(place: Place, row: Mapping[str, str]) -> FirstTokens:
    """A row of first_tokens.csv."""
    return FirstTokens(
        engine=text(place, "engine", row["engine"]),
        until_version=row["until_version"] or None,
        late_steps=number(place, "late_steps", row["late_steps"]) or 0.0,
        late_s=number(place, "late_s", row["late_s"]) or 0.0,
        points=int(required_number(place, "points", row["points"])),
        source=text(place, "source_id", row["source_id"]),
    )


def pools_from(place: Place, row: Mapping[str, str]) -> StartedPools:
    """A row of pool_options.csv."""
    return StartedPools(
        load={name: row[name] for name in POOL_LOAD},
        prefill_max_batch=whole(place, "prefill_max_batch", row["prefill_max_batch"]),
        prefill_max_step_tokens=whole(place, "prefill_max_step_tokens", row["prefill_max_step_tokens"]),
        decode_max_batch=whole(place, "decode_max_batch", row["decode_max_batch"]),
        source=text(place, "source_id", row["source_id"]),
    )
