"""Hours that are replayed, as Prometheus sees them: nobody is told while a plan holds, and the right thing when not."""

from __future__ import annotations

import json
import math
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.catalog.price_server import ask_this_machine_alone
from tests.contracts.alert_checks import alerts_in, selectors, told_by, tool, written_to, yaml_of, yaml_text

import gpufleet
from gpufleet import AlertFiles, ServePlan
from gpufleet.catalog.engine_metrics import metrics_of
from gpufleet.domain.replay import Replay

ENGINE, VERSION, MINUTES_OF_DAY, HOUR_MINUTES = "vllm", "0.33.0", 24 * 60, 60
RATE, OF_PROMPT, OF_ANSWER = 6.0, 800, 150
NAME, POD = "llama-3-1-8b", "llama-3-1-8b-7c9f8d6b5-abcde"
OWN = f'namespace="serving",deployment="{NAME}",pod="{POD}"'
HEALTHY = {"DCGM_FI_DEV_GPU_TEMP": 60.0, "DCGM_FI_DEV_POWER_USAGE": 60.0}
Values = Sequence[float]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked."""
    ask_this_machine_alone(monkeypatch)


@lru_cache
def plan() -> ServePlan:
    asked: dict[str, Any] = {"rate": f"{RATE}/s", "input_tokens": OF_PROMPT, "output_tokens": OF_ANSWER, "rows": 1}
    return gpufleet.plan_serve(
        "llama-3.1-8b", slo="ttft.p95<1s", headroom="30%", gpus=["L4"], engine=f"{ENGINE}=={VERSION}", **asked
    )


@lru_cache
def files() -> AlertFiles:
    return gpufleet.watch_plan(plan())


@lru_cache
def replayed(rate: float, folder: str) -> Replay:
    """An hour of requests on the copies of the plan."""
    file = Path(folder) / "plan.json"
    file.write_text(plan().to_json(), encoding="utf-8")
    taken: list[Replay] = []
    words: dict[str, Any] = {"input_tokens": OF_PROMPT, "output_tokens": OF_ANSWER, "requests": int(rate * 3600)}
    gpufleet.simulate_serving(str(file), rate=f"{rate}/s", seed=1, on_replay=taken.append, **words)
    return taken[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("day"))


class Hour:
    """What an engine would show of an hour: observations a minute, by bucket, and gauges; `slower` times as slow."""

    def __init__(self, done: Replay, slower: float = 1.0):
        self.done, self.slower = done, slower
        arrived = np.asarray(done.requests.arrival_s)
        tokens = np.asarray(done.requests.output_tokens)
        first, end = np.asarray(done.first_token_s), np.asarray(done.finish_s)
        answered = np.isfinite(end)
        self.arrived, self.tokens = arrived[answered], tokens[answered]
        self.first, self.end = first[answered], end[answered]

    def observed(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """By metric: minute of each observation, and its value in seconds."""
        per_token = (self.end - self.first) / np.maximum(self.tokens - 1, 1)
        return {
            "vllm:time_to_first_token_seconds": (self.first, self.slower * (self.first - self.arrived)),
            "vllm:e2e_request_latency_seconds": (self.end, self.slower * (self.end - self.arrived)),
            "vllm:request_time_per_output_token_seconds": (self.end, self.slower * per_token),
        }

    def counters(self) -> dict[str, np.ndarray]:
        """By series: how much it grows in each minute of the hour."""
        found: dict[str, np.ndarray] = {}
        for metric, (at, seconds) in self.observed().items():
            for bound in (*metrics_of(ENGINE, VERSION).by_name[metric].buckets, math.inf):
                le = "+Inf" if math.isinf(bound) else str(bound)
                found[f'{metric}_bucket{{{OWN},le="{le}"}}'] = per_minute(at[seconds <= bound])
            found[f"{metric}_count{{{OWN}}}"] = per_minute(at)
        found[f'vllm:request_success_total{{{OWN},finished_reason="stop"}}'] = per_minute(self.end)
        found[f"vllm:generation_tokens_total{{{OWN}}}"] = per_minute(self.end, self.tokens)
        return found

    def gauges(self) -> dict[str, np.ndarray]:
        """By series: what it is in each minute."""
        line, minutes = self.done.timeline, np.arange(HOUR_MINUTES) * 60.0
        at = np.clip(np.searchsorted(line.time_s, minutes, side="right") - 1, 0, None)
        return {
            f"vllm:num_requests_waiting{{{OWN}}}": line.waiting[at].astype(float),
            f"vllm:num_requests_running{{{OWN}}}": line.running[at].astype(float),
            f"vllm:kv_cache_usage_perc{{{OWN}}}": line.kv_used_ratio[at],
        }


def per_minute(at_s: np.ndarray, amounts: np.ndarray | None = None) -> np.ndarray:
    """What falls into each minute of an hour; what comes later counts to its last."""
    minute = np.minimum(at_s // 60, HOUR_MINUTES - 1).astype(int)
    return np.bincount(minute, weights=amounts, minlength=HOUR_MINUTES).astype(float)


def series_of_hours(hours: Sequence[Hour]) -> dict[str, Values]:
    """Series of hours that follow each other."""
    grown = {name: np.concatenate([hour.counters()[name] for hour in hours]) for name in hours[0].counters()}
    found = {name: [0.0, *np.cumsum(values)] for name, values in grown.items()}
    gauges = {name: [*np.concatenate([hour.gauges()[name] for hour in hours]), 0.0] for name in hours[0].gauges()}
    return {**healthy(len(hours) * HOUR_MINUTES + 1), **found, **gauges}


def healthy(minutes: int) -> dict[str, Values]:
    """Series of everything that rules ask for, as it is where nothing is wrong."""
    found: dict[str, Values] = {}
    for alert in alerts_in(yaml_of(files(), "rules.yml")):
        for each in selectors(alert["expr"]) if alert["alert"] == "MetricAbsent" else []:
            own = "kube_pod" in each.name or "DCGM" in each.name
            labels = f'namespace="serving",pod="{POD}"' if own else f'namespace="serving",deployment="{NAME}"'
            labels += ',container="engine"' if "kube_pod" in each.name else ""
            copies = float(plan().answer.replicas) if "replicas" in each.name else 0.0
            if each.name.startswith("vllm:") and not each.name.endswith("preemptions_total"):
                continue
            labels = OWN if each.name.startswith("vllm:") else labels
            found[f"{each.name}{{{labels}}}"] = [HEALTHY.get(each.name, copies)] * minutes
    return found


def alerts_of(series: Mapping[str, Values], minutes: int, at: Path) -> set[str]:
    """Alerts that fired at any time: a test that wants none tells, in what it found instead, which did."""
    written_to(at, files().files)
    query = f"group by (alertname) (count_over_time(ALERTS{{alertstate='firing'}}[{minutes}m]))"
    inputs = [{"series": name, "values": " ".join(map(text_of, values))} for name, values in series.items()]
    check = {"expr": query, "eval_time": f"{minutes}m", "exp_samples": [{"labels": '{nothing="fires"}', "value": 1}]}
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": [check]}
    content = {"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (at / "day.yml").write_text(yaml_text(content), encoding="utf-8")
    said = told_by("promtool", "test", "rules", "day.yml", at=at)
    assert "got:" in said, said
    return {part.split('"')[0] for part in said.split("got:")[1].split('alertname="')[1:]}


def text_of(value: float) -> str:
    return "_" if math.isnan(value) else f"{value:g}" if value < 1e5 else f"{value:.0f}"


@pytest.mark.slow
def test_nobody_is_told_on_a_day_that_holds(tmp_path: Path, folder: str) -> None:
    hour = Hour(replayed(RATE, folder))
    assert alerts_of(series_of_hours([hour] * 24), MINUTES_OF_DAY, tmp_path) == set()


@pytest.mark.slow
def test_a_burst_breaks_the_promise_and_fills_the_queue(tmp_path: Path, folder: str) -> None:
    hours = [Hour(replayed(RATE, folder)), Hour(replayed(3 * RATE, folder)), Hour(replayed(RATE, folder))]
    found = alerts_of(series_of_hours(hours), 180, tmp_path)
    assert {"TtftP95AboveLimit", "RequestsWait"} <= found
    assert not found & {"MetricAbsent", "TooFewCopies", "CopyMissing", "PaidButIdle"}


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "told"), [(1, {"CopyMissing"}), (6, {"CopyMissing", "TooFewCopies"})])
def test_lost_machines_are_told_by_what_they_leave(lost: int, told: set[str], tmp_path: Path, folder: str) -> None:
    series = series_of_hours([Hour(replayed(RATE, folder))] * 3)
    [name] = [name for name in series if name.startswith("kube_deployment_status_replicas_available")]
    series[name] = [value - (lost if minute > 60 else 0) for minute, value in enumerate(series[name])]
    assert alerts_of(series, 180, tmp_path) == told


@pytest.mark.slow
def test_an_engine_that_is_twice_as_slow_is_worse_than_predicted(tmp_path: Path, folder: str) -> None:
    done = replayed(RATE, folder)
    found = alerts_of(series_of_hours([Hour(done), Hour(done, slower=2.0), Hour(done, slower=2.0)]), 180, tmp_path)
    assert found & {"TpotP95WorseThanPredicted", "LatencyP95WorseThanPredicted", "TtftP95AboveLimit"}
    assert not found & {"MetricAbsent", "TooFewCopies", "CopyMissing"}


@pytest.mark.slow
def test_a_metric_that_goes_away_is_missed(tmp_path: Path, folder: str) -> None:
    series = series_of_hours([Hour(replayed(RATE, folder))] * 3)
    for name in series:
        if name.startswith("vllm:time_to_first_token_seconds"):
            series[name] = [value if minute < 60 else math.nan for minute, value in enumerate(series[name])]
    assert alerts_of(series, 180, tmp_path) == {"MetricAbsent"}


class Exporter(BaseHTTPRequestHandler):
    """What an engine, dcgm-exporter and kube-state-metrics show at once, with a hot GPU and a copy too few."""

    text = ""

    def do_GET(self) -> None:
        body = type(self).text.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextmanager
def exporter(text: str) -> Iterator[int]:
    handler = type("Shown", (Exporter,), {"text": text})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def prometheus(at: Path) -> Iterator[str]:
    """Prometheus itself, on loopback, on the files of a folder."""
    port = free_port()
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (at / "log").open("w", encoding="utf-8") as log:
        running = subprocess.Popen([tool("prometheus"), *words], cwd=at, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}/api/v1"
        finally:
            running.terminate()
            running.wait(timeout=30)


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)["data"]


def waited_for(url: str, name: str, wanted: Any) -> Any:
    """What an address says, once it says what is wanted, or at the end of a minute."""
    found: Any = None
    for _ in range(120):
        try:
            found = asked(url)[name]
            if wanted(found):
                return found
        except OSError:
            pass
        time.sleep(0.5)
    return found


def without_cluster(content: dict[str, Any]) -> dict[str, Any]:
    """A configuration whose targets are found without a cluster: Debian's Prometheus knows no Kubernetes."""
    for job in content["scrape_configs"]:
        assert [each["role"] for each in job.pop("kubernetes_sd_configs")] == ["pod"]
        job["static_configs"] = [{"targets": ["127.0.0.1:1"]}]
    return content


@pytest.mark.slow
def test_prometheus_itself_reads_the_files_and_tells_what_is_wrong(tmp_path: Path) -> None:
    written_to(tmp_path, files().files)
    content = without_cluster(yaml_of(files(), "prometheus.yml"))
    (tmp_path / "prometheus.yml").write_text(yaml_text(content), encoding="utf-8")
    assert not told_by("promtool", "check", "config", "prometheus.yml", at=tmp_path)
    shown = healthy(1)
    shown = {
        name: [91.0] if "GPU_TEMP" in name else [0.0] if "replicas_available" in name else values
        for name, values in shown.items()
    }
    shown[f"vllm:num_requests_waiting{{{OWN}}}"] = [0.0]
    with exporter("".join(f"{name} {values[0]:g}\n" for name, values in shown.items())) as port:
        content["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        target = [{"targets": [f"127.0.0.1:{port}"]}]
        content["scrape_configs"] = [{"job_name": "all", "honor_labels": True, "static_configs": target}]
        rules = (tmp_path / "rules.yml").read_text(encoding="utf-8").replace("interval: 1m", "interval: 1s")
        (tmp_path / "rules.yml").write_text(rules, encoding="utf-8")
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        with prometheus(tmp_path) as api:
            is_told = {"GpuHot", "TooFewCopies"}
            alerts = waited_for(
                f"{api}/alerts", "alerts", lambda found: is_told <= {each["labels"]["alertname"] for each in found}
            )
            groups = asked(f"{api}/rules")["groups"]
    told = {each["labels"]["alertname"] for each in alerts}
    assert is_told <= told, (tmp_path / "log").read_text(encoding="utf-8")[-2000:]
    assert not told & {"GpuAboveItsCard", "XidNeedsReset", "RequestsWait", "EngineRestarts"}
    assert {each["state"] for each in alerts} <= {"pending", "firing"}
    assert all(rule["health"] == "ok" for group in groups for rule in group["rules"])
    assert sum(len(group["rules"]) for group in groups) > 20
