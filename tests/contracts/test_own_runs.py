"""Results of a benchmark of one's own: seven clients and a CSV, read right or refused in one message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from gpufleet.accuracy.clients.read import read_runs, read_table
from gpufleet.accuracy.clients.run import AT_ONCE, CLOSED, CONSTANT, POISSON, Run
from gpufleet.cli.answered import answered
from gpufleet.errors import UsageError

Record = dict[str, Any]


def spread(value: float) -> Record:
    """Statistics as guidellm has them."""
    return {"successful": {"mean": value, "median": value, "std_dev": 0.0, "percentiles": {"p50": value, "p95": value}}}


def metric(value: float, unit: str) -> Record:
    """A metric as AIPerf has it."""
    return {"unit": unit, "avg": value, "p50": value, "p95": value, "std": 0.0}


def engines(latency: str) -> Record:
    """What the clients of vLLM and SGLang write of 240 requests of 600 and 100 tokens: 16 in flight over 60 s."""
    return {
        "backend": "openai",
        "request_rate": "inf",
        "max_concurrency": 16,
        "duration": 60.0,
        "completed": 240,
        "total_input_tokens": 144_000,
        "total_output_tokens": 24_000,
        "request_throughput": 4.0,
        "mean_ttft_ms": 80.0,
        "p99_ttft_ms": 150.0,
        "mean_tpot_ms": 39.0,
        "median_tpot_ms": 38.0,
        f"mean_{latency}_ms": 3941.0,
    }


VLLM = {**engines("e2el"), "model_id": "meta-llama/Llama-3.1-8B-Instruct", "tokenizer_id": "x", "endpoint_type": "vllm"}
SGLANG = {
    **engines("e2e_latency"),
    "backend": "sglang",
    "dataset_name": "random",
    "random_input_len": 600,
    "random_range_ratio": 1.0,
    "server_info": {"tp_size": 2, "dp_size": 1, "version": "0.5.8"},
}
GUIDELLM = {
    "metadata": {"guidellm_version": "0.8.1"},
    "config": {"backend": {"model": "llama-3.1-8b"}},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 16}},
            "scheduler_metrics": {"measure_start_time": 1_000.0, "measure_end_time": 1_060.0},
            "metrics": {
                "request_totals": {"successful": 240, "errored": 3},
                "requests_per_second": spread(4.0),
                "request_latency": spread(3.941),
                "prompt_token_count": spread(600.0),
                "output_token_count": spread(100.0),
                "time_to_first_token_ms": spread(80.0),
                "time_per_output_token_ms": spread(39.4),
                "inter_token_latency_ms": spread(39.0),
            },
        }
    ],
}
AIPERF = {
    "request_throughput": metric(4.0, "requests/sec"),
    "request_latency": metric(3941.0, "ms"),
    "request_count": metric(240.0, "requests"),
    "time_to_first_token": metric(80.0, "ms"),
    "inter_token_latency": metric(39.0, "ms"),
    "input_sequence_length": metric(600.0, "tokens"),
    "output_sequence_length": metric(100.0, "tokens"),
    "benchmark_duration": metric(60.0, "sec"),
    "input_config": {"endpoint": {"model_names": ["llama-3.1-8b"]}, "loadgen": {"concurrency": 16}},
    "was_cancelled": False,
}
LLMPERF = {
    "model": "llama-3.1-8b",
    "num_concurrent_requests": 16,
    "stddev_input_tokens": 0,
    "results_number_input_tokens_mean": "600",
    "results_number_output_tokens_mean": "100",
    "results_inter_token_latency_s_mean": 0.0394,
    "results_ttft_s_mean": 0.08,
    "results_ttft_s_quantiles_p95": 0.12,
    "results_end_to_end_latency_s_mean": 3.941,
    "results_num_completed_requests": 240,
    "results_num_completed_requests_per_min": 240.0,
}
TRTLLM = {
    "engine": {"model": "llama-3.1-8b", "version": "1.2.1", "quantization": "FP8", "kv_cache_dtype": None},
    "machine": {"name": "NVIDIA H100 80GB HBM3"},
    "world_info": {"tp_size": 1, "pp_size": 1, "ep_size": 1, "max_batch_size": 256, "max_num_tokens": 8192},
    "request_info": {"num_requests": 240, "avg_num_concurrent_requests": 15.8},
    "performance": {
        "total_latency_ms": 60_000.0,
        "request_throughput_req_s": 4.0,
        "request_latency_percentiles_ms": {"average": 3941.0, "p95": 4000.0},
    },
    "streaming_metrics": {"ttft_percentiles": {"average": 80.0}, "tpot_percentiles": {"average": 39.0, "p50": 38.0}},
    "dataset": {"isl_stats": {"average": 600.0, "p50": 600.0, "p95": 600.0}, "osl_stats": {"average": 100.0}},
}
INFERENCE_PERF = {
    "load_summary": {"count": 240, "send_duration": 60.0, "requested_rate": 4.0, "concurrency": 16},
    "successes": {
        "count": 240,
        "latency": {
            "time_to_first_token": {"mean": 0.08, "p95": 0.12},
            "time_per_output_token": {"mean": 0.039, "median": 0.038},
            "normalized_time_per_output_token": {"mean": 0.0394},
            "request_latency": {"mean": 3.941},
        },
        "throughput": {"requests_per_sec": 4.0},
        "prompt_len": {"mean": 600.0},
        "output_len": {"mean": 100.0},
    },
    "failures": {"count": 0},
}
RESULTS: Mapping[str, Record] = {
    "vllm": VLLM,
    "sglang": SGLANG,
    "guidellm": GUIDELLM,
    "aiperf": AIPERF,
    "llmperf": LLMPERF,
    "trtllm": TRTLLM,
    "inference-perf": INFERENCE_PERF,
}
SAID = ["--gpus", "H100:1", "--engine", "vllm", "--model", "llama-3.1-8b"]


def runs_of(record: object, folder: Path) -> list[Run]:
    """The runs in a file that holds this record."""
    path = folder / "result.json"
    path.write_text(json.dumps(record), encoding="utf-8")
    return read_runs(path)


@pytest.mark.parametrize("client", RESULTS)
def test_each_client_says_the_same_run(client: str, tmp_path: Path) -> None:
    [run] = runs_of(RESULTS[client], tmp_path)
    assert (run.arrival, run.clients, run.requests) == (CLOSED, 16, 240)
    assert (run.prompts.mean, run.answers.mean) == (600, 100)
    assert run.times["ttft", "mean"] == pytest.approx(0.08)
    assert run.times["latency", "mean"] == pytest.approx(3.941)
    assert run.times.get(("tpot", "mean")) == (None if client == "llmperf" else pytest.approx(0.039))


def test_what_a_client_knows_of_the_server_is_taken(tmp_path: Path) -> None:
    [sglang], [trtllm] = runs_of(SGLANG, tmp_path), runs_of(TRTLLM, tmp_path)
    assert (sglang.engine, sglang.engine_version, sglang.layout["tp"], sglang.prompts.deviation) == (
        "sglang", "0.5.8", 2, 0.0,
    )  # fmt: skip
    assert (trtllm.gpu, trtllm.formats["precision"], trtllm.limits["max_num_seqs"]) == (
        "NVIDIA H100 80GB HBM3", "fp8", 256,
    )  # fmt: skip


def test_arrivals_are_those_that_were_asked_for(tmp_path: Path) -> None:
    asked = [
        ({"request_rate": 4.0, "max_concurrency": None}, POISSON),
        ({"request_rate": 4.0, "max_concurrency": None, "burstiness": 0.5}, "gamma, burstiness 0.5"),
        ({"request_rate": "inf", "max_concurrency": None}, AT_ONCE),
        ({"request_rate": float("inf"), "max_concurrency": 16}, CLOSED),
    ]
    assert [runs_of({**VLLM, **change}, tmp_path)[0].arrival for change, _ in asked] == [how for _, how in asked]
    sweep = deepcopy(GUIDELLM)
    constant = deepcopy(sweep["benchmarks"][0])  # type: ignore[index]
    constant["config"]["strategy"] = {"type_": "constant", "rate": 4.0}
    sweep["benchmarks"].append(constant)  # type: ignore[attr-defined]
    assert [run.arrival for run in runs_of(sweep, tmp_path)] == [CLOSED, CONSTANT]


def test_a_run_a_line_is_a_sweep(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    path.write_text("\n".join(json.dumps({**SGLANG, "max_concurrency": n}) for n in (8, 16, 32)), encoding="utf-8")
    assert [run.clients for run in read_runs(path)] == [8, 16, 32]


def scaled(record: Any, by: float) -> Any:
    """A record whose times are so many times as long, and whose durations are not."""
    if not isinstance(record, dict):
        return record
    times = ("ttft", "tpot", "itl", "latency", "time_to", "time_per", "inter_token", "e2e")
    kept = ("total_latency_ms",)

    def of(name: str, value: Any) -> Any:
        is_time = any(part in name for part in times) and name not in kept and name != "latency"
        return times_in(value, by) if is_time else scaled(value, by)

    found = {name: of(name, value) for name, value in record.items()}
    if "benchmarks" in found:
        found["benchmarks"] = [scaled(each, by) for each in record["benchmarks"]]
    return found


def times_in(value: Any, by: float) -> Any:
    """All numbers of a record so many times."""
    if isinstance(value, dict):
        return {name: times_in(each, by) for name, each in value.items()}
    return value * by if isinstance(value, float) else value


def another(record: Record) -> str:
    """A client whose fields are none of this record's."""
    return next(name for name in ("guidellm", "llmperf") if not set(RESULTS[name]) & set(record))


BROKEN: Mapping[str, Callable[[str, Record], bytes]] = {
    "cut off": lambda text, _: text[: len(text) // 2].encode(),
    "seconds for milliseconds": lambda _, record: json.dumps(scaled(record, 1e-3)).encode(),
    "milliseconds for seconds": lambda _, record: json.dumps(scaled(record, 1e3)).encode(),
    "not a number": lambda _, record: json.dumps(scaled(record, float("nan"))).encode(),
    "negative": lambda _, record: json.dumps(scaled(record, -1.0)).encode(),
    "of no client": lambda *_: b'{"throughput": 3, "latency": 4}',
    "no request": lambda text, _: text.replace("240", "0").encode(),
    "a list": lambda text, _: f"[{text}]".encode(),
    "not UTF-8": lambda text, _: text.encode("utf-16"),
    "of another client too": lambda _, record: json.dumps({**record, **RESULTS[another(record)]}).encode(),
    "a key twice": lambda text, _: (text[:-1] + f", {text[1:-1]}" + "}").encode(),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("client", RESULTS)
def test_a_broken_result_is_one_message(client: str, how: str) -> None:
    content = BROKEN[how](json.dumps(RESULTS[client]), RESULTS[client])
    got = answered(["accuracy", "r.json", *SAID], {"r.json": content})
    assert got.code == 2, got.text
    assert isinstance(got.error, UsageError)
    assert len(str(got.error)) < 600


def test_what_the_file_does_not_say_is_asked_for_at_once(tmp_path: Path) -> None:
    got = answered(["accuracy", "r.json"], {"r.json": json.dumps({**VLLM, "model_id": ""}).encode()})
    assert got.code == 2
    assert {"--gpus", "--engine", "--model"} <= set(str(got.error).replace(".", " ").split())


def test_a_run_stands_beside_its_prediction(tmp_path: Path) -> None:
    got = answered(["accuracy", "r.json", "-o", "json", *SAID[:4]], {"r.json": json.dumps(VLLM).encode()})
    [file] = json.loads(got.text)["files"]
    [run] = file["runs"]
    figures = {figure["quantity"]: figure for figure in run["figures"]}
    assert figures["tpot_mean"]["measured"] == pytest.approx(39.0)
    assert 0 < figures["tpot_mean"]["low"] <= figures["tpot_mean"]["predicted"] <= figures["tpot_mean"]["high"]
    assert run["name"] == "16 clients, 600/100"


def test_columns_of_ones_own_are_known_by_usual_or_stated_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("prompt_tokens,output_tokens,users,first token,tpot_p95_ms\n600,100,16,0.08,41\n", encoding="utf-8")
    runs = read_table(path, {"ttft_s": "first token"})
    assert runs is not None
    [run] = runs
    assert (run.clients, run.times) == (16, {("ttft", "mean"): 0.08, ("tpot", "p95"): pytest.approx(0.041)})
    path.write_text("input_tokens,output_tokens,concurrency,output_tokens_per_s\n600,100,16,400\n", encoding="utf-8")
    [by_throughput] = read_table(path, {}) or []
    assert by_throughput.times == {("latency", "mean"): 4.0}
    with pytest.raises(UsageError, match="not there"):
        read_table(path, {"ttft_ms": "first"})


def test_a_folder_of_results_is_read_in_order(tmp_path: Path) -> None:
    for name, clients in (("b.json", 32), ("a.json", 16)):
        (tmp_path / name).write_text(json.dumps({**VLLM, "max_concurrency": clients}), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no result", encoding="utf-8")
    from gpufleet.cli import main

    out = tmp_path / "page.json"
    assert main(["accuracy", str(tmp_path), *SAID[:4], "--out-file", str(out)]) == 0
    assert [file["runs"][0]["name"] for file in json.loads(out.read_text())["files"]] == [
        "16 clients, 600/100",
        "32 clients, 600/100",
    ]
