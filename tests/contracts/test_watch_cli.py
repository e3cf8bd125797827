"""`gpufleet watch` against a Prometheus and engines of this machine that answer well, badly or not at all."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import prometheus_client.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalog.price_server import ask_this_machine_alone
from tests.conftest import RunGpufleet
from tests.contracts import fake_prometheus as fake
from tests.contracts.fake_prometheus import AS_PLANNED, FakeServer, serving

import gpufleet
from gpufleet import ServePlan, WatchedNow
from gpufleet.errors import DataMissing, UsageError
from gpufleet.monitor import prometheus_api
from gpufleet.monitor.exposition import buckets_of, quantile, series_in, since


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine alone may be asked, and no proxy."""
    ask_this_machine_alone(monkeypatch)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@lru_cache
def plan() -> ServePlan:
    """Five copies of llama-3.1-8b on five g6e.xlarge."""
    said: dict[str, Any] = {"slo": "ttft.p95<1s", "clouds": ["aws"], "gpus": ["L40S"], "rows": 1}
    return gpufleet.plan_serve("llama-3.1-8b", rate="20/s", input_tokens=1000, output_tokens=200, **said)


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    (tmp_path / "plan.json").write_text(plan().to_json(), encoding="utf-8")
    return "plan.json"


def values(**changed: float | str | None) -> dict[str, float | str | None]:
    """What a plan that holds shows, but for what is changed: patterns by a word that is in one of them."""
    found: dict[str, float | str | None] = dict(AS_PLANNED)
    for word, value in changed.items():
        [pattern] = [each for each in found if word in each]
        found[pattern] = value
    return found


def watched(server: FakeServer, **said: Any) -> WatchedNow:
    return gpufleet.watch_now(plan(), prometheus=server.url, **said)


def figure(found: WatchedNow, name: str) -> Any:
    [one] = [each for each in found.figures if each.name == name]
    return one


def test_a_plan_that_holds_exits_with_nothing_broken(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    with serving(FakeServer(values())) as server:
        done = ask_gpufleet("watch", plan_file, "--prometheus", server.url, "--once", "--budget", "500/day")
        told = ask_gpufleet("watch", plan_file, "--prometheus", server.url, "--budget", "500/day", "-o", "json")
    assert (done.returncode, told.returncode) == (0, 0), done.stderr
    answer = json.loads(told.stdout)
    assert (answer["broken"], answer["is_kept"], answer["exit_code"], answer["source"]) == ([], True, 0, "prometheus")
    by_name = {each["name"]: each for each in answer["figures"]}
    assert by_name["ttft.p95"]["measured"] == 0.42
    assert by_name["ttft.p95"]["limit"] == 1.0
    assert by_name["ttft.p95"]["planned"] == pytest.approx(plan().deployments[0].latency["ttft.p95"].value)
    assert by_name["output_tokens_per_s"]["planned"] == pytest.approx(20 * 200)
    assert {name: each["state"] for name, each in by_name.items() if each["state"] != "as planned"} == {
        "running": "",
        "waiting": "",
        "kv_use_ratio": "",
    }
    spend = answer["spend"]
    assert spend["usd_per_hour"] == pytest.approx(plan().deployments[0].usd_per_hour)
    assert spend["spent_usd"] == 93.0
    assert spend["forecast_usd"] == pytest.approx(93.0 + spend["usd_per_hour"] * 14)
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert all(word in done.stdout for word in ("420 ms", "3,650/s", "31%", "$93.00"))


def test_the_manual_shows_what_is_printed(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "watch.md").read_text(encoding="utf-8")
    with serving(FakeServer(values())) as server:
        done = ask_gpufleet("watch", plan_file, "--prometheus", server.url, "--budget", "500/day")
    shown = manual.partition("```text\n")[2].partition("```")[0]
    assert shown == done.stdout


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({"time_to_first": 1.2}, ["ttft.p95 of llama-3-1-8b"]),
        ({r"deployment\) \(up": 4.0}, ["copies of llama-3-1-8b"]),
        ({"UUID": 3.0}, ["gpus of llama-3-1-8b"]),
        ({"request_success": 60.0}, ["requests_per_s of llama-3-1-8b"]),
        ({"max\\(label": 8.0}, ["machines of g6e.xlarge"]),
        ({"usd_today": 500.0}, ["the budget"]),
        ({"time_to_first": 1.2, "usd_today": 600.0}, ["ttft.p95 of llama-3-1-8b", "the budget"]),
    ],
    ids=repr,
)
def test_what_is_broken_is_named_and_exits_with_4(
    changed: Mapping[str, float], broken: list[str], ask_gpufleet: RunGpufleet, plan_file: str
) -> None:
    with serving(FakeServer(values(**changed))) as server:
        words = ("watch", plan_file, "--prometheus", server.url, "--budget", "500/day")
        done, page = ask_gpufleet(*words, "-o", "json"), ask_gpufleet(*words)
    assert done.returncode == page.returncode == 4
    assert json.loads(done.stdout)["broken"] == broken
    assert page.stdout.startswith("Broken: ")


@pytest.mark.parametrize(
    ("changed", "name", "state"),
    [
        ({"time_to_first": 0.95}, "ttft.p95", "above plan"),
        ({"time_to_first": 0.01}, "ttft.p95", "below plan"),
        ({"time_to_first": "NaN"}, "ttft.p95", "unknown"),
        ({"time_to_first": "+Inf"}, "ttft.p95", "unknown"),
        ({"time_to_first": None}, "ttft.p95", "unknown"),
        ({"request_success": 22.0}, "requests_per_s", "above plan"),
        ({r"deployment\) \(up": 6.0}, "copies", "above plan"),
        ({"time_per_output": "1e308"}, "tpot.p95", "above plan"),
    ],
    ids=repr,
)
def test_what_is_off_but_breaks_no_promise_is_said_and_ends_well(
    changed: Mapping[str, Any], name: str, state: str
) -> None:
    with serving(FakeServer(values(**changed))) as server:
        found = watched(server)
    assert figure(found, name).state == state
    assert found.is_kept
    assert found.exit_code == 0


def test_when_the_budget_is_gone_is_told_by_the_clock_that_it_is_stated_with(
    ask_gpufleet: RunGpufleet, plan_file: str
) -> None:
    """At 10:00, with 5 hours of the machines' money left, it is 15:00."""
    usd = f"{93.0 + 5 * plan().deployments[0].usd_per_hour:.4f}"
    with serving(FakeServer(values())) as server:
        words = ("watch", plan_file, "--prometheus", server.url, "--budget", f"{usd}/day", "--utc-offset", "+02:00")
        done = ask_gpufleet(*words)
        found = watched(server, budget=f"{usd}/day")
        asked = [query for query in server.asked if "86400" in query]
    assert done.returncode == 0
    assert "gone by 15:00 (UTC+02:00)" in " ".join(done.stdout.split())
    assert found.spend is not None
    assert found.spend.gone_after_s == pytest.approx(15 * 3600)
    assert found.spend.state == "over by its end"
    assert any("time() + 7200" in query for query in asked)


def test_without_the_guards_rules_spend_is_added_up_from_what_is_kept() -> None:
    changed = {**values(usd_today=None), r"^sum\(sum_over_time\(.*\[600m:1m\]\)\) / 60$": 91.5}
    with serving(FakeServer(changed)) as server:
        found = watched(server, budget="500/day")
    assert found.spend is not None
    assert (found.spend.spent_usd, found.spend.is_recorded) == (91.5, False)


def test_machines_that_nobody_sees_cost_nobody_knows_what() -> None:
    with serving(FakeServer(values(**{"max\\(label": None, "usd_today": None}))) as server:
        found = watched(server, budget="500/day")
    assert found.spend is not None
    assert (found.spend.usd_per_hour, found.spend.spent_usd, found.spend.forecast_usd) == (None, None, None)
    assert found.spend.machines[0].state == "unknown"


@pytest.mark.parametrize(
    "changed",
    [
        {"^time": None},
        {"^time": 3600.0},
        {"^time": None, r"max_over_time\(timestamp": 10800.0},
        {"^time": "NaN"},
    ],
    ids=["empty", "too old", "gone for three hours", "no number"],
)
def test_nothing_of_the_plan_or_too_old_exits_with_5(
    changed: Mapping[str, Any], ask_gpufleet: RunGpufleet, plan_file: str
) -> None:
    answers = {**{key: value for key, value in changed.items() if "over_time" in key}, **values()}
    answers[r"^time\(\) - max\(timestamp"] = changed["^time"]
    with serving(FakeServer(answers)) as server:
        done = ask_gpufleet("watch", plan_file, "--prometheus", server.url, "--once")
    one_message(done, 5)


def one_message(done: subprocess.CompletedProcess[str], code: int) -> None:
    """One sentence or two, and no more."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert 0 < len(done.stderr) < 1000
    assert done.stderr.count("\n\n") == 0


def vector(sample: str) -> Callable[[BaseHTTPRequestHandler], None]:
    return fake.same(f'{{"status": "success", "data": {{"resultType": "vector", "result": [{sample}]}}}}')


HOSTILE = {
    "html": fake.same("<html><body>login</body></html>", "text/html"),
    "nothing": fake.same(""),
    "ten megabytes": fake.same(b" " * 10_000_000),
    "another json": fake.same('{"a": [1, 2]}'),
    "a list": fake.same("[]"),
    "null": fake.same("null"),
    "deep": fake.same("[" * 100_000),
    "a huge number": vector('{"metric": {}, "value": [0, ' + "9" * 9000 + "]}"),
    "words for a number": vector('{"metric": {}, "value": [0, "many"]}'),
    "numbers for words": vector('{"metric": {}, "value": [0, 7]}'),
    "labels of another kind": vector('{"metric": 7, "value": [0, "7"]}'),
    "a matrix": fake.same('{"status": "success", "data": {"resultType": "matrix", "result": []}}'),
    "an error": fake.same('{"status": "error", "errorType": "bad_data", "error": "no such thing"}', status=400),
    "an error without words": fake.same("<html>", "text/html", 503),
    "a page that is missing": fake.same("no", "text/plain", 404),
    "a redirect elsewhere": fake.redirect("http://203.0.113.9/"),
    "a redirect to a file": fake.redirect("file:///etc/passwd"),
    "a redirect in a circle": fake.redirect("/api/v1/query"),
    "no text": fake.same(b"\xff\xfe\x00\x80"),
    "cut off": fake.hang_up,
}


@pytest.mark.parametrize("how", HOSTILE)
@pytest.mark.parametrize("word", ["--prometheus", "--metrics"])
def test_whatever_answers_instead_ends_in_one_message(
    how: str, word: str, ask_gpufleet: RunGpufleet, plan_file: str
) -> None:
    with serving(FakeServer(answer=HOSTILE[how])) as server:
        done = ask_gpufleet("watch", plan_file, word, server.url)
    one_message(done, 5)
    assert "passwd" not in done.stdout


def test_an_answer_that_takes_for_ever_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, ask_gpufleet: RunGpufleet, plan_file: str
) -> None:
    monkeypatch.setattr(prometheus_api, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(prometheus_api.text_at, "__defaults__", (0.3,))
    monkeypatch.setattr(prometheus_api.asked, "__defaults__", (0.3,))
    for answer in (fake.dripping(3.0), lambda _: fake.time.sleep(1.5)):
        with serving(FakeServer(answer=answer)) as server:
            one_message(ask_gpufleet("watch", plan_file, "--prometheus", server.url), 5)


def test_nobody_there_exits_with_5(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    with serving(FakeServer()) as server:
        gone = server.url
    one_message(ask_gpufleet("watch", plan_file, "--prometheus", gone), 5)
    one_message(ask_gpufleet("watch", plan_file, "--metrics", f"{gone}/metrics"), 5)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--prometheus", "http://a", "--metrics", "http://b"),
        ("--prometheus", "file:///etc/passwd"),
        ("--prometheus", "ftp://127.0.0.1/"),
        ("--prometheus", "127.0.0.1:9090"),
        ("--prometheus", "http://"),
        ("--prometheus", "http://a:99999999"),
        ("--prometheus", "http://user:secret@a"),
        ("--prometheus", "http://a/?query=up"),
        ("--prometheus", "http://a b/"),
        ("--prometheus", "http://a\r\nHost: b"),
        ("--prometheus", "http://ä.example"),
        ("--metrics", "http://a", "--metrics", "http://a/"),
        ("--metrics", "http://a", "--budget", "500/day"),
        ("--prometheus", "http://a", "--budget", "1/day"),
        ("--prometheus", "http://a", "--budget", "500"),
        ("--prometheus", "http://a", "--budget", "500/week"),
        ("--prometheus", "http://a", "--budget", "-5/day"),
        ("--prometheus", "http://a", "--budget", "nan/day"),
        ("--prometheus", "http://a", "--budget", "500.000/day"),
        ("--prometheus", "http://a", "--budget", "500/day", "--utc-offset", "+25:00"),
        ("--prometheus", "http://a", "--utc-offset", "+02:00"),
        ("--prometheus", "http://a", "--every", "0.1s"),
        ("--prometheus", "http://a", "--every", "2d"),
    ],
    ids=repr,
)
def test_words_that_mean_nothing_are_refused_before_anybody_is_asked(
    words: tuple[str, ...], ask_gpufleet: RunGpufleet, plan_file: str
) -> None:
    done = ask_gpufleet("watch", plan_file, *words)
    one_message(done, 2)
    assert "secret" not in done.stderr


PAGE = """\
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.25",model_name="m"} %(a)s
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="m"} %(b)s
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} %(c)s
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 12.5
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} %(c)s
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} %(c)s
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 0.0
vllm:generation_tokens_total{engine="0",model_name="m"} %(t)s
vllm:num_requests_running{engine="0",model_name="m"} 30.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.4
process_start_time_seconds 1.7e9
"""


def engine_page(scale: int = 1) -> str:
    """An engine that has answered 100 requests, or so many times that."""
    return PAGE % {"a": 50 * scale, "b": 90 * scale, "c": 100 * scale, "t": 20_000 * scale}


def test_engines_alone_tell_latencies_since_their_start_and_no_rate(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    """95 of 100 requests lie above the last bound; the median is that of the first bucket's end."""
    with serving(FakeServer(pages={f"/{each}": engine_page() for each in range(5)})) as server:
        urls = [f"{server.url}/{each}" for each in range(5)]
        found = gpufleet.watch_now(plan(), metrics=urls)
        done = ask_gpufleet("watch", plan_file, *(word for url in urls for word in ("--metrics", url)))
    assert done.returncode == 0, done.stdout
    assert figure(found, "ttft.p95").measured == 0.5
    assert figure(found, "copies").measured == 5
    assert (figure(found, "running").measured, figure(found, "waiting").measured) == (150, 10)
    assert figure(found, "kv_use_ratio").measured == pytest.approx(0.4)
    assert figure(found, "requests_per_s").measured is None
    assert figure(found, "tpot.p95").state == "unknown"
    assert found.spend is None
    assert len(found.notes) == 2


def test_two_readings_of_engines_tell_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, waited = iter([100.0, 110.0]), []
    with serving(FakeServer(pages={"/metrics": engine_page()})) as server:

        def wait(seconds: float) -> None:
            waited.append(seconds)
            server.pages = {"/metrics": engine_page(3)}

        monkeypatch.setattr("gpufleet.ask.watch.find.time", Clock(clock, wait))
        found = gpufleet.watch_now(plan(), metrics=[f"{server.url}/metrics"], every="10s")
    assert waited == [10.0]
    assert figure(found, "requests_per_s").measured == pytest.approx(200 / 10)
    assert figure(found, "output_tokens_per_s").measured == pytest.approx(40_000 / 10)
    assert found.broken == ["copies of llama-3-1-8b"]


class Clock:
    """Times that were written down beforehand."""

    def __init__(self, times: Iterator[float], wait: Callable[[float], None]) -> None:
        self.times, self.sleep = times, wait

    def monotonic(self) -> float:
        return next(self.times)


def test_an_engine_that_does_not_answer_is_a_copy_that_is_missed(ask_gpufleet: RunGpufleet, plan_file: str) -> None:
    with serving(FakeServer(pages={f"/{each}": engine_page() for each in range(4)})) as server:
        words = [word for each in range(5) for word in ("--metrics", f"{server.url}/{each}")]
        done = ask_gpufleet("watch", plan_file, *words, "-o", "json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["broken"] == ["copies of llama-3-1-8b"]


def test_another_servers_metrics_are_not_taken_for_the_engines() -> None:
    with serving(FakeServer(pages={"/metrics": "sglang:num_running_reqs 3\n"})) as server, pytest.raises(DataMissing):
        gpufleet.watch_now(plan(), metrics=[f"{server.url}/metrics"])


def test_watching_again_and_again_ends_when_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch, ask_gpufleet: RunGpufleet, plan_file: str
) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("gpufleet.cli.watch.time", Clock(iter(()), wait))
    with serving(FakeServer(values())) as server:
        done = ask_gpufleet("watch", plan_file, "--prometheus", server.url, "--every", "30s")
    assert waited == [30.0] * 3
    assert done.stdout.count("Measured beside planned") == 3
    assert done.returncode == 130


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,10}", fullmatch=True)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]))
NUMBERS = st.floats(allow_nan=False)


def line_of(name: str, labels: Mapping[str, str], value: float) -> str:
    """A series as a client library writes it."""
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') for k, v in labels.items()}
    inside = ",".join(f'{key}="{text}"' for key, text in escaped.items())
    number = {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, repr(value))
    return f"{name}{{{inside}}} {number}" if labels else f"{name} {number}"


@given(st.lists(st.tuples(NAMES, st.dictionaries(LABEL_NAMES, TEXTS, max_size=3), NUMBERS), max_size=5))
def test_series_that_are_written_are_read_back(series: list[tuple[str, dict[str, str], float]]) -> None:
    text = "".join(f"# HELP {name} of it\n{line_of(name, labels, value)}\n" for name, labels, value in series)
    assert [(each.name, dict(each.labels), each.value) for each in series_in(text, "it")] == series


def test_a_page_is_read_as_the_client_library_reads_it() -> None:
    ours = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in series_in(engine_page(), "the engine")}
    theirs = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in prometheus_client.parser.text_string_to_metric_families(engine_page())
        for sample in family.samples
    }
    assert len(ours) == 12
    assert ours == theirs


@given(st.text(max_size=60))
def test_whatever_a_line_holds_it_is_series_or_one_message(text: str) -> None:
    try:
        found = series_in(f"up 1\n{text}\n", "it")
    except DataMissing:
        return
    assert found[0].name == "up"


LINES = ("up", "up{", 'up{a="b} 1', "up 1 2 3", "up x", "1up 1", 'up{a="b" c="d"} 1', "up{a=b} 1")


@pytest.mark.parametrize("line", LINES)
def test_lines_that_are_no_series_are_refused(line: str) -> None:
    with pytest.raises(DataMissing):
        series_in(line, "it")


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8).filter(any), st.floats(0.01, 0.99))
def test_a_percentile_lies_in_the_bucket_that_holds_its_rank(counts: list[int], share: float) -> None:
    bounds = [*(0.1 * 2**place for place in range(len(counts) - 1)), math.inf]
    cumulative = {bound: float(sum(counts[: place + 1])) for place, bound in enumerate(bounds)}
    found = quantile(share, cumulative)
    assert found is not None
    rank = share * sum(counts)
    place = next(number for number, bound in enumerate(bounds) if cumulative[bound] >= rank)
    low = 0.0 if place == 0 else bounds[place - 1]
    assert found == bounds[-2] if place == len(bounds) - 1 else low <= found <= bounds[place] * (1 + 1e-12)


def test_buckets_of_a_later_reading_hold_what_came_between_and_all_after_a_new_start() -> None:
    first, second = (buckets_of(series_in(engine_page(n), "e"), "vllm:time_to_first_token_seconds") for n in (1, 3))
    assert since(second, first) == {0.25: 100.0, 0.5: 180.0, math.inf: 200.0}
    assert since(first, second) == first


def test_no_server_and_no_assistant_is_offered_it() -> None:
    from gpufleet.cli.verb_words import questions
    from gpufleet.mcp.tool_words import TOOLS

    assert not any("watch" in path for path in questions())
    assert not any("watch" in verb for tool in TOOLS for verb in tool.verbs)


def test_only_one_module_of_monitor_reaches_the_network() -> None:
    folder = Path(prometheus_api.__file__).parent
    reaching = [path.name for path in folder.glob("*.py") if "urllib.request" in path.read_text(encoding="utf-8")]
    assert reaching == ["prometheus_api.py"]


def test_python_refuses_what_the_command_line_refuses() -> None:
    with pytest.raises(UsageError):
        gpufleet.watch_now(plan())
