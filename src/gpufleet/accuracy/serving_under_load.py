"""Scores engines under load: requests at a rate or from clients, and the statistics of their latencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from gpufleet.accuracy.benchmark_clients import client_of, launch_options, prompts_in_turn
from gpufleet.accuracy.conditions import EngineLabel
from gpufleet.accuracy.conversations import NO_TURN, turns_before
from gpufleet.accuracy.figures import Comparison, Prediction, Quantity, RowLabels, RowScores, stated
from gpufleet.accuracy.loaded_rows import (
    AT_ONCE,
    CLOSED,
    CONSTANT,
    Arrivals,
    arrivals_of,
    carries_histories,
    has_recurring_prompts,
    keeps_prefixes,
    lengths_of,
    replica_row,
    replicas_of,
    step_tokens_of,
)
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.replays import compare_with_replay, quantile_name
from gpufleet.accuracy.serving import Load, Protocol, Reading, Setup, compare_with_estimate
from gpufleet.api.request_runs import generator_of
from gpufleet.domain.arrays import FloatArray, IntArray
from gpufleet.domain.requests import PrefixBlocks, Requests
from gpufleet.errors import UsageError
from gpufleet.files import is_file
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.inputs.trace import Trace, read_trace
from gpufleet.optimize.request_runs import Experiment, draws_for
from gpufleet.performance.serving import Client
from gpufleet.results.estimate import ServingEstimate
from gpufleet.simulate.arrivals import burst_times_s, even_times_s, renewal_times_s
from gpufleet.simulate.generated import BLOCK_TOKENS, MOST_PREFIX_BLOCKS
from gpufleet.simulate.token_draws import spread_tokens
from gpufleet.units import HOUR, MILLISECOND

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
COLUMN_OF = {"ttft": "ttft", "tpot": "tpot", "latency": "e2e"}
QUANTITIES = {
    Quantity(f"{time}_{statistic}", f"{column}_{statistic}_ms", "ms", MILLISECOND): (time, statistic)
    for time, column in COLUMN_OF.items()
    for statistic in STATISTICS
}
TRACES = "request_traces"
BETWEEN_RUNS_S = HOUR
WITHOUT_SERVER = ("in-process", "engine")
MOST_REQUESTS = 50_000


def score_under_load(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """What an estimate of one row says, or why it is not scored: a run of stated requests is replayed, as estimates do.

    Clients whose number of prompts nobody says send as many as usual. A rate alone is a steady state, which the closed
    form answers.
    """
    is_steady = row.whole("num_requests") is None and row.positive("rate_per_s") is not None
    if not is_steady:
        return replay_under_load(row, file, models)
    return steady_under_load(row, file, models)


def steady_under_load(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """What the closed form says of one row's steady state, or why it is not scored."""
    return scored(row, file, lambda compare, wanted: compare_with_estimate(compare, wanted, models, PROTOCOL))


def replay_under_load(row: MeasurementRow, file: str, models: ModelFinder) -> RowScores:
    """What a replay of one row's requests says, or why it is not scored."""

    def experiment(of_replica: MeasurementRow, setup: Setup, load: Load) -> Experiment:
        return experiment_of(of_replica, file, setup, load)

    def compare(found: Comparison, wanted: list[Quantity]) -> RowScores:
        return compare_with_replay(found, {q: QUANTITIES[q] for q in wanted}, models, PROTOCOL, experiment)

    return scored(row, file, compare)


def scored(row: MeasurementRow, file: str, compare: Callable[[Comparison, list[Quantity]], RowScores]) -> RowScores:
    """One row beside its predictions; rows that the file itself marks as unusable are left out."""
    wanted = stated(row, tuple(QUANTITIES))
    excluded = why_not_scored(row) or (None if wanted else "states no latency")
    if excluded:
        return RowScores(left_out=excluded)
    labels = RowLabels(file, row, engine=row.text("engine").casefold(), group=row.text("group"))
    return compare(Comparison(labels), list(wanted))


def why_not_scored(row: MeasurementRow) -> str | None:
    """What the row says itself."""
    if "usable" in row.cells and row.text("usable").casefold() != "yes":
        return f"not usable: {row.text('why_not') or 'no reason given'}"
    if row.text("mode").casefold() not in ("", "agg"):
        return "prefill and decode on separate GPUs"
    return None


def load_of(row: MeasurementRow, engine: EngineLabel) -> Load:
    """How one replica was loaded: at its share of the rate, by its share of the clients, or with all requests waiting.

    Lengths differ at a rate; otherwise the closed form takes their means.
    """
    lengths, arrivals, replicas = lengths_of(row), arrivals_of(row), replicas_of(row)
    launched = launch_options(row, engine.name, row.whole("tp") or 1)
    load = Load(
        input_tokens=lengths.means[0],
        output_tokens=lengths.means[1],
        max_batch=row.whole("max_num_seqs") or launched.limits.max_batch,
        max_step_tokens=step_tokens_of(row, engine),
        memory_fraction=row.positive("gpu_memory_fraction"),
    )
    if arrivals.how == CLOSED and arrivals.clients is not None:
        return {**load, "concurrency": max(arrivals.clients / replicas, 1)}
    if arrivals.how == AT_ONCE:
        return {**load, "full_queue": True, "requests": row.positive("num_requests")}
    load |= {"input_tokens": lengths.prompts, "output_tokens": lengths.answers}
    return {**load, "rate": arrivals.rate_requests_per_s / replicas, "prefix_cache": cached_share(row)}


def cached_share(row: MeasurementRow) -> float:
    """Share of a mean prompt that its engine held: in whole blocks, what all prompts share, or all but what is left."""
    if not keeps_prefixes(row):
        return 0.0
    mean = lengths_of(row).means[0]
    recurs = prompts_in_turn(row) is not None or (has_recurring_prompts(row) and not carries_histories(row))
    common = mean - 1 if recurs else min(row.whole("prefix_tokens") or 0, mean)
    return common // BLOCK_TOKENS * BLOCK_TOKENS / mean


def reading_of(time: str, statistic: str) -> Reading:
    """Where a statistic stands in an estimate, or why it does not."""

    def read(found: ServingEstimate) -> Prediction | str:
        if statistic == "mean":
            return Prediction.of(getattr(found, f"{time}_s"))
        known = {quantile_name(each.quantile): each for each in found.percentiles}
        if statistic in known:
            return Prediction.of(getattr(known[statistic], f"{time}_s"))
        return f"the closed form gives means of a {found.scenario.replace('_', ' ')}, no percentiles"

    return read


READINGS: Mapping[Quantity, Reading] = {quantity: reading_of(*parts) for quantity, parts in QUANTITIES.items()}
PROTOCOL = Protocol(load_of, lambda _: READINGS, replica_row)


def experiment_of(row: MeasurementRow, file: str, setup: Setup, load: Load) -> Experiment:
    """The requests of a row: those that were seen, where its trace lies beside the file, else drawn."""
    arrivals, replicas = arrivals_of(row), replicas_of(row)
    trace = trace_of(row, file)
    num = len(trace.input_tokens) if trace is not None else requests_of_run(row, arrivals)
    repeats = 1 if has_recurring_prompts(row) else 0
    client = client_of(row)
    runs = 1 if trace is not None or arrivals.clients is not None else client.runs
    draws = [
        drawn(row, arrivals, trace, -(-num // runs), runs, repeats, generator_of(i))
        for i in range(draws_for(num * (runs if trace is None else 1)))
    ]
    rate = arrivals.rate_requests_per_s
    window_s = 0.0 if arrivals.clients is not None else num / runs / rate
    unseen = repeats * -(-num // runs)
    if trace is None and row.whole("num_requests") is None and arrivals.clients is not None:
        unseen += arrivals.clients * client.uncounted_waves
    return Experiment(
        draws, generator_of, arrivals.clients, replicas, unseen, Client(over_http=is_over_http(row)), window_s
    )


def is_over_http(row: MeasurementRow) -> bool:
    """Whether a server lay between client and engine: not where one called the other, nor in times of the engine's."""
    return row.text("client_kind").casefold() not in WITHOUT_SERVER


def requests_of_run(row: MeasurementRow, arrivals: Arrivals) -> int:
    """Requests that were sent; clients whose number of prompts nobody says send as many as usual."""
    num = row.whole("num_requests")
    if num is None and arrivals.clients is not None:
        num = arrivals.clients * client_of(row).waves
    if num is None:
        raise UsageError("number of requests not stated")
    return min(num, MOST_REQUESTS)


def drawn(
    row: MeasurementRow,
    arrivals: Arrivals,
    trace: Trace | None,
    num: int,
    runs: int,
    repeats: int,
    rng: np.random.Generator,
) -> Requests:
    """Requests of `runs` after one another, the prompts of each the same, behind `repeats` that only fill the cache."""
    if trace is not None:
        once = trace.requests()
        prompts, answers = once.input_tokens, once.output_tokens
        times = [once.arrival_s] * (runs + repeats)
    else:
        prompts, answers = (spread_tokens(rng, counts, num) for counts in lengths_of(row).counts)
        times = [times_of(arrivals, num, rng) for _ in range(runs + repeats)]
    count = len(times)
    all_times = times[0] if count == 1 else one_after_another(times, is_closed=arrivals.clients is not None)
    before = turns_before(prompts, answers) if trace is not None and carries_histories(row) else None
    prefix = shared_blocks(row, prompts, count, before) if keeps_prefixes(row) else None
    return Requests(
        np.zeros(count * num) if arrivals.clients is not None else all_times,
        np.tile(prompts, count),
        np.tile(answers, count),
        np.zeros(count * num, dtype=np.int64),
        prefix=prefix,
    )


def one_after_another(times: list[FloatArray], *, is_closed: bool) -> FloatArray:
    """Times of runs, each of which begins when the one before has long ended."""
    span_s = 0.0 if is_closed else max(float(each[-1]) for each in times) + BETWEEN_RUNS_S
    return np.concatenate([each + i * span_s for i, each in enumerate(times)])


def times_of(arrivals: Arrivals, num: int, rng: np.random.Generator) -> FloatArray:
    """When the requests of one run come."""
    if arrivals.how in (CLOSED, AT_ONCE):
        return burst_times_s(num)
    if arrivals.how == CONSTANT:
        return even_times_s(arrivals.rate_requests_per_s, num)
    return renewal_times_s(rng, arrivals.rate_requests_per_s, num, arrivals.burstiness)


def shared_blocks(
    row: MeasurementRow, prompts: IntArray, runs: int, before: IntArray | None = None
) -> PrefixBlocks | None:
    """Blocks that prompts share: `prefix_tokens` all of them, the whole prompt with its repetition in another run.

    `before` says of which earlier prompt each carries all that it said; prompts in turn repeat what they said then.
    """
    prefix, recurs, in_turn = row.whole("prefix_tokens") or 0, has_recurring_prompts(row), prompts_in_turn(row)
    if in_turn is not None:
        before = before_in_turn(len(prompts), in_turn)
    common = np.minimum(prefix, prompts) // BLOCK_TOKENS
    is_whole = recurs or before is not None
    own = prompts // BLOCK_TOKENS - common if is_whole else np.zeros_like(prompts)
    num_blocks = int((common + own).sum()) * runs
    if num_blocks > MOST_PREFIX_BLOCKS:
        raise UsageError("too many blocks of prompts to replay", found=f"{num_blocks:,}")
    if not num_blocks:
        return None
    begins = int(common.max()) + np.cumsum(own) - own
    blocks = [np.concatenate([np.arange(c), b + np.arange(n)]) for c, b, n in zip(common, begins, own, strict=True)]
    if before is not None:
        repeat_histories(blocks, before)
    first = np.concatenate([[0], np.cumsum(np.tile(common + own, runs))])
    return PrefixBlocks(BLOCK_TOKENS, first, np.tile(np.concatenate(blocks), runs))


def before_in_turn(num: int, in_turn: int) -> IntArray:
    """The last time that each of so many prompts, sent in turn, was sent before.

    >>> before_in_turn(5, 2).tolist()
    [-1, -1, 0, 1, 2]
    """
    return np.maximum(np.arange(num) - in_turn, NO_TURN)


def repeat_histories(blocks: Sequence[IntArray], before: IntArray) -> None:
    """Begin each prompt with the blocks of the one before it in its conversation; answers have other words in each."""
    for turn, earlier in enumerate(before):
        if earlier != NO_TURN:
            history = blocks[earlier][: len(blocks[turn])]
            blocks[turn][: len(history)] = history


def trace_of(row: MeasurementRow, file: str) -> Trace | None:
    """The single requests of a row, where the file that it names lies in a folder beside its own."""
    return read_trace(trace_path(row, file), {"experiment": row.text("id")}) if has_trace(row, file) else None


def has_trace(row: MeasurementRow, file: str) -> bool:
    """Whether the single requests of a row lie beside its file; a name with a folder in it is none."""
    name = row.text("trace")
    return bool(name) and Path(name).name == name and is_file(trace_path(row, file))


def trace_path(row: MeasurementRow, file: str) -> Path:
    """Where they would be."""
    return Path(file).parent / TRACES / row.text("trace")
