"""A service on spot as an EC2 fleet for Terraform: capacity on spot and on demand, strategy, maximum price."""

from __future__ import annotations

from gpufleet.ask.spot.service_shape import SpotServicePlan
from gpufleet.errors import UsageError
from gpufleet.languages import comment, hcl_string

AWS, MANY_ZONES = "aws", "one of each zone"
TITLE = "{model}: {num} machines of {instance} in {region}; all ready {attained:.2%} of the time, by gpufleet spot."
FLEET = """{title}
# {stands_in}

variable "launch_template_id" {{
  type        = string
  description = {starts}
}}

variable "subnet_ids" {{
  type        = list(string)
  description = {subnets}
}}

variable "on_spot" {{
  type        = number
  default     = {on_spot}
  description = "Machines on spot, spares among them."
}}

variable "floor" {{
  type        = number
  default     = {floor}
  description = "Machines that are always on demand."
}}

variable "stands_in" {{
  type        = number
  default     = 0
  description = "Machines on demand in place of spot that is not there."
}}

resource "aws_ec2_fleet" "service" {{
  type                               = "maintain"
  terminate_instances                = true
  excess_capacity_termination_policy = "termination"
  replace_unhealthy_instances        = true

  launch_template_config {{
    launch_template_specification {{
      launch_template_id = var.launch_template_id
      version            = "$Latest"
    }}

    dynamic "override" {{
      for_each = var.subnet_ids
      content {{
        instance_type = {instance}
        subnet_id     = override.value
        max_price     = "{max_price:.4f}"
      }}
    }}
  }}

  target_capacity_specification {{
    default_target_capacity_type = "spot"
    total_target_capacity        = var.on_spot + var.floor + var.stands_in
    spot_target_capacity         = var.on_spot
    on_demand_target_capacity    = var.floor + var.stands_in
  }}

  spot_options {{
    allocation_strategy            = "price-capacity-optimized"
    instance_interruption_behavior = "terminate"

    maintenance_strategies {{
      capacity_rebalance {{
        replacement_strategy = "launch"
      }}
    }}
  }}

  on_demand_options {{
    allocation_strategy = "lowestPrice"
  }}
}}
"""
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
    return FLEET.format(
        title=comment(title),
        starts=hcl_string(f"Starts the engine on {market.instance}."),
        subnets=hcl_string(f"{plan.zones} subnets, {MANY_ZONES}."),
        instance=hcl_string(market.instance),
        stands_in=KEEPS if policy.fallback == "none" else ASKS,
        max_price=plan.most_usd_per_hour,
        on_spot=plan.num_machines - policy.floor + policy.spares if policy.floor < plan.num_machines else 0,
        floor=policy.floor,
    )
