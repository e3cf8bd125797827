"""Equal copies of a model on Amazon ECS, as blocks of Terraform: their machines, the task that runs one, its service.

Types: registry.terraform.io/providers/hashicorp/aws (6), held to a table of its schema in
tests/contracts/test_deployed_terraform.py; containers: docs.aws.amazon.com/AmazonECS, RegisterTaskDefinition.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpufleet.deploy.aws import DISK_MIB_PER_S, is_spot, root_disk_gib
from gpufleet.deploy.kubernetes_serving import HF_HOME, PROBE_S
from gpufleet.deploy.serving_copies import STOPPING_S, ServingCopies
from gpufleet.hcl import Block, Call, Code, Values, inner, resource_name, text_of
from gpufleet.units import GIB, MIB

CPU_UNITS = 1024
"""ECS counts a vCPU as so many units."""
LOG_DAYS = 30
PULL_TIMEOUT = "15m"
"""How long logs are kept, and how long an image may be unpacked (a minute by default); judgements."""
LEAST_SHARED_GIB = 1.0
MACHINE_METRICS = ["GroupDesiredCapacity", "GroupInServiceInstances"]
"""What a group tells CloudWatch of its machines: nothing unless it is asked to, for no charge (docs.aws.amazon.com,
"Amazon CloudWatch metrics for Amazon EC2 Auto Scaling")."""
NAME, COST_TAG = Code("var.name"), "gpufleet"
"""What all is called, and the tag that tells its costs apart: groups hand it to machines, templates to disks, which the
provider's default tags reach neither of."""
MACHINE_POLICIES = ("service-role/AmazonEC2ContainerServiceforEC2Role", "AmazonSSMManagedInstanceCore")
"""What AWS lets a machine of a cluster do, and what opens a shell on it without a port."""
ATTACHED = "aws_iam_role_policy_attachment"
MACHINES_MAY: Sequence[Code] = [Code(f"{ATTACHED}.{policy.rpartition('/')[2]}") for policy in MACHINE_POLICIES]
STARTING_NEEDS = [Code("aws_ecs_cluster_capacity_providers.serving"), Code("aws_iam_role_policy.logs")]
WITH_OPTIONS = 'mkdir -p /options && printf %s "$ENGINE_OPTIONS" >"/options/$ENGINE_OPTIONS_FILE" && exec "$@"'
"""ECS has no files for containers: the options of the engine are put where its command reads them."""


def ident(copies: ServingCopies) -> str:
    """What their resources are called in Terraform."""
    return resource_name(copies.name)


def named(copies: ServingCopies) -> Code:
    """What they are called on AWS."""
    return text_of(NAME, f"-{copies.name}")


def of(copies: ServingCopies, kind: str, attribute: str) -> Code:
    """An attribute of one of their resources."""
    return Code(f"{kind}.{ident(copies)}.{attribute}")


def resource(copies: ServingCopies, kind: str, attributes: Values, *blocks: Block) -> Block:
    """One of their resources."""
    return Block("resource", (kind, ident(copies)), attributes, blocks)


def copies_blocks(copies: ServingCopies, listener: str) -> Iterator[Block]:
    """All that stands for one group behind a listener of the load balancer."""
    yield launch_template(copies)
    yield group(copies)
    yield capacity(copies)
    yield logs(copies)
    yield task(copies)
    yield targets(copies)
    yield service(copies, listener)


def launch_template(copies: ServingCopies) -> Block:
    """A machine: the image with driver and agent, its disk, metadata by tokens alone and by no container."""
    disk: Values = {
        "volume_size": root_disk_gib([copies]),
        "volume_type": "gp3",
        "throughput": DISK_MIB_PER_S,
        "encrypted": True,
        "delete_on_termination": True,
    }
    told: Values = {"http_endpoint": "enabled", "http_tokens": "required", "http_put_response_hop_limit": 1}
    return resource(
        copies,
        "aws_launch_template",
        {
            "name": named(copies),
            "image_id": Code("data.aws_ssm_parameter.gpu_image.insecure_value"),
            "instance_type": copies.instance,
            "update_default_version": True,
            "vpc_security_group_ids": [Code("aws_security_group.machines.id")],
            "user_data": Code('base64encode(join("\\n", local.agent))'),
        },
        inner("iam_instance_profile", {"arn": Code("aws_iam_instance_profile.machines.arn")}),
        inner("metadata_options", told),
        inner("block_device_mappings", {"device_name": "/dev/xvda"}, inner("ebs", disk)),
        inner("tag_specifications", {"resource_type": "volume", "tags": {COST_TAG: NAME}}),
    )


def group(copies: ServingCopies) -> Block:
    """As many machines as the plan rents; where there are fewer, that shows when they are listed, not as a failure."""
    template: Values = {
        "id": of(copies, "aws_launch_template", "id"),
        "version": of(copies, "aws_launch_template", "latest_version"),
    }
    marks: Values = {"Name": named(copies), "AmazonECSManaged": "true", COST_TAG: NAME}
    tags = [inner("tag", {"key": key, "value": mark, "propagate_at_launch": True}) for key, mark in marks.items()]
    return resource(
        copies,
        "aws_autoscaling_group",
        {
            "name": named(copies),
            "min_size": copies.least_machines,
            "max_size": copies.most_machines,
            "desired_capacity": min(max(copies.machines, copies.least_machines), copies.most_machines),
            "vpc_zone_identifier": Code("var.subnet_ids"),
            "protect_from_scale_in": True,
            "force_delete": True,
            "wait_for_capacity_timeout": "0",
            "metrics_granularity": "1Minute",
            "enabled_metrics": MACHINE_METRICS,
            "depends_on": MACHINES_MAY,
        },
        *([spot_policy(template)] if is_spot(copies) else [inner("launch_template", template)]),
        *tags,
        *left_alone(copies, "desired_capacity"),
    )


def left_alone(copies: ServingCopies, number: str) -> list[Block]:
    """A number that scaling changes, which no later `apply` sets back."""
    has_schedule = copies.scaling is not None and bool(copies.scaling.windows)
    return [inner("lifecycle", {"ignore_changes": [Code(number)]})] if has_schedule else []


def spot_policy(template: Values) -> Block:
    """All machines on spot, of the zones that have most to spare for little."""
    specification: Values = {"launch_template_id": template["id"], "version": template["version"]}
    shares: Values = {
        "on_demand_base_capacity": 0,
        "on_demand_percentage_above_base_capacity": 0,
        "spot_allocation_strategy": "price-capacity-optimized",
    }
    return inner(
        "mixed_instances_policy",
        {},
        inner("instances_distribution", shares),
        inner("launch_template", {}, inner("launch_template_specification", specification)),
    )


def capacity(copies: ServingCopies) -> Block:
    """The machines as the cluster hands them out; copies are led off one before it goes."""
    provider: Values = {
        "auto_scaling_group_arn": of(copies, "aws_autoscaling_group", "arn"),
        "managed_draining": "ENABLED",
        "managed_termination_protection": "ENABLED",
    }
    scaling: Values = {"status": "ENABLED", "target_capacity": 100}
    return resource(
        copies,
        "aws_ecs_capacity_provider",
        {"name": named(copies)},
        inner("auto_scaling_group_provider", provider, inner("managed_scaling", scaling)),
    )


def logs(copies: ServingCopies) -> Block:
    """Where a copy writes what it says."""
    attributes: Values = {
        "name": text_of("/ecs/", NAME, f"/{copies.name}"),
        "retention_in_days": LOG_DAYS,
    }
    return resource(copies, "aws_cloudwatch_log_group", attributes)


def task(copies: ServingCopies) -> Block:
    """One copy, with an address of its own; copies on one machine share the weights that they have loaded."""
    volume: Values = {"scope": "shared", "autoprovision": True, "driver": "local"}
    return resource(
        copies,
        "aws_ecs_task_definition",
        {
            "family": named(copies),
            "network_mode": "awsvpc",
            "requires_compatibilities": ["EC2"],
            "execution_role_arn": Code("aws_iam_role.starting.arn"),
            "task_role_arn": Code("aws_iam_role.copies.arn"),
            "container_definitions": Call("jsonencode", [container(copies)]),
        },
        inner("volume", {"name": "models"}, inner("docker_volume_configuration", volume)),
    )


def container(copies: ServingCopies) -> Values:
    """The engine with its GPUs; memory is in MiB, /dev/shm among it."""
    assert copies.memory_gib is not None, "refused before"
    cores: Values = {} if copies.cpus is None else {"cpu": math.floor(CPU_UNITS * copies.cpus)}
    return {
        "name": "engine",
        "image": copies.image,
        "essential": True,
        **command(copies),
        **cores,
        "memory": in_mib(copies.memory_gib),
        "stopTimeout": copies.grace_s + STOPPING_S,
        "resourceRequirements": [{"type": "GPU", "value": str(copies.gpus)}],
        "linuxParameters": {"sharedMemorySize": in_mib(max(copies.shared_gib, LEAST_SHARED_GIB))},
        "portMappings": [{"containerPort": copies.reached.port, "protocol": "tcp"}],
        "environment": [{"name": name, "value": value} for name, value in environment(copies).items()],
        "secrets": Code("local.secrets"),
        "mountPoints": [{"sourceVolume": "models", "containerPath": HF_HOME}],
        "logConfiguration": log_configuration(copies),
    }


def command(copies: ServingCopies) -> Values:
    """The words that start the engine, after its options are written where it reads some."""
    words = list(copies.arguments)
    if copies.options is None:
        return {"entryPoint": words[:1], "command": words[1:]}
    return {"entryPoint": ["sh", "-c", WITH_OPTIONS, "sh"], "command": words}


def in_mib(gib: float) -> int:
    """GiB in whole MiB."""
    return math.floor(gib * GIB / MIB)


def environment(copies: ServingCopies) -> dict[str, str]:
    """What the engine is told beside its command; no secret."""
    told = {"HF_HOME": HF_HOME}
    if copies.options is not None and copies.options_file is not None:
        told |= {"ENGINE_OPTIONS": copies.options, "ENGINE_OPTIONS_FILE": copies.options_file}
    return told


def log_configuration(copies: ServingCopies) -> Values:
    """What the engine says, by copy."""
    options: Values = {
        "awslogs-group": of(copies, "aws_cloudwatch_log_group", "name"),
        "awslogs-region": Code("var.region"),
        "awslogs-stream-prefix": "engine",
    }
    return {"logDriver": "awslogs", "options": options}


def targets(copies: ServingCopies) -> Block:
    """Copies that answer; one that leaves answers what it has begun."""
    check: Values = {
        "path": copies.reached.ready,
        "interval": PROBE_S,
        "timeout": 5,
        "healthy_threshold": 2,
        "unhealthy_threshold": 3,
        "matcher": "200",
    }
    return resource(
        copies,
        "aws_lb_target_group",
        {
            "name_prefix": "gpu-",
            "port": copies.reached.port,
            "protocol": "HTTP",
            "target_type": "ip",
            "vpc_id": Code("var.vpc_id"),
            "deregistration_delay": copies.grace_s,
            "load_balancing_algorithm_type": "least_outstanding_requests",
        },
        inner("health_check", check),
        inner("lifecycle", {"create_before_destroy": True}),
    )


def service(copies: ServingCopies, listener: str) -> Block:
    """Copies that are replaced one by one in place: there is no GPU for one more beside them."""
    provider: Values = {
        "capacity_provider": of(copies, "aws_ecs_capacity_provider", "name"),
        "weight": 1,
    }
    network: Values = {
        "subnets": Code("var.subnet_ids"),
        "security_groups": [Code("aws_security_group.copies.id")],
    }
    reached: Values = {
        "target_group_arn": of(copies, "aws_lb_target_group", "arn"),
        "container_name": "engine",
        "container_port": copies.reached.port,
    }
    return resource(
        copies,
        "aws_ecs_service",
        {
            "name": named(copies),
            "cluster": Code("aws_ecs_cluster.serving.id"),
            "task_definition": of(copies, "aws_ecs_task_definition", "arn"),
            "desired_count": copies.replicas,
            "deployment_minimum_healthy_percent": 100 * (copies.replicas - 1) // copies.replicas,
            "deployment_maximum_percent": 100,
            "availability_zone_rebalancing": "DISABLED",
            "health_check_grace_period_seconds": copies.start_s,
            "depends_on": [*STARTING_NEEDS, Code(f"aws_lb_listener.{listener}")],
        },
        inner("capacity_provider_strategy", provider),
        inner("network_configuration", network),
        inner("load_balancer", reached),
        inner("deployment_circuit_breaker", {"enable": True, "rollback": True}),
        *left_alone(copies, "desired_count"),
    )
