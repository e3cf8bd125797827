"""Routers of a plan's files, run by HAProxy itself in front of engines that answer who they are."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import gpufleet
from gpufleet import DeployedPlan, FleetMix, ServePlan
from gpufleet.catalog.load import load_catalog
from gpufleet.deploy.router import BALANCE, ROUTER_PORT, Backend, Pool, Router, haproxy
from gpufleet.errors import UsageError

HAPROXY = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
needs_haproxy = pytest.mark.skipif(HAPROXY is None, reason="haproxy is not installed")


@pytest.fixture(autouse=True)
def no_network() -> None:
    """Engines and router are on this machine."""


@dataclass
class Engine:
    """A server that says its name after `answer_s`, and counts what it answers at once."""

    name: str
    answer_s: float = 0.0
    port: int = 0
    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[Engine]:
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.say("ok")

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                with engine.lock:
                    engine.now += 1
                    engine.most = max(engine.most, engine.now)
                time.sleep(engine.answer_s)
                with engine.lock:
                    engine.now -= 1
                self.say(engine.name)

            def say(self, text: str) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


def backend(engine: Engine, requests_per_s: float = 1.0, most: int = 100, share: float = 1.0) -> Backend:
    return Backend(engine.name, "127.0.0.1", engine.port, 1, requests_per_s, most, share, False, "/health")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def routing(router: Router, folder: Path) -> Iterator[int]:
    """HAProxy on a port of its own, once it answers."""
    assert HAPROXY is not None
    port, file = free_port(), folder / "haproxy.cfg"
    text = haproxy(router).replace(f"bind :{ROUTER_PORT}", f"bind 127.0.0.1:{port}")
    file.write_text(text, encoding="utf-8")
    run = subprocess.Popen(
        [HAPROXY, "-f", str(file), "-db", "-q"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            if run.poll() is None and answers(port):
                break
            time.sleep(0.05)
        yield port
    finally:
        run.kill()
        run.wait()


def answers(port: int) -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/router-health")
            return connection.getresponse().status == 200
    except OSError:
        return False


def ask(port: int, prompt: str = "hello") -> str:
    """Who answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    body = json.dumps({"model": "m", "prompt": prompt})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return text if response.status == 200 else f"status {response.status}"


def of_many(port: int, prompts: list[str], at_once: int) -> Counter[str]:
    with ThreadPoolExecutor(at_once) as pool:
        return Counter(pool.map(lambda prompt: ask(port, prompt), prompts))


@contextmanager
def engines(*found: Engine) -> Iterator[tuple[Engine, ...]]:
    with ExitStack() as stack:
        yield tuple(stack.enter_context(engine.running()) for engine in found)


@needs_haproxy
@pytest.mark.parametrize("how", BALANCE)
def test_every_way_is_read_by_haproxy_and_answers_all(how: str, tmp_path: Path) -> None:
    with engines(Engine("a"), Engine("b")) as (a, b):
        router = Router("r", how, [Pool([backend(a), backend(b)])], 60)
        with routing(router, tmp_path) as port:
            found = of_many(port, [str(n) for n in range(40)], 4)
    assert found.total() == 40
    assert set(found) <= {"a", "b"}


@needs_haproxy
def test_weights_are_the_shares_that_are_planned(tmp_path: Path) -> None:
    with engines(Engine("a"), Engine("b")) as (a, b):
        router = Router("r", "weights", [Pool([backend(a, share=0.75), backend(b, share=0.25)])], 60)
        with routing(router, tmp_path) as port:
            found = of_many(port, ["x"] * 200, 4)
    assert found["a"] / 200 == pytest.approx(0.75, abs=0.03)


@needs_haproxy
def test_the_least_busy_copy_is_the_one_with_fewest_requests_for_what_it_carries(tmp_path: Path) -> None:
    with engines(Engine("quick", 0.05), Engine("slow", 0.2)) as (quick, slow):
        pool = Pool([backend(quick, 4.0), backend(slow, 1.0)])
        with routing(Router("r", "least_busy", [pool], 60), tmp_path) as port:
            found = of_many(port, ["x"] * 200, 10)
    assert found["quick"] / 200 > 0.8, "4 of 5 at once, each four times as often: 0.94"
    assert quick.most > slow.most


@needs_haproxy
def test_priority_fills_the_first_before_it_asks_the_second(tmp_path: Path) -> None:
    with engines(Engine("cheap", 0.1), Engine("dear", 0.1)) as (cheap, dear):
        router = Router("r", "priority", [Pool([backend(cheap, most=4), backend(dear, most=4)])], 60)
        with routing(router, tmp_path) as port:
            assert set(of_many(port, ["x"] * 20, 2)) == {"cheap"}
            found = of_many(port, ["x"] * 60, 8)
    assert found["dear"] > 0
    assert cheap.most <= 4
    assert dear.most <= 4


@needs_haproxy
def test_prompts_that_begin_alike_go_to_one_copy(tmp_path: Path) -> None:
    with engines(*(Engine(f"copy-{n}") for n in range(4))) as found:
        router = Router("r", "prefix", [Pool([backend(each) for each in found])], 60)
        with routing(router, tmp_path) as port:
            beginnings = [f"document {n} " * 60 for n in range(24)]
            by_document = [{ask(port, text + str(n)) for n in range(3)} for text in beginnings]
    at_one = sum(len(each) == 1 for each in by_document) / len(by_document)
    assert at_one > 0.7, "1 of 16 by chance; a copy whose last answer is not counted as over yet is passed over"
    assert len(set.union(*by_document)) > 1


@needs_haproxy
def test_short_prompts_and_long_ones_go_apart(tmp_path: Path) -> None:
    with engines(Engine("short"), Engine("long")) as (short, long):
        router = Router("r", "least_busy", [Pool([backend(short)], to_tokens=100.0), Pool([backend(long)])], 60)
        with routing(router, tmp_path) as port:
            assert ask(port, "word " * 20) == "short"
            assert ask(port, "word " * 400) == "long"


@needs_haproxy
def test_no_request_is_lost_where_a_copy_dies(tmp_path: Path) -> None:
    lasting, dying = Engine("lasting"), Engine("dying")
    with engines(lasting), ExitStack() as stack:
        stack.enter_context(dying.running())
        router = Router("r", "least_busy", [Pool([backend(lasting), backend(dying)])], 60)
        with routing(router, tmp_path) as port:
            assert set(of_many(port, ["x"] * 20, 4)) == {"lasting", "dying"}
            stack.close()
            assert of_many(port, ["x"] * 40, 4) == Counter({"lasting": 40})


@lru_cache
def of_two_offers() -> ServePlan:
    """A plan that no one offer serves: two GPUs, of each a quota."""
    return gpufleet.plan_serve(
        "llama-3.3-70b", rate="30/s", input_tokens=1000, output_tokens=300, slo="ttft.p95<1s,tpot.p95<50ms",
        clouds=["azure"], gpus=["MI300X", "H100-NVL"], catalog=load_catalog("examples/tables/quotas-of-two"),
    )  # fmt: skip


@needs_haproxy
def test_two_offers_that_serve_one_model_have_a_router_with_the_weights_of_what_they_carry(tmp_path: Path) -> None:
    plan = of_two_offers()
    assert plan.mix is not None
    found = gpufleet.deploy_plan(plan, image="registry.example/engine:1")
    objects = [
        each for file in found.files if file.name.startswith("manifests/") for each in yaml.safe_load_all(file.text)
    ]
    [config] = [each["data"]["haproxy.cfg"] for each in objects if "haproxy.cfg" in each.get("data", {})]
    services = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Service"}
    deployments = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Deployment"}
    templates = [line.split() for line in config.splitlines() if "server-template" in line]
    assert len(templates) == len(plan.mix.parts) == 2
    for words, part in zip(templates, plan.mix.parts, strict=True):
        name, _, port = words[3].partition(":")
        group = name.split(".")[0]
        assert services[group]["clusterIP"] == "None"
        [engine] = deployments[group]["template"]["spec"]["containers"]
        assert engine["ports"][0]["containerPort"] == int(port)
        assert int(words[2]) >= deployments[group]["replicas"] == part.deployment.replicas
    each = [part.deployment.requests_per_s_capacity.value / part.deployment.replicas for part in plan.mix.parts]
    weights = [int(words[words.index("weight") + 1]) for words in templates]
    assert weights[0] / weights[1] == pytest.approx(each[0] / each[1], rel=0.02)
    file = tmp_path / "haproxy.cfg"
    file.write_text(config, encoding="utf-8")
    assert HAPROXY is not None
    subprocess.run([HAPROXY, "-c", "-f", str(file)], check=True, capture_output=True)


def manifests_of(found: DeployedPlan) -> list[dict[str, Any]]:
    """Manifests of the files, each held to the schema of its kind."""
    texts = (file.text for file in found.files if file.name.startswith("manifests/"))
    objects = [each for text in texts for each in yaml.safe_load_all(text)]
    for each in objects:
        kubernetes_validate.validate(each, "1.37", strict=True)
    return objects


def test_a_way_that_nobody_knows_is_refused() -> None:
    plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=500, output_tokens=100, rows=1)
    with pytest.raises(UsageError, match="unknown routing"):
        gpufleet.deploy_plan(plan, image="i:1", router="fastest")
    found = gpufleet.deploy_plan(plan, image="i:1", router="Least-Busy")
    assert [each["kind"] for each in manifests_of(found) if each["metadata"]["name"].endswith("-front")] == [
        "ConfigMap", "Deployment", "Service",
    ]  # fmt: skip


@needs_haproxy
def test_several_copies_on_one_machine_have_one_address(tmp_path: Path) -> None:
    plan = gpufleet.plan_serve(
        "llama-3.1-8b", rate="60/s", input_tokens=500, output_tokens=100, gpus=["A100"], clouds=["aws"], rows=20
    )
    one = next(d for d in plan.deployments if d.instance_count == 1 and d.replicas > 1)
    found = gpufleet.deploy_plan(plan.model_copy(update={"deployments": [one]}), "compose", image="i:1")
    files = {file.name: file.text for file in found.files}
    services = yaml.safe_load(files["compose.yaml"])["services"]
    assert services["router"]["ports"] == ["127.0.0.1:8080:8080"]
    servers = [line.split() for line in files["router.cfg"].splitlines() if line.split()[:1] == ["server"]]
    assert [words[1] for words in servers] == [f"copy-{n + 1}" for n in range(one.replicas)]
    assert {words[1] for words in servers} | {"router"} == set(services)
    (tmp_path / "haproxy.cfg").write_text(files["router.cfg"], encoding="utf-8")
    assert HAPROXY is not None
    subprocess.run([HAPROXY, "-c", "-f", str(tmp_path / "haproxy.cfg")], check=True, capture_output=True)


@lru_cache
def of_lengths() -> FleetMix:
    """A mix that sends short prompts to one machine type and long ones to another."""
    asked = gpufleet.ServeRequest(
        "llama-3.1-8b", 60.0, 1000, 200, slo="ttft.p95<1s,tpot.p95<50ms", clouds=["aws"], gpus=["H100", "L40S"]
    )
    return gpufleet.plan_mix(asked)


@needs_haproxy
def test_a_mix_sends_each_length_where_its_routes_say(tmp_path: Path) -> None:
    mix = of_lengths()
    objects = manifests_of(gpufleet.deploy_plan(mix, image="i:1"))
    [config] = [each["data"]["haproxy.cfg"] for each in objects if "haproxy.cfg" in each.get("data", {})]
    (tmp_path / "haproxy.cfg").write_text(config, encoding="utf-8")
    assert HAPROXY is not None
    subprocess.run([HAPROXY, "-c", "-f", str(tmp_path / "haproxy.cfg")], check=True, capture_output=True)
    limits = [int(line.split()[-2]) for line in config.splitlines() if "use_backend" in line]
    assert limits == [4 * route.to_prompt_tokens for route in mix.routes if route.to_prompt_tokens is not None]
    for route, section in zip(mix.routes, config.split("backend pool-")[-len(mix.routes) :], strict=True):
        templates = [line.split() for line in section.splitlines() if "server-template" in line]
        assert len(templates) == len(route.copies)
        carried = {
            int(words[1].rstrip("-").rpartition("-")[2]) - 1: int(words[words.index("weight") + 1])
            for words in templates
        }
        shares = {at: weight * mix.copies[at].deployment.replicas for at, weight in carried.items()}
        for at, share in route.copies.items():
            assert shares[at] / sum(shares.values()) == pytest.approx(share, abs=0.02)
    deployments = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Deployment"}
    assert sum(spec["replicas"] for name, spec in deployments.items() if not name.endswith("-front")) == sum(
        copies.deployment.replicas for copies in mix.copies
    )


def test_a_mix_that_foretells_answers_has_no_router(tmp_path: Path) -> None:
    by_answer = [route.model_copy(update={"from_answer_tokens": 0.0}) for route in of_lengths().routes]
    with pytest.raises(UsageError, match="length of their prompt alone"):
        gpufleet.deploy_plan(of_lengths().model_copy(update={"routes": by_answer}), image="i:1")
    written = json.loads(of_lengths().to_json())
    written["usd_per_hour"] = 1.0
    (tmp_path / "mix.json").write_text(json.dumps(written), encoding="utf-8")
    with pytest.raises(UsageError, match="was edited"):
        gpufleet.deploy_plan(tmp_path / "mix.json", image="i:1")
