"""A plan on Amazon ECS as Terraform: one cluster, one load balancer inside the network, machines of each group.

Nothing is reached before `allowed_cidrs` names who may: docs/deploy.md says why the rest is as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from gpufleet.deploy.aws import RENTED, quota_steps, unrentable
from gpufleet.deploy.ecs_access import roles, security
from gpufleet.deploy.ecs_copies import COST_TAG, NAME, PULL_TIMEOUT, copies_blocks, ident
from gpufleet.deploy.ecs_schedule import schedule_blocks
from gpufleet.deploy.serving_copies import ServingCopies
from gpufleet.deploy.target import Copies, Step, Target, Written, by_pool
from gpufleet.hcl import Block, Code, Value, Values, hcl_document, inner, text_of

CLUSTER, FIRST_PORT = "serving", 80
PROVIDER_VERSION, TERRAFORM_VERSION = "~> 6.0", ">= 1.5"
NAMED = (
    'can(regex("^[a-z][a-z0-9-]{0,18}[a-z0-9]$", var.name))'
    ' && !can(regex("^(aws|ecs|fargate|internal-|sg-)", var.name))'
)
"""What the names of load balancers, roles, security groups and capacity providers allow in front of a group's name."""
NETWORKS = "alltrue([for cidr in var.allowed_cidrs : can(cidrhost(cidr, 0))])"
GPU_IMAGE = "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id"
"""docs.aws.amazon.com/AmazonECS, "Retrieving Amazon ECS-optimized Linux AMI metadata"."""
MOST_OF_A_WEIGHT = 999
"""Shares of a load balancer's listener are whole numbers up to this (API_TargetGroupTuple)."""
AGENT = {
    "ECS_CLUSTER": "${aws_ecs_cluster.serving.name}",
    "ECS_ENABLE_GPU_SUPPORT": "true",
    "ECS_ENABLE_SPOT_INSTANCE_DRAINING": "true",
    "ECS_AWSVPC_BLOCK_IMDS": "true",
    "ECS_IMAGE_PULL_INACTIVITY_TIMEOUT": PULL_TIMEOUT,
}
"""What the agent of a machine is told (github.com/aws/amazon-ecs-agent, environment variables)."""


def terraform_files(copies: Copies) -> Iterator[Written]:
    """Files of one module: what all share, and a file for each group."""
    yield written("versions", versions(), "versions of Terraform and of its provider")
    yield written("variables", variables(copies), "what you say: network, who may reach it, a token's secret")
    yield written("cluster", cluster(copies), "the cluster, and the image of its machines")
    yield written(
        "access", [*roles(copies), *security(copies, asked_ports(copies))], "what machines and copies may do and reach"
    )
    yield written("balancer", balancer(copies), "the address of each model, inside the network")
    for one in copies:
        listener = next(ident(groups[0]) for groups in services_of(copies) if one in groups)
        scaled = [] if one.scaling is None or not one.scaling.windows else schedule_blocks(one, one.scaling)
        blocks = [*copies_blocks(one, listener), *scaled]
        yield written(f"copies-{one.name}", blocks, f"{machines_words(one)}x {one.instance} and copies")


def machines_words(one: ServingCopies) -> str:
    """How many machines a group has."""
    least, most = one.least_machines, one.most_machines
    return str(least) if least == most else f"{least} to {most} "


def written(name: str, blocks: Iterator[Block] | Sequence[Block], what: str) -> Written:
    """A file of the module."""
    return Written(f"{name}.tf", hcl_document(blocks), what)


def versions() -> Iterator[Block]:
    """Terraform, its provider, and where it works."""
    aws: Value = {"source": "hashicorp/aws", "version": PROVIDER_VERSION}
    yield Block("terraform", (), {"required_version": TERRAFORM_VERSION}, [inner("required_providers", {"aws": aws})])
    tags: Values = {COST_TAG: NAME}
    yield Block("provider", ("aws",), {"region": Code("var.region")}, [inner("default_tags", {"tags": tags})])


def variables(copies: Copies) -> Iterator[Block]:
    """What cannot be known from a plan, and the region that its prices hold in."""
    yield variable(
        "name",
        "string",
        "What all is called on AWS.",
        {"default": CLUSTER},
        checked(NAMED, "2 to 20 of a-z, 0-9 and -, a letter first; not aws, ecs, fargate, internal- or sg- in front."),
    )
    yield variable("region", "string", "Where the plan's prices hold.", {"default": copies[0].region})
    yield variable("vpc_id", "string", "The network that machines stand in.")
    yield variable(
        "subnet_ids",
        "list(string)",
        "Private subnets of two zones at least, with a NAT gateway as their way out.",
        {},
        checked("length(distinct(var.subnet_ids)) >= 2", "A load balancer needs subnets of two zones."),
    )
    yield variable(
        "allowed_cidrs",
        "list(string)",
        "Networks that may ask the models: nobody, until you name some.",
        {"default": []},
        checked(
            NETWORKS,
            "Each is a network such as 10.0.0.0/16.",
        ),
    )
    yield variable(
        "hf_token_secret_arn",
        "string",
        "Secret of Secrets Manager that holds a token of the Hugging Face hub; none for open models.",
        {"default": None},
    )


def variable(name: str, kind: str, what: str, more: Values | None = None, validation: Block | None = None) -> Block:
    """A variable of the module."""
    attributes = {"type": Code(kind), "description": what, **(more or {})}
    return Block("variable", (name,), attributes, [] if validation is None else [validation])


def checked(condition: str, message: str) -> Block:
    """What a value has to hold."""
    return inner("validation", {"condition": Code(condition), "error_message": message})


def cluster(copies: Copies) -> Iterator[Block]:
    """The cluster and its capacity, and what each machine of it starts with."""
    yield Block("resource", ("aws_ecs_cluster", CLUSTER), {"name": NAME})
    providers = [Code(f"aws_ecs_capacity_provider.{ident(one)}.name") for one in copies]
    yield Block(
        "resource",
        ("aws_ecs_cluster_capacity_providers", CLUSTER),
        {"cluster_name": Code("aws_ecs_cluster.serving.name"), "capacity_providers": providers},
    )
    yield Block("data", ("aws_ssm_parameter", "gpu_image"), {"name": GPU_IMAGE})
    lines = [Code(f'"{key}={value}"') for key, value in AGENT.items()]
    agent: Value = ["#!/bin/sh", "cat >>/etc/ecs/ecs.config <<'END'", *lines, "END", ""]
    secrets = 'var.hf_token_secret_arn == null ? [] : [{ name = "HF_TOKEN", valueFrom = var.hf_token_secret_arn }]'
    yield Block("locals", (), {"agent": agent, "secrets": Code(secrets)})


def balancer(copies: Copies) -> Iterator[Block]:
    """One load balancer, a port for each service; an answer may take its time."""
    yield Block(
        "resource",
        ("aws_lb", CLUSTER),
        {
            "name": NAME,
            "internal": True,
            "load_balancer_type": "application",
            "security_groups": [Code("aws_security_group.balancer.id")],
            "subnets": Code("var.subnet_ids"),
            "idle_timeout": max(one.grace_s for one in copies),
            "drop_invalid_header_fields": True,
        },
    )
    for port, groups in enumerate(services_of(copies), FIRST_PORT):
        yield listener(groups, port)
        url = text_of("http://", Code("aws_lb.serving.dns_name"), f":{port}")
        said: Values = {"value": url, "description": f"Where {groups[0].model} answers."}
        yield Block("output", (f"url_{ident(groups[0])}",), said)


def listener(groups: Copies, port: int) -> Block:
    """The port of a model; where several groups serve it, each gets its share of the requests."""
    arns = {ident(one): Code(f"aws_lb_target_group.{ident(one)}.arn") for one in groups}
    shares = [inner("target_group", {"arn": arns[ident(one)], "weight": weight(one)}) for one in groups]
    alone: Values = {"target_group_arn": arns[ident(groups[0])]} if len(groups) == 1 else {}
    dealt = [] if alone else [inner("forward", {}, *shares)]
    reached: Values = {"load_balancer_arn": Code("aws_lb.serving.arn"), "port": port, "protocol": "HTTP"}
    action = inner("default_action", {"type": "forward", **alone}, *dealt)
    return Block("resource", ("aws_lb_listener", ident(groups[0])), reached, [action])


def weight(one: ServingCopies) -> int:
    """A share of requests as a load balancer counts it.

    >>> from types import SimpleNamespace as Copies
    >>> weight(Copies(share_ratio=0.6))
    599
    """
    return max(round(MOST_OF_A_WEIGHT * one.share_ratio), 1)


def asked_ports(copies: Copies) -> tuple[int, int]:
    """The first and the last port: one for each service."""
    return FIRST_PORT, FIRST_PORT + len(services_of(copies)) - 1


def services_of(copies: Copies) -> list[list[ServingCopies]]:
    """Groups that serve the same requests."""
    found: dict[str, list[ServingCopies]] = {}
    for one in copies:
        found.setdefault(one.service, []).append(one)
    return list(found.values())


def terraform_steps(copies: Copies) -> Iterator[Step]:
    """Commands in their order."""
    here = f"--region {copies[0].region}"
    machines = sum(one.machines for one in copies)
    described = f"aws ecs describe-container-instances {here} --cluster {CLUSTER}"
    arns = f"$(aws ecs list-container-instances {here} --cluster {CLUSTER} --query containerInstanceArns --output text)"
    shown = "containerInstances[].registeredResources[?name=='GPU'].stringSetValue"
    yield from quota_steps(copies)
    yield Step('export TF_VAR_vpc_id=vpc-... TF_VAR_subnet_ids=\'["subnet-...", "subnet-..."]\'', "your network")
    yield Step("export TF_VAR_allowed_cidrs='[\"10.0.0.0/16\"]'", "who may ask the models")
    yield Step(
        f"aws secretsmanager create-secret {here} --name hf-token --secret-string $HF_TOKEN",
        "for models behind a licence alone; its ARN is TF_VAR_hf_token_secret_arn",
    )
    yield Step("terraform init", "loads the provider")
    yield Step("terraform plan", "shows what would be made")
    yield Step("terraform apply", "asks, then rents the machines and starts them")
    yield Step(
        f'{described} --container-instances {arns} --query "{shown}"',
        f"GPUs of each machine; needed: {machines} machines",
    )
    for one in copies:
        name = f"{CLUSTER}-{one.name}"
        yield Step(
            f"aws ecs wait services-stable {here} --cluster {CLUSTER} --services {name}",
            f"waits until {one.name} answers, for 10 minutes: again where it still loads",
        )
    url = f"url_{ident(copies[0])}"
    yield Step(f"curl $(terraform output -raw {url})/v1/models", "names the model, from a network that may ask")
    yield from cost_steps()
    yield Step("terraform destroy", "asks, then takes all down, machines too")


def cost_steps() -> Iterator[Step]:
    """What it has cost by the bill: a tag tells costs apart once it is switched on, a day later
    (docs.aws.amazon.com/cost-management, "Activating user-defined cost allocation tags"; GetCostAndUsage).
    """
    days = "Start=$(date -u -d '7 days ago' +%F),End=$(date -u +%F)"
    of = f"--filter '{json.dumps({'Tags': {'Key': COST_TAG, 'Values': [CLUSTER]}})}'"
    yield Step(
        f"aws ce update-cost-allocation-tags-status --cost-allocation-tags-status TagKey={COST_TAG},Status=Active",
        "once for an account, a day after the first machine",
    )
    yield Step(
        f"aws ce get-cost-and-usage --time-period {days} --granularity DAILY --metrics UnblendedCost {of} "
        "--group-by Type=DIMENSION,Key=SERVICE",
        "what the last week cost by the bill, a day late",
    )


def refusal(copies: Copies) -> str | None:
    """Why ECS cannot hold copies: they come and go, share machines, get some lengths alone, or cannot be rented."""
    if any(one.varies and one.scaling is not None and one.scaling.reads_metrics for one in copies):
        return "copies that come and go by what engines measure: ECS reads no Prometheus"
    if any(len(pool) > 1 for pool in by_pool(copies)):
        return "models that share machines"
    if any(len(one.shares) > 1 for one in copies):
        return "short prompts and long ones apart: a load balancer sees no lengths"
    return unrentable(copies)


TARGET = Target(
    "terraform-ecs",
    "Amazon ECS by Terraform",
    lambda copies: list(terraform_files(copies)),
    lambda copies: list(terraform_steps(copies)),
    refusal,
    rents=RENTED,
    deals_out=True,
)
