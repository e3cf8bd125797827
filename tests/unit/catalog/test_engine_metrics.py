"""Metric names are those of the engine's version; a query of ours that names another fails when it is built."""

from __future__ import annotations

import csv

import pytest

from gpufleet.catalog.engine_metrics import TABLE, known_whats, metric_name, metrics_of
from gpufleet.domain.versions import version_key
from gpufleet.errors import DataMissing, OurBug, UnknownName


@pytest.mark.parametrize(
    ("engine", "version", "what", "name"),
    [
        ("vllm", "0.8.5", "kv_use", "vllm:gpu_cache_usage_perc"),
        ("vllm", "0.9.2", "kv_use", "vllm:kv_cache_usage_perc"),
        ("vllm", "0.19.1", "kv_use", "vllm:kv_cache_usage_perc"),
        ("vllm", "0.10.0", "itl", "vllm:time_per_output_token_seconds"),
        ("vllm", "0.11.0", "itl", "vllm:inter_token_latency_seconds"),
        ("vllm", None, "tpot", "vllm:request_time_per_output_token_seconds"),
        ("vllm", "0.7.3", "generated_tokens", "vllm:generation_tokens_total"),
        ("vllm", "0.33.0", "generated_tokens", "vllm:generation_tokens_total"),
        ("vllm", "0.19.1", "accepted_tokens", "vllm:spec_decode_num_accepted_tokens_total"),
        ("vllm", "0.19.1", "preemptions", "vllm:num_preemptions_total"),
        ("sglang", "0.4.3", "itl", "sglang:time_per_output_token_seconds"),
        ("sglang", "0.5.9", "itl", "sglang:inter_token_latency_seconds"),
        ("sglang", "0.5.9", "waiting_requests", "sglang:num_queue_reqs"),
        ("tensorrt-llm", "1.3.0", "kv_use", "trtllm_kv_cache_utilization"),
        ("tensorrt-llm", "1.2", "ttft", "time_to_first_token_seconds"),
        ("kube-state-metrics", None, "available_copies", "kube_deployment_status_replicas_available"),
        ("text-embeddings-inference", "1.9.3", "waiting_requests", "te_queue_size"),
        ("dcgm-exporter", None, "xid_error", "DCGM_FI_DEV_XID_ERRORS"),
    ],
)
def test_a_version_names_what_it_measures(engine: str, version: str | None, what: str, name: str) -> None:
    """vllm/v1/metrics/loggers.py and sglang/srt/observability/metrics_collector.py of the releases named."""
    assert metric_name(engine, version, what) == name


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "what",
    ["waiting_requests", "running_requests", "kv_use", "ttft", "itl", "e2e", "generated_tokens", "prompt_tokens"],
)
def test_what_alerts_need_is_known_of_every_version_that_commands_are_made_for(engine: str, what: str) -> None:
    for version in ("0.5.9", "0.8.5", "0.11.2", "0.19.1", "0.33.0", "99"):
        assert metric_name(engine, version, what).startswith(f"{engine}:")


def test_what_a_version_does_not_measure_is_data_missing() -> None:
    with pytest.raises(DataMissing):
        metric_name("vllm", "0.8.5", "tpot")
    with pytest.raises(UnknownName):
        metric_name("vllm", "0.8.5", "waiting_request")
    with pytest.raises(UnknownName):
        metrics_of("vllmm")


@pytest.mark.parametrize(
    ("version", "query", "near"),
    [
        ("0.19.1", "avg(vllm:gpu_cache_usage_perc) > 0.9", "vllm:kv_cache_usage_perc"),
        ("0.8.5", "vllm:kv_cache_usage_perc > 0.9", "vllm:gpu_cache_usage_perc"),
        ("0.33.0", "rate(vllm:time_per_output_token_seconds_sum[5m])", "vllm:request_time_per_output_token_seconds"),
        ("0.33.0", "rate(vllm:num_preemptions[5m])", "vllm:num_preemptions_total"),
        ("0.33.0", "vllm:num_requests_waiting_bucket", "vllm:num_requests_waiting"),
    ],
)
def test_a_name_that_the_version_lacks_fails_with_the_nearest(version: str, query: str, near: str) -> None:
    known = metrics_of("vllm", version)
    assert near in known.faults(known.named_in(query))[0]
    with pytest.raises(OurBug):
        known.held(query)


def test_queries_of_metrics_and_their_series_are_held() -> None:
    metrics_of("vllm", "0.19.1").held(
        "sum(vllm:num_requests_waiting) by (model_name)",
        "histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))",
    )
    metrics_of("dcgm-exporter").held("DCGM_FI_DEV_GPU_UTIL < 10", "avg(DCGM_FI_PROF_SM_ACTIVE)")


def test_older_and_newer_than_all_that_was_looked_at_is_told() -> None:
    assert [metrics_of("vllm", version).is_exact for version in ("0.1.0", "0.2.7", "0.19.1", "0.40")] == [
        *(False, True, True, False),
    ]
    assert metric_name("vllm", "0.1.0", "waiting_requests") == "vllm:num_requests_waiting"


def test_each_row_is_in_order_and_no_name_is_told_twice_in_a_version() -> None:
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert all(row["source"] and row["date"] for row in rows)
    assert all(not row["until"] or version_key(row["since"]) < version_key(row["until"]) for row in rows)
    spans = {(row["system"], row["metric"], row["since"]) for row in rows}
    assert len(spans) == len(rows)
    assert set(known_whats()) >= {"kv_use", "ttft", "preemptions", "accepted_tokens"}


@pytest.mark.parametrize(
    ("system", "version", "metric", "off_unless"),
    [
        ("vllm", "0.19.1", "vllm:time_to_first_token_seconds", ""),
        ("sglang", "0.5.9", "sglang:time_to_first_token_seconds", "--enable-metrics"),
        ("tensorrt-llm", "1.2.0", "time_to_first_token_seconds", "return_perf_metrics: true"),
        ("dcgm-exporter", None, "DCGM_FI_DEV_GPU_TEMP", ""),
        ("dcgm-exporter", None, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "dcgm-counters.csv"),
        ("dcgm-exporter", None, "DCGM_FI_DEV_THERMAL_VIOLATION", "dcgm-counters.csv"),
        ("dcgm-exporter", None, "DCGM_FI_PROF_SM_ACTIVE", "dcgm-counters.csv"),
    ],
)
def test_what_is_off_by_default_says_what_turns_it_on(
    system: str, version: str | None, metric: str, off_unless: str
) -> None:
    """etc/default-counters.csv of dcgm-exporter; enable_metrics of sglang/srt/server_args.py is False."""
    assert metrics_of(system, version).by_name[metric].off_unless == off_unless


def test_a_value_falls_into_a_bucket_of_its_version() -> None:
    """vllm/v1/metrics/loggers.py of 0.8.5 and sglang/srt/metrics/collector.py of 0.4.6."""
    ttft = metrics_of("vllm", "0.8.5").by_name["vllm:time_to_first_token_seconds"]
    assert ttft.bucket_of(0.9) == (0.75, 1.0)
    assert ttft.bucket_of(1e4) is None
    assert metrics_of("vllm", "0.7.3").by_name["vllm:time_to_first_token_seconds"].bucket_of(0.9) is None
    assert metrics_of("sglang", "0.4.6").by_name["sglang:time_to_first_token_seconds"].bucket_of(0.9) == (0.8, 1.0)
    assert metrics_of("sglang", "0.4.6").by_name["sglang:e2e_request_latency_seconds"].buckets[-1] == 800
    assert metrics_of("sglang", "0.5.9").by_name["sglang:e2e_request_latency_seconds"].buckets[-1] == 2400


def test_buckets_are_in_order() -> None:
    for system in ("vllm", "sglang", "tensorrt-llm"):
        for metric in metrics_of(system).by_name.values():
            assert list(metric.buckets) == sorted(set(metric.buckets))
            assert not metric.buckets or metric.kind == "histogram"
