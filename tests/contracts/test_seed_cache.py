"""The seeds' cache of answers for frequent prompts: Redis, and a proxy that asks what `deploy` starts."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import kubernetes_validate
import pytest
import yaml

import gpufleet

HERE = Path(__file__).parent
TOP = HERE.parents[1] / "examples" / "aws-deployment" / "response-cache"
KUBERNETES, NAMESPACE = "1.37", "serving"
TYPES = {"str": str, "int": int, "bool": bool, "list": list, "dict": dict}
UNITS = {"gb": 10**9, "mb": 10**6, "Mi": 1 << 20, "Gi": 1 << 30}


def texts() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(TOP.glob("*.yaml"))}


@lru_cache
def fields() -> dict[tuple[str, str], str]:
    with (HERE / "fields" / "litellm_config.csv").open(encoding="utf-8", newline="") as file:
        return {(row["block"], row["key"]): row["type"] for row in csv.DictReader(file)}


@lru_cache
def started() -> dict[str, Any]:
    """The Service and the Deployment that are written for a plan of the model."""
    plan = gpufleet.plan_serve("llama-3.1-8b", rate="2/s", input_tokens=1000, output_tokens=200, engine="vllm", rows=1)
    files = gpufleet.deploy_plan(plan, "kubernetes").files
    objects = [one for file in files if file.name.endswith(".yaml") for one in yaml.safe_load_all(file.text)]
    return {one["kind"]: one for one in objects}


def config_problems(block: str, said: dict[str, Any]) -> Iterator[str]:
    """Keys that LiteLLM documents nowhere, and values of another type."""
    for key, value in said.items():
        kind = fields().get((block, key))
        inner = f"{block}.{key}".lstrip(".")
        if kind is None:
            yield f"{inner} is unknown"
        elif type(value) is not TYPES[kind]:
            yield f"{inner} is {value!r}"
        elif isinstance(value, dict):
            yield from config_problems(inner, value)
        else:
            for one in value if isinstance(value, list) and value and isinstance(value[0], dict) else []:
                yield from config_problems(inner, one)


def number_of(text: str) -> float:
    """Bytes of `1gb` or `1536Mi`."""
    found = re.fullmatch(r"(\d+)(\D+)", text)
    assert found is not None, text
    return int(found[1]) * UNITS[found[2]]


def problems_of(files: dict[str, str]) -> list[str]:
    """What would not start, not be found, or keep no answer."""
    config = yaml.safe_load(files["config.yaml"])
    objects = [one for name in ("redis.yaml", "proxy.yaml") for one in yaml.safe_load_all(files[name])]
    found = list(config_problems("", config))
    for one in objects:
        try:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(str(error))
    return found or [*link_problems(config, objects), *redis_problems(objects)]


def link_problems(config: dict[str, Any], objects: list[dict[str, Any]]) -> Iterator[str]:
    """Names that lead nowhere."""
    services = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Service"}
    pods = {one["metadata"]["name"]: one["spec"]["template"] for one in objects if one["kind"] == "Deployment"}
    kept = config["litellm_settings"]["cache_params"]
    ports = [port["port"] for port in services.get(kept["host"], {}).get("ports", [])]
    if kept["type"] != "redis" or kept["port"] not in ports:
        yield "answers are kept nowhere"
    for name, spec in services.items():
        if not any(spec["selector"].items() <= pod["metadata"]["labels"].items() for pod in pods.values()):
            yield f"nobody answers for {name}"
    [model] = config["model_list"]
    asked = urlsplit(model["litellm_params"]["api_base"])
    service, deployment = started()["Service"], started()["Deployment"]
    if asked.hostname != f"{service['metadata']['name']}.{NAMESPACE}.svc" or asked.path != "/v1":
        yield "asks nobody"
    if (asked.port or 80) not in [port["port"] for port in service["spec"]["ports"]]:
        yield "asks at another port"
    [engine] = deployment["spec"]["template"]["spec"]["containers"]
    served = model["litellm_params"]["model"].partition("/")[2]
    if served not in [*engine.get("command", []), *engine.get("args", [])]:
        yield "asks for another model"
    [policy] = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    [rule] = policy["ingress"]
    for peer in rule["from"]:
        if peer["podSelector"]["matchLabels"] != services["cached"]["selector"]:
            yield "others than the proxy reach the answers"


def redis_problems(objects: list[dict[str, Any]]) -> Iterator[str]:
    """A cache that grows until it is killed, or refuses what is new."""
    [redis] = [
        container
        for one in objects
        if one["kind"] == "Deployment" and one["metadata"]["name"] == "answers"
        for container in one["spec"]["template"]["spec"]["containers"]
    ]
    words = dict(zip(redis["args"][::2], redis["args"][1::2], strict=True))
    if number_of(words.get("--maxmemory", "9999gb")) > 0.8 * number_of(redis["resources"]["limits"]["memory"]):
        yield "is killed before it is full"
    if words.get("--maxmemory-policy") != "allkeys-lru":
        yield "takes no answer once it is full"


def test_frequent_prompts_are_answered_from_redis_in_front_of_what_a_plan_starts() -> None:
    assert problems_of(texts()) == []
    images = re.findall(r"image: (\S+)", "".join(texts().values()))
    assert len(images) == 2
    assert all(re.search(r":v?\d", image) for image in images), "no image that changes under its name"
    assert not re.search(r"sk-\w+", "".join(texts().values())), "a key in a file"


FAULTS = {
    "another host": ("config.yaml", "host: answers", "host: redis", "kept nowhere"),
    "a port as a text": ("config.yaml", "port: 6379", 'port: "6379"', "port is"),
    "a key misspelt": ("config.yaml", "cache_params", "cache_param", "unknown"),
    "another model": ("config.yaml", "Llama-3.1-8B-Instruct", "Llama-3.1-8B", "another model"),
    "the engine's own port": ("config.yaml", "serving.svc/v1", "serving.svc:8000/v1", "another port"),
    "no end of memory": ("redis.yaml", "--maxmemory, 1gb, ", "", "is killed"),
    "a selector of nobody": ("proxy.yaml", "selector: {app.kubernetes.io/name: cached}", "selector: {app: cached}", ""),
    "a limit misspelt": ("proxy.yaml", "limits: {memory: 2Gi}", "limit: {memory: 2Gi}", ""),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    name, old, new, found = FAULTS[fault]
    files = texts()
    faulty = {**files, name: files[name].replace(old, new)}
    assert faulty != files
    problems = problems_of(faulty)
    assert problems
    assert any(found in problem for problem in problems), problems
