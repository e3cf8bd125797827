"""Copies of a model on one machine as a file of Docker Compose: each with its GPUs and its port.

Fields: docs.docker.com/reference/compose-file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpufleet.deploy.kubernetes_router import router_names
from gpufleet.deploy.kubernetes_serving import HF_HOME, PROBE_S
from gpufleet.deploy.router import CONFIG_FILE, ROUTER_IMAGE, ROUTER_PORT, Backend, Router, haproxy, pools_of, routed
from gpufleet.deploy.serving_copies import STOPPING_S, ServingCopies
from gpufleet.deploy.target import Copies, Step, Target, Written
from gpufleet.languages import without_variables, yaml_document
from gpufleet.records import dataclass

AMD_DEVICES = ("/dev/kfd", "/dev/dri")


@dataclass(frozen=True, eq=False)
class Container:
    """One copy of a group by its name, the `number`-th of its group from 0, at a port of the machine."""

    copies: ServingCopies
    number: int
    name: str
    port: int

    @property
    def gpus(self) -> list[str]:
        """The GPUs of the machine that it has."""
        first = self.copies.first_gpu + self.number * self.copies.gpus
        return [str(gpu) for gpu in range(first, first + self.copies.gpus)]


def containers(copies: Copies) -> list[Container]:
    """All copies, at one port after the other."""
    every = [(one, n) for one in copies for n in range(one.replicas)]
    port = copies[0].reached.port
    return [Container(one, n, copy_name(copies, one, n), port + at) for at, (one, n) in enumerate(every)]


def copy_name(copies: Copies, one: ServingCopies, number: int) -> str:
    """A copy as others reach it: by its group, where there are several."""
    return f"{'copy' if len(copies) == 1 else one.name}-{number + 1}"


def compose_files(copies: Copies) -> Iterator[Written]:
    """`compose.yaml`, the routers' configurations, and the options that engines read beside it."""
    every = containers(copies)
    names = router_names(copies)
    fronts = {names[each] if len(names) > 1 else "router": groups for each, groups in routed(copies).items()}
    services = {each.name: service(each, options_path(copies, each.copies)) for each in every}
    for at, (name, groups) in enumerate(fronts.items()):
        services[name] = router_service(name, ROUTER_PORT + at, [each for each in every if each.copies in groups])
    content = {"name": copies[0].name, "services": services, "volumes": {"models": {}}}
    yield Written("compose.yaml", yaml_document(content), "the copies, each with its GPUs and its port")
    for name, groups in fronts.items():
        pools = pools_of(groups, lambda one: [backend(each) for each in every if each.copies is one])
        router = Router(name, groups[0].routing or "", pools, max(one.grace_s for one in groups))
        yield Written(
            config_file(name), haproxy(router), f"how requests of {groups[0].service} are dealt out (HAProxy)"
        )
    for one in copies:
        if one.options is not None:
            yield Written(options_path(copies, one), one.options, "the options of the engine")


def config_file(router: str) -> str:
    """Where its configuration is."""
    return f"{router}.cfg"


def options_path(copies: Copies, one: ServingCopies) -> str:
    """Where the options of a group are: in a folder of its own, where there are several."""
    file = one.options_file or ""
    return file if len(copies) == 1 else f"{one.name}/{file}"


def backend(each: Container) -> Backend:
    """A copy, as the router reaches it."""
    one = each.copies
    return Backend(
        name=each.name,
        host=each.name,
        port=one.reached.port,
        copies=1,
        requests_per_s=one.requests_per_s,
        most_requests=one.most_requests,
        share_ratio=1 / one.replicas,
        is_named=False,
        ready=one.reached.ready,
    )


def router_service(name: str, port: int, behind: Sequence[Container]) -> dict[str, Any]:
    """One address for the copies of a model, which only the machine itself reaches."""
    return {
        "image": ROUTER_IMAGE,
        "ports": [f"127.0.0.1:{port}:{ROUTER_PORT}"],
        "volumes": [f"./{config_file(name)}:/usr/local/etc/haproxy/{CONFIG_FILE}:ro"],
        "restart": "unless-stopped",
        "stop_signal": "SIGUSR1",
        "stop_grace_period": f"{max(each.copies.grace_s for each in behind)}s",
        "depends_on": [each.name for each in behind],
    }


def service(each: Container, options: str) -> dict[str, Any]:
    """One copy with its GPUs and a port, which only the machine itself reaches."""
    one = each.copies
    port = one.reached.port
    check = f"import urllib.request as r; r.urlopen('http://localhost:{port}{one.reached.ready}', timeout=5)"
    mounted = [] if one.options_file is None else [f"./{options}:/options/{one.options_file}:ro"]
    return {
        "image": one.image,
        "entrypoint": without_variables(one.arguments),
        "environment": {"HF_HOME": HF_HOME, "HF_TOKEN": "${HF_TOKEN:-}", **visible(each)},
        "ports": [f"127.0.0.1:{each.port}:{port}"],
        "volumes": [f"models:{HF_HOME}", *mounted],
        "shm_size": f"{max(one.shared_gib, 1.0):g}gb",
        "restart": "unless-stopped",
        "stop_grace_period": f"{one.grace_s + STOPPING_S}s",
        "healthcheck": {
            "test": ["CMD", "python3", "-c", check],
            "interval": f"{PROBE_S}s",
            "timeout": "10s",
            "retries": 3,
            "start_period": f"{one.start_s}s",
        },
        **gpus(each),
    }


def visible(each: Container) -> dict[str, str]:
    """Which GPUs a copy sees where the runtime hands over all of the machine's."""
    return {"HIP_VISIBLE_DEVICES": ",".join(each.gpus)} if each.copies.vendor == "amd" else {}


def gpus(each: Container) -> dict[str, Any]:
    """The GPUs of a copy, as their maker's runtime is told."""
    if each.copies.vendor == "amd":
        return {"devices": list(AMD_DEVICES), "group_add": ["video"]}
    device = {"driver": "nvidia", "device_ids": each.gpus, "capabilities": ["gpu"]}
    return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}


def compose_steps(copies: Copies) -> list[Step]:
    """Commands in their order."""
    fronts = list(routed(copies))
    alone = [each for each in containers(copies) if each.copies.routing is None]
    ways = [
        *((ROUTER_PORT + at, service) for at, service in enumerate(fronts)),
        *((each.port, each.name) for each in alone),
    ]
    return [
        Step("export HF_TOKEN=...", "for models behind a licence alone: your token of the hub"),
        Step("docker compose up -d", "starts them"),
        Step("docker compose ps", "says healthy once they answer"),
        *(Step(f"curl localhost:{port}/v1/models", f"names the model of {name}") for port, name in ways),
        Step("docker compose down", "takes all down; the machine costs on until you give it back"),
    ]


def one_machine(copies: Copies) -> str | None:
    """Why Compose cannot hold them: it knows of one machine, and starts what it is told."""
    if any(one.varies for one in copies):
        return "copies that come and go"
    machines = sum({one.pool: one.machines for one in copies}.values())
    return None if machines == 1 else f"{machines} machines"


TARGET = Target(
    "compose",
    "Docker Compose",
    lambda copies: list(compose_files(copies)),
    compose_steps,
    one_machine,
    has_ports=True,
)
