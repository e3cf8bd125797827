"""Files of Terraform as a reader of their own sees them, and what is wrong with them; nothing here knows their writer.

`terraform_schema.csv`: attributes and blocks of the types that we write, of the provider for AWS (6.25.0), those of
policies and rules from its documentation. `ecs_container_shapes.csv`: members of a container of RegisterTaskDefinition.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import hcl2

HERE = Path(__file__).parent
EVERYWHERE = {"count": "number", "for_each": "any", "depends_on": "list", "provider": "any"}
LIFECYCLE = "lifecycle"
LEAST_MIB, LEAST_DISK_GIB = 1024, 40
SECRETS = ("HF_TOKEN", "API_KEY")
TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}|\b(AKIA|ASIA)[A-Z0-9]{12,}|aws_secret_access_key")


class Code(str):
    """An expression: its value is not known before Terraform works it out."""


def parsed(text: str) -> dict[str, Any]:
    """A file as plain values; expressions stay code."""
    found: dict[str, Any] = plain(hcl2.loads(text))
    return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {unquoted(key): plain(inner) for key, inner in value.items() if not key.startswith("__")}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return unquoted(value) if isinstance(value, str) else value


def unquoted(text: str) -> str:
    """The text of a string; an expression and a string with one inside are code."""
    if text[:1] != '"':
        return Code(text)
    return Code(text[1:-1]) if re.search(r"[$%]\{", text) else str(json.loads(text))


Row = Mapping[str, str]


@lru_cache
def schema() -> dict[str, dict[str, dict[str, Row]]]:
    """By type and path of a block: its attributes and blocks by name."""
    found: dict[str, dict[str, dict[str, Row]]] = {}
    with (HERE / "terraform_schema.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            block = found.setdefault(row["resource"], {}).setdefault(row["block_path"], {})
            if row["name"]:
                block[row["name"]] = row
    return found


@lru_cache
def shapes() -> dict[str, dict[str, Row]]:
    """Members of each shape of a container."""
    found: dict[str, dict[str, Row]] = {}
    with (HERE / "ecs_container_shapes.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["shape"], {})[row["member"]] = row
    return found


def module(files: Mapping[str, str]) -> dict[str, list[Any]]:
    """All files of a module as one: blocks by their kind."""
    found: dict[str, list[Any]] = {}
    for name, text in files.items():
        if name.endswith(".tf"):
            for kind, blocks in parsed(text).items():
                found.setdefault(kind, []).extend(blocks)
    return found


def resources(whole: Mapping[str, list[Any]], kind: str = "resource") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Type, name and content of each resource, or of what is looked up."""
    for block in whole.get(kind, []):
        for type_name, named in block.items():
            for name, content in named.items():
                yield type_name, name, content


def of_type(whole: Mapping[str, list[Any]], wanted: str) -> dict[str, dict[str, Any]]:
    return {name: content for type_name, name, content in resources(whole) if type_name == wanted}


def unchecked(whole: Mapping[str, list[Any]]) -> list[str]:
    """Types that the table does not hold."""
    types = {type_name for type_name, _, _ in resources(whole)}
    looked_up = {f"data.{type_name}" for type_name, _, _ in resources(whole, "data")}
    return sorted((types | looked_up) - set(schema()))


def problems_of(files: Mapping[str, str]) -> list[str]:
    """All that is wrong with a folder."""
    try:
        whole = module(files)
    except Exception as error:
        return [f"not read: {error}"]
    named = [f"{name}: {problem}" for name, text in files.items() for problem in text_problems(text)]
    formal = [*schema_problems(whole), *reference_problems(whole)]
    return [*named, *(formal or sense_problems(whole))]


def text_problems(text: str) -> Iterator[str]:
    """What no file of a folder may hold."""
    if TOKEN.search(text):
        yield "a token"
    if "-auto-approve" in text:
        yield "applied without a question"


def schema_problems(whole: Mapping[str, list[Any]]) -> Iterator[str]:
    for type_name, name, content in resources(whole):
        yield from block_problems(f"{type_name}.{name}", type_name, "", content)
    for type_name, name, content in resources(whole, "data"):
        yield from block_problems(f"data.{type_name}.{name}", f"data.{type_name}", "", content)


def block_problems(where: str, type_name: str, path: str, content: Mapping[str, Any]) -> Iterator[str]:
    """Keys that a block has not, values of another type, keys that are missing."""
    known = schema().get(type_name, {}).get(path)
    if known is None:
        yield f"{where}: no block {path!r} of {type_name}"
        return
    for key, value in with_dynamic(content).items():
        row = known.get(key)
        if row is None:
            own = path == "" and (key in EVERYWHERE or key == LIFECYCLE)
            yield from [] if own else [f"{where}: no {key} in {path or type_name}"]
        elif row["kind"] == "block":
            inner = ".".join(filter(None, (path, key)))
            if not isinstance(value, list) or (row["type"] == "object" and len(value) != 1):
                yield f"{where}: {key} is a block"
                continue
            for one in value:
                yield from block_problems(where, type_name, inner, one)
        elif not is_of_type(value, row["type"]):
            yield f"{where}: {key} is {value!r}, not {row['type']}"
    missing = [key for key, row in known.items() if row["required"] == "yes" and key not in content]
    yield from (f"{where}: {path or type_name} lacks {key}" for key in missing)


def with_dynamic(content: Mapping[str, Any]) -> dict[str, Any]:
    """Blocks that Terraform makes by `dynamic`, as those that they become."""
    found = {key: value for key, value in content.items() if key != "dynamic"}
    for one in content.get("dynamic", []):
        for name, said in one.items():
            found.setdefault(name, []).extend(said["content"])
    return found


def is_of_type(value: Any, wanted: str) -> bool:
    """Whether a literal is of a type; what an expression yields is left to Terraform."""
    if isinstance(value, Code) or value is None:
        return True
    if wanted == "string":
        return isinstance(value, str | int) and not isinstance(value, list)
    if wanted == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if wanted == "boolean":
        return isinstance(value, bool)
    if wanted.startswith("list of "):
        return isinstance(value, list) and all(is_of_type(one, wanted[8:]) for one in value)
    return isinstance(value, dict)


def reference_problems(whole: Mapping[str, list[Any]]) -> Iterator[str]:
    """What is referred to and does not exist."""
    there = {f"{type_name}.{name}" for type_name, name, _ in resources(whole)}
    there |= {f"data.{type_name}.{name}" for type_name, name, _ in resources(whole, "data")}
    there |= {f"var.{name}" for block in whole.get("variable", []) for name in block}
    there |= {f"local.{name}" for block in whole.get("locals", []) for name in block}
    there |= {f"module.{name}" for block in whole.get("module", []) for name in block}
    for code in codes(whole):
        code = re.sub(r'"(?:\\.|[^"\\$]|\$(?!\{))*"', "", code)
        for found in re.findall(r"(?<![\w.-])(data\.\w+\.[\w-]+|aws_\w+\.[\w-]+|(?:var|local|module)\.[\w-]+)", code):
            if found not in there:
                yield f"{found} is nowhere"


def codes(value: Any) -> Iterator[str]:
    """All expressions."""
    if isinstance(value, Code):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in inner:
        yield from codes(one)


def containers(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Containers of a task: the list inside `jsonencode`."""
    code = re.fullmatch(r"\$\{jsonencode\((.*)\)\}", task["container_definitions"], re.DOTALL)
    assert code is not None
    found: list[dict[str, Any]] = parsed(f"a = {code[1]}\n")["a"]
    return found


def shape_problems(shape: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Members that a container has not, and values of another type."""
    members = shapes()[shape]
    for key, inner in value.items():
        row = members.get(key)
        if row is None:
            yield f"{shape} has no {key}"
        elif not isinstance(inner, Code):
            yield from member_problems(shape, key, inner, row)
    yield from (f"{shape} lacks {key}" for key, row in members.items() if row["required"] == "yes" and key not in value)


def member_problems(shape: str, key: str, value: Any, row: Row) -> Iterator[str]:
    kinds = {"string": str, "integer": int, "boolean": bool, "list": list, "structure": dict, "map": dict}
    if not isinstance(value, kinds[row["type"]]) or (row["type"] == "integer" and isinstance(value, bool)):
        yield f"{shape}: {key} is {value!r}, not {row['type']}"
    elif row["type"] == "string" and row["of"] and value not in row["of"].split():
        yield f"{shape}: {key} is {value!r}, none of {row['of']}"
    elif row["type"] == "structure":
        yield from shape_problems(row["of"], value)
    elif row["type"] == "list":
        for one in value:
            if row["of"] in shapes():
                yield from shape_problems(row["of"], one)
            elif not isinstance(one, str):
                yield f"{shape}: {one!r} in {key} is no text"


def sense_problems(whole: Mapping[str, list[Any]]) -> Iterator[str]:
    """What a schema allows and nobody wants."""
    for name, task in of_type(whole, "aws_ecs_task_definition").items():
        yield from (f"{name}: {problem}" for problem in task_problems(task))
    for name, template in of_type(whole, "aws_launch_template").items():
        yield from (f"{name}: {problem}" for problem in machine_problems(template))
    for name, service in of_type(whole, "aws_ecs_service").items():
        yield from (f"{name}: {problem}" for problem in service_problems(service))
    yield from network_problems(whole)
    for block in whole.get("terraform", []):
        for required in block.get("required_providers", []):
            for provider, said in required.items():
                if not str(said.get("version", "")).startswith("~>"):
                    yield f"any version of {provider}"


def task_problems(task: Mapping[str, Any]) -> Iterator[str]:
    if "execution_role_arn" not in task:
        yield "nothing lets ECS write logs or read secrets"
    if task.get("requires_compatibilities") != ["EC2"]:
        yield "GPUs are on machines alone"
    for container in containers(task):
        yield from shape_problems("ContainerDefinition", container)
        gpus = [one for one in container.get("resourceRequirements", []) if one.get("type") == "GPU"]
        if not gpus or not is_a_number_of_gpus(gpus[0].get("value")):
            yield "no GPU"
        if container.get("linuxParameters", {}).get("sharedMemorySize", 64) < LEAST_MIB:
            yield "64 MiB of shared memory"
        if container.get("memory", container.get("memoryReservation", 0)) < LEAST_MIB:
            yield "memory is in MiB"
        image = container.get("image")
        if not isinstance(image, Code) and not re.search(r":(?!latest$)|@", str(image).rpartition("/")[2]):
            yield "any version of an image"
        environment = container.get("environment", [])
        if isinstance(environment, list) and any(one["name"] in SECRETS for one in environment):
            yield "a secret in the environment"
        if "logConfiguration" not in container:
            yield "no logs"


def is_a_number_of_gpus(value: Any) -> bool:
    """A number of GPUs as ECS takes it: a text."""
    return isinstance(value, Code) or (isinstance(value, str) and value.isdigit() and int(value) > 0)


def machine_problems(template: Mapping[str, Any]) -> Iterator[str]:
    [metadata] = template.get("metadata_options", [{}])
    if metadata.get("http_tokens") != "required":
        yield "metadata without a token"
    disks = [disk for device in template.get("block_device_mappings", []) for disk in device.get("ebs", [])]
    if sum(disk.get("volume_size", 0) for disk in disks) < LEAST_DISK_GIB:
        yield "a disk that holds no engine"
    if not all(disk.get("encrypted") is True for disk in disks):
        yield "a disk in the clear"


def service_problems(service: Mapping[str, Any]) -> Iterator[str]:
    if service.get("deployment_maximum_percent", 200) > 100:
        yield "a rollout needs a free GPU"
    if service.get("deployment_minimum_healthy_percent", 100) >= 100:
        yield "a rollout never begins"
    if service.get("availability_zone_rebalancing") != "DISABLED":
        yield "rebalancing needs a free GPU"
    if service.get("health_check_grace_period_seconds", 0) < 300:
        yield "stopped while it loads"
    if "load_balancer" not in service:
        yield "no way in"


def network_problems(whole: Mapping[str, list[Any]]) -> Iterator[str]:
    for type_name, name, content in resources(whole):
        opened = type_name == "aws_vpc_security_group_ingress_rule" or "ingress" in content
        if opened and re.search(r"0\.0\.0\.0/0|::/0", json.dumps(content)):
            yield f"{name}: open to everybody"
        if opened and content.get("ip_protocol") == "-1":
            yield f"{name}: every port"
    for block in whole.get("variable", []):
        if block.get("allowed_cidrs", {}).get("default", []) != []:
            yield "somebody is allowed before anybody said so"
    waits = [group["deregistration_delay"] for group in of_type(whole, "aws_lb_target_group").values()]
    for name, balancer in of_type(whole, "aws_lb").items():
        if balancer.get("internal") is not True:
            yield f"{name}: open to the internet"
        is_network = balancer.get("load_balancer_type") == "network"
        if not is_network and balancer.get("idle_timeout", 60) < max(waits, default=0):
            yield f"{name}: gives up before an answer"
