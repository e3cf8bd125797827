"""Rows of engines under load: what they say, what the closed form and a replay make of them, what is refused."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tests.effort import cases

from gpufleet.accuracy.conditions import EngineLabel
from gpufleet.accuracy.figures import RowScores
from gpufleet.accuracy.loaded_rows import arrivals_of, lengths_of, replica_row, step_tokens_of
from gpufleet.accuracy.models import ModelFinder
from gpufleet.accuracy.score import score_files
from gpufleet.accuracy.serving import Setup, reaching
from gpufleet.accuracy.serving_under_load import (
    QUANTITIES,
    experiment_of,
    has_trace,
    load_of,
    replay_under_load,
    score_under_load,
    shared_blocks,
    steady_under_load,
)
from gpufleet.catalog.models import shipped_architecture
from gpufleet.inputs.measurements import MeasurementRow, kind_of
from gpufleet.optimize.request_runs import Experiment, draws_for
from gpufleet.results.accuracy import ScoredFigure

MEASUREMENTS = Path(__file__).resolve().parents[3] / "measurements" / "serving_under_load.csv"
LLAMA = {
    "id": "a", "group": "mine", "engine": "vllm", "engine_version": "0.11.0", "model_id": "llama-3.1-8b",
    "gpu_id": "H100-SXM", "num_gpus": "1", "replicas": "1", "tp": "1", "mode": "agg", "precision": "bf16",
    "arrival": "poisson", "rate_per_s": "2", "num_requests": "300", "input_mean": "1000", "input_sd": "300",
    "output_mean": "200", "output_sd": "80", "ttft_p50_ms": "60", "ttft_p95_ms": "90", "tpot_mean_ms": "9",
    "e2e_p99_ms": "4000", "usable": "yes",
}  # fmt: skip
CLOSED = {**LLAMA, "arrival": "closed", "rate_per_s": "", "concurrency": "8", "num_requests": "160"}


def row_of(cells: dict[str, str], **changes: str) -> MeasurementRow:
    return MeasurementRow(2, {**cells, **changes})


def figures_of(scores: RowScores) -> dict[str, ScoredFigure]:
    return {figure.quantity: figure for figure in scores.figures}


def estimated(cells: dict[str, str], **changes: str) -> dict[str, ScoredFigure]:
    return figures_of(steady_under_load(row_of(cells, **changes), "mine.csv", ModelFinder()))


def scored(cells: dict[str, str], **changes: str) -> dict[str, ScoredFigure]:
    return figures_of(score_under_load(row_of(cells, **changes), "mine.csv", ModelFinder()))


def replayed(cells: dict[str, str], **changes: str) -> dict[str, ScoredFigure]:
    return figures_of(replay_under_load(row_of(cells, **changes), "mine.csv", ModelFinder()))


def predicted(figure: ScoredFigure) -> float:
    assert figure.predicted is not None, figure.reason
    return figure.predicted


def experiment(file: str = "mine.csv", **changes: str) -> Experiment:
    row = replica_row(row_of(LLAMA, **changes))
    setup = Setup.of(row, ModelFinder())
    return experiment_of(row, file, setup, load_of(row, setup.engine))


def test_the_header_tells_the_kind() -> None:
    with MEASUREMENTS.open(newline="", encoding="utf-8") as stream:
        header = next(csv.reader(stream))
    assert kind_of(header, "mine.csv") == "serving_under_load"
    assert kind_of(["arrival", "input_mean", "output_mean", "e2e_p50_ms"], "mine.csv") == "serving_under_load"


def test_statistics_are_named_behind_the_quantity_and_e2e_is_latency() -> None:
    names = {quantity.name: quantity.column for quantity in QUANTITIES}
    assert (names["ttft_p95"], names["latency_mean"]) == ("ttft_p95_ms", "e2e_mean_ms")
    assert set(estimated(LLAMA)) == {"ttft_p50", "ttft_p95", "tpot_mean", "latency_p99"}


def test_both_ways_predict_a_row_below_capacity_and_roughly_agree() -> None:
    closed_form, replay = estimated(LLAMA), replayed(LLAMA)
    for name in ("ttft_p50", "tpot_mean"):
        assert predicted(replay[name]) == pytest.approx(predicted(closed_form[name]), rel=0.5)
    assert predicted(replay["ttft_p95"]) > predicted(replay["ttft_p50"])


def test_a_replay_is_the_same_again_and_has_the_range_of_the_physics() -> None:
    first, again = replayed(LLAMA)["tpot_mean"], replayed(LLAMA)["tpot_mean"]
    assert first == again
    assert (first.low or 0) < predicted(first) < (first.high or 0)
    assert first.low


def test_above_capacity_the_closed_form_refuses_and_the_replay_counts_the_requests() -> None:
    crowd = {"rate_per_s": "200", "num_requests": "2000"}
    assert "of what one replica sustains" in (estimated(LLAMA, **crowd)["ttft_p50"].reason or "")
    short, long = (replayed(LLAMA, **{**crowd, "num_requests": n})["ttft_p50"] for n in ("500", "4000"))
    assert predicted(long) > 2 * predicted(short)


def test_a_run_of_stated_requests_is_scored_by_its_replay_and_a_bare_rate_by_the_closed_form() -> None:
    crowd = {"rate_per_s": "200", "num_requests": "2000"}
    assert scored(LLAMA, **crowd) == replayed(LLAMA, **crowd)
    assert scored(LLAMA, num_requests="") == estimated(LLAMA, num_requests="")
    assert all(figure.predicted for figure in scored(CLOSED).values())


def test_an_engine_took_the_context_that_its_run_had() -> None:
    short = dataclasses.replace(shipped_architecture("llama-3.1-8b"), max_context_tokens=2048)
    row = replica_row(row_of(LLAMA, input_mean="8000", input_sd="0", output_mean="199", output_sd="0"))
    assert row.whole("longest_tokens") == 8199
    assert reaching(short, row.whole("longest_tokens")).max_context_tokens == 8199


def test_a_closed_loop_has_means_only_in_the_closed_form() -> None:
    closed_form = estimated(CLOSED)
    assert predicted(closed_form["tpot_mean"]) == pytest.approx(predicted(replayed(CLOSED)["tpot_mean"]), rel=0.2)
    assert closed_form["ttft_p50"].reason == "the closed form gives means of a closed loop, no percentiles"


def test_replicas_share_rate_and_gpus() -> None:
    two = {"num_gpus": "2", "replicas": "2", "rate_per_s": "4"}
    assert estimated(LLAMA, **two)["tpot_mean"].predicted == estimated(LLAMA)["tpot_mean"].predicted
    uneven = replayed(LLAMA, **two, num_requests="2000")["ttft_p95"]
    assert predicted(uneven) >= 0.9 * predicted(replayed(LLAMA, num_requests="2000")["ttft_p95"])


def test_an_engine_with_a_small_budget_reads_a_prompt_in_many_steps() -> None:
    usual, small = replayed(LLAMA)["ttft_p50"], replayed(LLAMA, max_num_batched_tokens="64")["ttft_p50"]
    assert predicted(small) > 2 * predicted(usual)


def test_a_shared_prefix_that_is_kept_shortens_the_prefill() -> None:
    shared = {"prefix_tokens": "512", "input_mean": "2000", "input_sd": "0"}
    kept, off = (replayed(LLAMA, **shared, prefix_cache=cache)["ttft_p50"] for cache in ("on (default)", "off"))
    assert predicted(kept) < 0.95 * predicted(off)


def test_prompts_that_ran_before_are_found_again_and_the_first_run_is_not_counted() -> None:
    again = experiment(prefix_cache="on: the same prompts recur", num_requests="100")
    assert (again.uncounted, len(again.draws[0])) == (100, 200)
    assert experiment(num_requests="100").uncounted == 0


IN_TURN = {"client": "inference-perf", "source": "inference-sim hypotheses/h-stepml", "prefix_cache": "on (default)"}


def test_prompts_that_a_client_sends_in_turn_are_found_whole_and_have_one_length() -> None:
    """Plan of the runs behind h-stepml: nine system prompts for five users each, again and again."""
    drawn = experiment(**IN_TURN, num_requests="100", input_mean="600").draws[0]
    assert set(drawn.input_tokens) == {600}
    assert drawn.prefix is not None
    blocks = np.split(drawn.prefix.block, drawn.prefix.first[1:-1])
    assert all(blocks[i].tolist() == blocks[i - 45].tolist() for i in range(45, 100))
    assert not set(blocks[0]) & set(blocks[44])
    assert experiment(**{**IN_TURN, "source": "elsewhere"}, num_requests="100").draws[0].prefix is None


def test_the_closed_form_is_asked_with_what_the_cache_holds() -> None:
    turns, off = estimated({**LLAMA, **IN_TURN}), estimated(LLAMA)
    assert predicted(turns["ttft_p50"]) < 0.8 * predicted(off["ttft_p50"])


def test_runs_of_a_client_come_one_after_another() -> None:
    runs = experiment(client="AccelMark loadgen (in process)", num_requests="900")
    gaps = np.diff(runs.draws[0].arrival_s)
    assert (len(runs.draws[0]), int((gaps > 1000).sum())) == (900, 2)


def test_clients_that_warm_up_are_counted_after_their_start_burst() -> None:
    """AccelMark's run_sustained samples each minute after minutes of warming up (loadgen/loadgen.py)."""
    closed = {"arrival": "closed", "concurrency": "8", "num_requests": "", "rate_per_s": ""}
    seen = experiment(client="AccelMark loadgen (in process)", **closed)
    assert seen.uncounted >= 8
    assert experiment(client="guidellm", **closed).uncounted == 0


def test_blocks_of_prompts() -> None:
    row = row_of(LLAMA, prefix_tokens="32", prefix_cache="on: the same prompts")
    found = shared_blocks(row, np.array([40, 70]), 2)
    assert found is not None
    assert found.block.tolist() == [0, 1, 0, 1, 2, 3] * 2
    assert found.first.tolist() == [0, 2, 6, 8, 12]


def test_a_turn_begins_with_the_blocks_of_the_turn_before_it() -> None:
    row = row_of(LLAMA, prefix_cache="on")
    found = shared_blocks(row, np.array([40, 16, 70]), 1, np.array([-1, -1, 0]))
    assert found is not None
    assert [part.tolist() for part in np.split(found.block, found.first[1:-1])] == [[0, 1], [2], [0, 1, 5, 6]]


def test_requests_that_were_seen_are_replayed_as_they_came(tmp_path: Path) -> None:
    folder = tmp_path / "request_traces"
    folder.mkdir()
    lines = [f"{name},{i},{100 + i},{10 + i},0.1,0.9" for name in ("a", "b") for i in range(3)]
    (folder / "seen.csv").write_text(
        "experiment,arrival_s,input_tokens,output_tokens,ttft_s,latency_s\n" + "\n".join(lines)
    )
    file = str(tmp_path / "mine.csv")
    seen = experiment(file, trace="seen.csv", id="b").draws[0]
    assert (seen.arrival_s.tolist(), seen.output_tokens.tolist()) == ([0, 1, 2], [10, 11, 12])
    assert len(experiment(str(tmp_path / "far" / "mine.csv"), trace="seen.csv").draws[0]) == 300


@pytest.mark.parametrize("name", ["../mine.csv", "/etc/passwd", "a/b.csv", "", "x\0y"])
def test_a_trace_outside_its_folder_is_no_trace(tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.csv").write_text("")
    (tmp_path / "request_traces").mkdir()
    assert not has_trace(row_of(LLAMA, trace=name), str(tmp_path / "mine.csv"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arrival": "sometimes"}, "arrival of no known kind"),
        ({"arrival": "gamma"}, "burstiness not stated"),
        ({"rate_per_s": ""}, "rate not stated"),
        ({"rate_per_s": "-1"}, "rate_per_s must be positive"),
        ({"rate_per_s": "nan"}, "rate_per_s is not a number"),
        ({"arrival": "closed"}, "concurrency not stated"),
        ({"output_mean": ""}, "lengths not stated"),
        ({"num_requests": ""}, "number of requests not stated"),
        ({"replicas": "2"}, "the replicas do not share the GPUs evenly"),
        ({"replicas": "100000", "num_gpus": "100000"}, "too many replicas"),
        ({"gpu_id": ""}, "GPU not stated"),
        ({"input_p50": "900", "input_p95": "100"}, "percentiles of tokens must not fall"),
        ({"engine_version": "0.11.0 (0.0)", "model_id": "no-such-model"}, "no-such-model"),
    ],
)
def test_a_row_that_cannot_be_replayed_says_why(change: dict[str, str], reason: str) -> None:
    assert all(reason in (figure.reason or "") for figure in replayed(LLAMA, **change).values())


@pytest.mark.parametrize(
    ("change", "left_out"),
    [
        ({"usable": "", "why_not": "eager mode"}, "not usable: eager mode"),
        ({"mode": "disagg"}, "prefill and decode on separate GPUs"),
        ({"ttft_p50_ms": "", "ttft_p95_ms": "", "tpot_mean_ms": "", "e2e_p99_ms": ""}, "states no latency"),
    ],
)
def test_rows_that_are_not_scored(change: dict[str, str], left_out: str) -> None:
    assert replay_under_load(row_of(LLAMA, **change), "mine.csv", ModelFinder()).left_out == left_out


def test_a_checkpoint_is_named_by_its_format_and_a_build_by_its_release() -> None:
    row = replica_row(row_of(LLAMA, model="Llama-quantized.w8a8", precision="int8", engine_version="0.7.3 (V0)"))
    assert (row.text("precision"), row.text("engine_version")) == ("w8a8", "0.7.3")
    patched = replica_row(row_of(LLAMA, engine_version="0.3.2 (nm-vllm 0.1.0)"))
    assert patched.text("engine_version") == "0.3.2"
    asked = replica_row(row_of(LLAMA, engine_version="0.9.1", engine_generation="V0"))
    assert asked.text("engine_version") == "0.7.3"


def test_no_server_lies_between_an_engine_and_who_calls_it_or_times_it() -> None:
    """AccelMark calls the engine in its own process; BLIS reads times from spans of the engine."""
    by_kind = {kind: experiment(client_kind=kind).client.over_http for kind in ("in-process", "engine", "http", "")}
    assert by_kind == {"in-process": False, "engine": False, "http": True, "": True}
    served, called = (predicted(replayed(LLAMA, client_kind=kind)["ttft_p50"]) for kind in ("http", "in-process"))
    assert 4 < served - called < 8


def test_engines_that_take_prompts_whole_have_a_budget_of_the_longest_context() -> None:
    row = row_of(LLAMA, max_model_len="4096")
    assert step_tokens_of(row, EngineLabel("vllm", "0.7.3")) == 4096
    assert step_tokens_of(row, EngineLabel("vllm", "0.11.0")) is None


def test_an_engine_started_in_the_process_of_its_client_takes_fewer_sequences() -> None:
    client = "AccelMark loadgen (in process)"
    new = load_of(row_of(LLAMA, client=client, engine_version="0.20.1"), EngineLabel("vllm", "0.20.1"))
    assert (new["max_batch"], new["max_step_tokens"]) == (128, 2048)
    old = load_of(row_of(LLAMA, client=client, engine_version="0.7.3"), EngineLabel("vllm", "0.7.3"))
    assert old["max_batch"] is None


def test_lengths_are_spread_as_stated() -> None:
    prompts, answers = lengths_of(row_of(LLAMA)).counts
    assert np.sqrt(prompts.squared_variation) * prompts.mean == pytest.approx(300, rel=0.05)
    assert answers.mean == 200
    capped = lengths_of(row_of(LLAMA, output_sd="", length_note="output capped at 512")).counts[1]
    assert (capped.mean, capped.most) == (200, 512)
    filtered = lengths_of(row_of(LLAMA, input_sd="", length_note="prompts up to 1,024 tokens")).counts[0]
    assert filtered.most == 1024
    assert arrivals_of(row_of(LLAMA, arrival="gamma, burstiness 100")).burstiness == 100


def test_an_engine_reaches_the_context_that_it_was_started_for() -> None:
    """A config that states no context is read with that of its family; what a row says goes before it."""
    short = shipped_architecture("llama-7b")
    assert reaching(short, 20_000).max_context_tokens == 20_000
    assert reaching(short, None) is reaching(short, 512) is short


def test_short_runs_are_drawn_more_often() -> None:
    assert draws_for(10) > draws_for(900) > draws_for(10_000) == 1


@pytest.mark.slow
def test_the_shipped_rows_are_replayed(tmp_path: Path) -> None:
    """Every third row, and all by `make brute-force`."""
    with MEASUREMENTS.open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    with (tmp_path / MEASUREMENTS.name).open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *rows[:: cases(3, 1)]])
    found = score_files([tmp_path / MEASUREMENTS.name], simulate=True).files[0]
    assert found.is_replayed
    assert len(rows) == 455
    assert (found.num_rows, found.num_scored_rows) == (cases(152, 455), cases(109, 319))
    assert found.coverage_ratio >= 0.97
    medians = {g.quantity: g.median_error_ratio for g in found.groups if g.by == "all"}
    assert (medians["ttft_p50"] or 1) < 0.35
    assert (medians["tpot_p50"] or 1) < 0.2
