"""Copies of a model on one machine as a file of Docker Compose: each with its GPUs and its port.

Fields: docs.docker.com/reference/compose-file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpufleet.deploy.kubernetes_serving import HF_HOME, PROBE_S
from gpufleet.deploy.serving_copies import STOPPING_S, ServingCopies
from gpufleet.deploy.target import Copies, Step, Target, Written, in_folders
from gpufleet.languages import yaml_document

AMD_DEVICES = ("/dev/kfd", "/dev/dri")


def compose_files(copies: ServingCopies) -> Iterator[Written]:
    """`compose.yaml`, and the options that the engine reads beside it."""
    services = {f"copy-{n + 1}": service(copies, n) for n in range(copies.replicas)}
    content = {"name": copies.name, "services": services, "volumes": {"models": {}}}
    yield Written("compose.yaml", yaml_document(content), "the copies, each with its GPUs and its port")
    if copies.options_file is not None:
        yield Written(copies.options_file, copies.options or "", "the options of the engine")


def service(copies: ServingCopies, number: int) -> dict[str, Any]:
    """One copy: the next GPUs of the machine, and the next port of it, which only the machine itself reaches."""
    port = copies.reached.port
    check = f"import urllib.request as r; r.urlopen('http://localhost:{port}{copies.reached.ready}', timeout=5)"
    options = [] if copies.options_file is None else [f"./{copies.options_file}:/options/{copies.options_file}:ro"]
    return {
        "image": copies.image,
        "entrypoint": escaped(copies.arguments),
        "environment": {"HF_HOME": HF_HOME, "HF_TOKEN": "${HF_TOKEN:-}", **visible(copies, number)},
        "ports": [f"127.0.0.1:{port + number}:{port}"],
        "volumes": [f"models:{HF_HOME}", *options],
        "shm_size": f"{max(copies.shared_gib, 1.0):g}gb",
        "restart": "unless-stopped",
        "stop_grace_period": f"{copies.grace_s + STOPPING_S}s",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", check],
            "interval": f"{PROBE_S}s",
            "timeout": "10s",
            "retries": 3,
            "start_period": f"{copies.start_s}s",
        },
        **gpus(copies, number),
    }


def visible(copies: ServingCopies, number: int) -> dict[str, str]:
    """Which GPUs a copy sees where the runtime hands over all of the machine's."""
    own = range(number * copies.gpus, (number + 1) * copies.gpus)
    return {"HIP_VISIBLE_DEVICES": ",".join(map(str, own))} if copies.vendor == "amd" else {}


def gpus(copies: ServingCopies, number: int) -> dict[str, Any]:
    """The GPUs of a copy, as their maker's runtime is told."""
    own = [str(n) for n in range(number * copies.gpus, (number + 1) * copies.gpus)]
    if copies.vendor == "amd":
        return {"devices": list(AMD_DEVICES), "group_add": ["video"]}
    device = {"driver": "nvidia", "device_ids": own, "capabilities": ["gpu"]}
    return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}


def escaped(words: Any) -> list[str]:
    """Words in which Compose fills in no variable: a dollar stands twice.

    >>> escaped(["serve", "$(id)"])
    ['serve', '$$(id)']
    """
    return [word.replace("$", "$$") for word in words]


def compose_steps(copies: Copies) -> list[Step]:
    """Commands in their order."""
    port = copies[0].reached.port
    return [
        Step("export HF_TOKEN=...", "for models behind a licence alone: your token of the hub"),
        Step("docker compose up -d", "starts them"),
        Step("docker compose ps", "says healthy once they answer"),
        Step(f"curl localhost:{port}/v1/models", "names the model; each further copy is one port higher"),
        Step("docker compose down", "takes all down; the machine costs on until you give it back"),
    ]


def one_machine(copies: Copies) -> str | None:
    """Why Compose cannot hold them: it knows of one machine, and starts what it is told."""
    if any(one.scaling is not None for one in copies):
        return "copies that come and go"
    machines = sum(one.machines for one in copies)
    return None if machines == 1 else f"{machines} machines"


TARGET = Target(
    "compose", "Docker Compose", lambda copies: in_folders(copies, compose_files), compose_steps, one_machine
)
