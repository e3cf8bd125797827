"""What machines and copies of a service on Amazon ECS may do and whom they reach: as little as lets them start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.deploy.ecs_copies import MACHINE_POLICIES, NAME, ident
from gpufleet.deploy.target import Copies
from gpufleet.hcl import Block, Call, Code, Value, Values, text_of

HTTPS = 443


def roles(copies: Copies) -> Iterator[Block]:
    """What machines, ECS itself and copies may do: copies nothing at all."""
    yield Block("data", ("aws_partition", "here"), {})
    yield role("machines", "ec2")
    for policy in MACHINE_POLICIES:
        yield Block(
            "resource",
            ("aws_iam_role_policy_attachment", policy.rpartition("/")[2]),
            {
                "role": Code("aws_iam_role.machines.name"),
                "policy_arn": text_of("arn:", Code("data.aws_partition.here.partition"), f":iam::aws:policy/{policy}"),
            },
        )
    profile = {"name_prefix": text_of(NAME, "-machines-"), "role": Code("aws_iam_role.machines.name")}
    yield Block("resource", ("aws_iam_instance_profile", "machines"), profile)
    yield role("starting", "ecs-tasks")
    yield policy_of("starting", "logs", statements(copies))
    arn = Code("var.hf_token_secret_arn")
    secret: Values = {"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": arn}
    yield policy_of("starting", "token", [secret], Code("var.hf_token_secret_arn == null ? 0 : 1"))
    yield role("copies", "ecs-tasks")


def role(name: str, service: str) -> Block:
    """A role that a service of AWS takes."""
    trusts: Values = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"Service": f"{service}.amazonaws.com"},
    }
    return Block(
        "resource",
        ("aws_iam_role", name),
        {"name_prefix": text_of(NAME, f"-{name}-"), "assume_role_policy": policy([trusts])},
    )


def policy(said: Sequence[Values]) -> Value:
    """A document of IAM."""
    return Call("jsonencode", {"Version": "2012-10-17", "Statement": said})


def policy_of(role: str, name: str, said: Sequence[Values], count: Code | None = None) -> Block:
    """What a role may do."""
    own: Values = {} if count is None else {"count": count}
    attributes: Values = {**own, "name": name, "role": Code(f"aws_iam_role.{role}.id")}
    return Block("resource", ("aws_iam_role_policy", name), {**attributes, "policy": policy(said)})


def statements(copies: Copies) -> list[Values]:
    """What ECS needs to start a copy: to write its logs, and to pull an image that lies in a registry of AWS."""
    groups: Value = [text_of(Code(f"aws_cloudwatch_log_group.{ident(one)}.arn"), ":*") for one in copies]
    logs: Values = {
        "Effect": "Allow",
        "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
        "Resource": groups,
    }
    pulled = [
        "ecr:GetAuthorizationToken",
        "ecr:BatchCheckLayerAvailability",
        "ecr:GetDownloadUrlForLayer",
        "ecr:BatchGetImage",
    ]
    images: Values = {"Effect": "Allow", "Action": pulled, "Resource": "*"}
    return [logs, *([images] if any(".dkr.ecr." in one.image for one in copies) else [])]


def security(copies: Copies, asked_ports: tuple[int, int]) -> Iterator[Block]:
    """Who reaches whom: allowed networks the load balancer, that the copies, nobody a machine."""
    for name, what in {
        "balancer": "Asked by allowed networks, asks copies.",
        "copies": "Asked by the load balancer, load weights.",
        "machines": "Asked by nobody, pull images.",
    }.items():
        attributes: Values = {"name": text_of(NAME, f"-{name}"), "description": what, "vpc_id": Code("var.vpc_id")}
        yield Block("resource", ("aws_security_group", name), attributes)
    asked = {"for_each": Code("toset(var.allowed_cidrs)"), **ports(*asked_ports), "cidr_ipv4": Code("each.value")}
    yield rule("ingress", "asked", "balancer", asked)
    for port in dict.fromkeys(one.reached.port for one in copies):
        for way, name, group, other in (
            ("egress", "asks", "balancer", "copies"),
            ("ingress", "reached", "copies", "balancer"),
        ):
            peer: Values = {"referenced_security_group_id": Code(f"aws_security_group.{other}.id")}
            yield rule(way, f"{name}_{port}", group, {**peer, **ports(port, port)})
    anywhere: Values = {**ports(HTTPS, HTTPS), "cidr_ipv4": "0.0.0.0/0"}
    for group in ("copies", "machines"):
        yield rule("egress", f"{group}_load", group, anywhere)


def ports(first: int, last: int) -> Values:
    """Ports of TCP."""
    return {"ip_protocol": "tcp", "from_port": first, "to_port": last}


def rule(way: str, name: str, group: str, more: Values) -> Block:
    """One rule of a security group."""
    first = {key: value for key, value in more.items() if key == "for_each"}
    attributes: Values = {"security_group_id": Code(f"aws_security_group.{group}.id"), **more}
    return Block("resource", (f"aws_vpc_security_group_{way}_rule", name), {**first, **attributes})
