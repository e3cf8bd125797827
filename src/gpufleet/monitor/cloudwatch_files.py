"""Alarms of CloudWatch as Terraform, in the module that `deploy --to terraform-ecs` wrote: they name its resources.

Types: registry.terraform.io/providers/hashicorp/aws (6). The agent's section for GPUs is `nvidia_gpu`
(docs.aws.amazon.com, "Collect NVIDIA GPU metrics"; translator/config/schema.json of the agent), its metrics begin with
`nvidia_smi_`; a parameter that its own policy lets it read begins with `AmazonCloudWatch-`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpufleet.hcl import Block, Call, Code, Value, Values, hcl_document, inner, resource_name, text_of
from gpufleet.languages import shell_command
from gpufleet.monitor.cloudwatch_alarms import (
    AGENT,
    BALANCER,
    BELOW,
    MACHINES,
    Alarm,
    alarms_in,
    reads_gpus,
    watched_by,
)
from gpufleet.monitor.promql import number
from gpufleet.monitor.rules import RuleGroup
from gpufleet.monitor.target import Target, file, step
from gpufleet.monitor.watched import WatchedCopies, WatchedPlan
from gpufleet.results.deployed import DeployedFile, DeployedStep
from gpufleet.units import MINUTE

ALARMS_FILE, AGENT_FILE = "alarms.tf", "agent.tf"
NAME, TOPIC = Code("var.name"), Code("var.alarm_topic_arn")
COMPARISONS = {True: "LessThanThreshold", False: "GreaterThanThreshold"}
NAMED_STATISTICS = ("Average", "Minimum", "Maximum", "Sum", "SampleCount")
LOAD_BALANCER = Code("aws_lb.serving.arn_suffix")
TOPIC_ARN = 'can(regex("^arn:[a-z-]+:sns:", var.alarm_topic_arn))'
MOST_OF_A_DESCRIPTION = 1024
AGENT_POLICY = "CloudWatchAgentServerPolicy"
AGENT_AGAIN = "rate(30 minutes)"
"""How often State Manager sees to the agent: the shortest that it takes."""


def cloudwatch_files(plan: WatchedPlan, groups: Sequence[RuleGroup]) -> list[DeployedFile]:
    """The alarms, and the agent that reads GPUs where any of them needs it."""
    alarms = alarms_in(plan)
    written = [
        file(ALARMS_FILE, hcl_document([topic(), *map(alarm_block, alarms)]), "alarms on what the plan promises")
    ]
    read = [copies for copies in plan.copies if reads_gpus(copies)]
    if read:
        written.append(file(AGENT_FILE, hcl_document(agent_blocks(read)), "CloudWatch's agent, which reads the GPUs"))
    return written


def topic() -> Block:
    """Who is told."""
    said: Values = {"type": Code("string"), "description": "Topic of SNS that is told of each alarm."}
    held: Values = {"condition": Code(TOPIC_ARN), "error_message": "An ARN such as arn:aws:sns:us-east-1:1:pager."}
    return Block("variable", ("alarm_topic_arn",), said, [inner("validation", held)])


def alarm_block(alarm: Alarm) -> Block:
    """One alarm, which tells its topic when it comes and when it goes."""
    whose = alarm.copies or "balancer"
    attributes: Values = {
        "alarm_name": text_of(NAME, f"-{whose}-{alarm.alert.name}"),
        "alarm_description": described(alarm),
        "comparison_operator": COMPARISONS[alarm.comparison == BELOW],
        "threshold": Code(number(alarm.threshold)),
        "evaluation_periods": alarm.periods,
        "datapoints_to_alarm": alarm.periods,
        "treat_missing_data": "breaching" if alarm.breaks_when_absent else "notBreaching",
        **(measured(alarm) if alarm.share is None else {}),
        "alarm_actions": [TOPIC],
        "ok_actions": [TOPIC],
    }
    queries = [] if alarm.share is None else list(share_of(alarm, alarm.share))
    label = f"{resource_name(whose)}_{alarm.alert.name}"
    return Block("resource", ("aws_cloudwatch_metric_alarm", label), attributes, queries)


def described(alarm: Alarm) -> str:
    """What is wrong, what to do, and the command for it, as far as a description may be long."""
    text = f"{alarm.alert.severity}: {alarm.alert.summary}. {alarm.alert.action}. {alarm.alert.command}"
    return text if len(text) <= MOST_OF_A_DESCRIPTION else f"{text[: MOST_OF_A_DESCRIPTION - 1]}…"


def measured(alarm: Alarm) -> Values:
    """The metric of an alarm; percentiles are extended statistics."""
    is_named = alarm.statistic in NAMED_STATISTICS
    return {
        "namespace": alarm.namespace,
        "metric_name": alarm.metric,
        "statistic" if is_named else "extended_statistic": alarm.statistic,
        "period": round(alarm.period_s),
        "dimensions": dimensions(alarm),
    }


def dimensions(alarm: Alarm) -> Values:
    """By what its values are told from others, as its source reports them."""
    if alarm.namespace == BALANCER:
        whole: dict[str, Value] = {"LoadBalancer": LOAD_BALANCER}
        return (
            whole if alarm.copies is None else {**whole, "TargetGroup": of(alarm, "aws_lb_target_group", "arn_suffix")}
        )
    assert alarm.namespace in (MACHINES, AGENT), alarm.namespace
    return {"AutoScalingGroupName": of(alarm, "aws_autoscaling_group", "name")}


def of(alarm: Alarm, kind: str, attribute: str) -> Code:
    """An attribute of a resource of its copies."""
    assert alarm.copies is not None, alarm.alert.name
    return Code(f"{kind}.{resource_name(alarm.copies)}.{attribute}")


def share_of(alarm: Alarm, expression: str) -> Iterator[Block]:
    """A share of the requests, and what it is made of."""
    yield inner(
        "metric_query",
        {"id": "share", "expression": expression, "label": "percent of the requests", "return_data": True},
    )
    for name, metric in (("failed", alarm.metric), ("asked", "RequestCount")):
        taken: Values = {
            "namespace": alarm.namespace,
            "metric_name": metric,
            "stat": alarm.statistic,
            "period": round(alarm.period_s),
            "dimensions": dimensions(alarm),
        }
        yield inner("metric_query", {"id": name}, inner("metric", taken))


def agent_blocks(read: Sequence[WatchedCopies]) -> Iterator[Block]:
    """What the agent reads, the leave to report it, and State Manager, which puts it on each machine of the groups."""
    role: Value = Code("aws_iam_role.machines.name")
    arn = text_of("arn:", Code("data.aws_partition.here.partition"), f":iam::aws:policy/{AGENT_POLICY}")
    yield Block("resource", ("aws_iam_role_policy_attachment", AGENT_POLICY), {"role": role, "policy_arn": arn})
    parameter: Values = {
        "name": text_of("AmazonCloudWatch-", NAME),
        "type": "String",
        "value": Call("jsonencode", agent_configuration()),
    }
    yield Block("resource", ("aws_ssm_parameter", "agent"), parameter)
    installed: Values = {"action": "Install", "name": "AmazonCloudWatchAgent"}
    told: Values = {
        "action": "configure",
        "mode": "ec2",
        "optionalConfigurationSource": "ssm",
        "optionalConfigurationLocation": Code("aws_ssm_parameter.agent.name"),
        "optionalRestart": "yes",
    }
    yield association("agent_installed", "AWS-ConfigureAWSPackage", installed, read, [])
    after = [Code("aws_ssm_association.agent_installed"), Code(f"aws_iam_role_policy_attachment.{AGENT_POLICY}")]
    yield association("agent_told", "AmazonCloudWatch-ManageAgent", told, read, after)


def agent_configuration() -> Values:
    """Temperature and power of each GPU, once a minute, and the highest of each group of machines."""
    group = "AutoScalingGroupName"
    gpus: Values = {
        "measurement": ["temperature_gpu", "power_draw"],
        "metrics_collection_interval": round(MINUTE),
    }
    return {
        "agent": {"metrics_collection_interval": round(MINUTE), "run_as_user": "root"},
        "metrics": {
            "namespace": AGENT,
            "append_dimensions": {group: f"${{aws:{group}}}", "InstanceId": "${aws:InstanceId}"},
            "aggregation_dimensions": [[group]],
            "metrics_collected": {"nvidia_gpu": gpus},
        },
    }


def association(
    name: str, document: str, parameters: Values, read: Sequence[WatchedCopies], after: Sequence[Code]
) -> Block:
    """What State Manager runs on machines of these groups, new ones too."""
    machines: Value = [text_of(NAME, f"-{copies.name}") for copies in read]
    attributes: dict[str, Value] = {
        "association_name": text_of(NAME, f"-{name.replace('_', '-')}"),
        "name": document,
        "parameters": parameters,
        "schedule_expression": AGENT_AGAIN,
    }
    if after:
        attributes["depends_on"] = after
    targets = inner("targets", {"key": "tag:Name", "values": machines})
    return Block("resource", ("aws_ssm_association", name), attributes, [targets])


def cloudwatch_steps(plan: WatchedPlan) -> list[DeployedStep]:
    """Commands in their order."""
    first = plan.copies[0]
    names = [ALARMS_FILE, *([AGENT_FILE] if any(map(reads_gpus, plan.copies)) else [])]
    inside = 'terraform -chdir="$DEPLOYED"'
    where = ["--region", first.region] if first.region else []
    shown = ["--query", "MetricAlarms[].[AlarmName,StateValue,StateReason]", "--output", "table"]
    listed = ["aws", "cloudwatch", "describe-alarms", *where, "--alarm-name-prefix", f"{first.namespace}-", *shown]
    gone = " ".join(f'"$DEPLOYED/{name}"' for name in names)
    return [
        step("export DEPLOYED=...", "the folder of gpufleet deploy --to terraform-ecs for the same plan"),
        step("export TF_VAR_alarm_topic_arn=arn:aws:sns:...", "who is told: a topic of SNS"),
        step(f'cp {" ".join(names)} "$DEPLOYED"', "alarms name resources of that module"),
        step(f"{inside} init", "loads the provider"),
        step(f"{inside} plan", "shows what would be made: nothing else may change"),
        step(f"{inside} apply", "asks, then makes the alarms"),
        step(shell_command(listed), "shows which are in ALARM, OK, or lack data"),
        step(f"rm {gone} && {inside} apply", "asks, then takes them away"),
    ]


TARGET = Target(
    "cloudwatch",
    "Amazon CloudWatch",
    cloudwatch_files,
    cloudwatch_steps,
    watched_by,
)
