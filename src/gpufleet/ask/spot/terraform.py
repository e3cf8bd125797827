"""A service on spot as an EC2 fleet for Terraform: capacity on spot and on demand, strategy, maximum price."""

from __future__ import annotations

from gpufleet.ask.spot.service_shape import SpotServicePlan
from gpufleet.errors import UsageError
from gpufleet.hcl import Block, Code, Values, hcl_document, inner

AWS, MANY_ZONES = "aws", "one of each zone"
TITLE = "{model}: {num} machines of {instance} in {region}; all ready {attained:.2%} of the time, by gpufleet spot."
KEEPS = "EC2 keeps these numbers by itself."
ASKS = "EC2 never turns spot into on demand: set stands_in to what spot lacks, and back to 0 once spot is ready."


def spot_fleet(plan: SpotServicePlan) -> str:
    """Terraform of the answer; spares are held all the time, as EC2 cannot tell young zones."""
    market, policy = plan.market, plan.answer.policy
    if market.cloud != AWS:
        raise UsageError("--spot-fleet writes fleets of AWS", found=market.cloud)
    title = TITLE.format(
        model=plan.model,
        num=plan.num_machines,
        instance=market.instance,
        region=market.region,
        attained=plan.answer.attained.value,
    )
    on_spot = plan.num_machines - policy.floor + policy.spares if policy.floor < plan.num_machines else 0
    blocks = [
        variable("launch_template_id", "string", f"Starts the engine on {market.instance}."),
        variable("subnet_ids", "list(string)", f"{plan.zones} subnets, {MANY_ZONES}."),
        variable("on_spot", "number", "Machines on spot, spares among them.", on_spot),
        variable("floor", "number", "Machines that are always on demand.", policy.floor),
        variable("stands_in", "number", "Machines on demand in place of spot that is not there.", 0),
        fleet(market.instance, f"{plan.most_usd_per_hour:.4f}"),
    ]
    return hcl_document(blocks, title, KEEPS if policy.fallback == "none" else ASKS)


def variable(name: str, kind: str, what: str, default: int | None = None) -> Block:
    """A variable of the fleet."""
    given: Values = {} if default is None else {"default": default}
    return Block("variable", (name,), {"type": Code(kind), **given, "description": what})


def fleet(instance: str, max_price: str) -> Block:
    """Machines that EC2 keeps on spot and on demand, in every zone of the subnets."""
    kept: Values = {
        "type": "maintain",
        "terminate_instances": True,
        "excess_capacity_termination_policy": "termination",
        "replace_unhealthy_instances": True,
    }
    spot: Values = {"allocation_strategy": "price-capacity-optimized", "instance_interruption_behavior": "terminate"}
    rebalance = inner("capacity_rebalance", {"replacement_strategy": "launch"})
    return Block(
        "resource",
        ("aws_ec2_fleet", "service"),
        kept,
        [
            inner("launch_template_config", {}, template(), override(instance, max_price)),
            inner("target_capacity_specification", capacity()),
            inner("spot_options", spot, inner("maintenance_strategies", {}, rebalance)),
            inner("on_demand_options", {"allocation_strategy": "lowestPrice"}),
        ],
    )


def template() -> Block:
    """What starts a machine."""
    return inner(
        "launch_template_specification",
        {"launch_template_id": Code("var.launch_template_id"), "version": "$Latest"},
    )


def override(instance: str, max_price: str) -> Block:
    """The machine type, at most at a price, in each subnet."""
    content: Values = {"instance_type": instance, "subnet_id": Code("override.value"), "max_price": max_price}
    return Block("dynamic", ("override",), {"for_each": Code("var.subnet_ids")}, [inner("content", content)])


def capacity() -> Values:
    """How many machines, and how many of them on spot."""
    return {
        "default_target_capacity_type": "spot",
        "total_target_capacity": Code("var.on_spot + var.floor + var.stands_in"),
        "spot_target_capacity": Code("var.on_spot"),
        "on_demand_target_capacity": Code("var.floor + var.stands_in"),
    }
