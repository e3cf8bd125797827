resource "aws_lb" "grpc" {
  name               = var.name
  internal           = true
  load_balancer_type = "network"
  security_groups    = [aws_security_group.balancer.id]
  subnets            = var.subnet_ids
}

resource "aws_lb_target_group" "grpc" {
  name_prefix          = "gpu-"
  port                 = local.port
  protocol             = "TCP"
  target_type          = "ip"
  vpc_id               = var.vpc_id
  deregistration_delay = 120

  health_check {
    protocol = "TCP"
    interval = 10
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_lb_listener" "grpc" {
  load_balancer_arn = aws_lb.grpc.arn
  port              = local.port
  protocol          = "TCP"

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.grpc.arn
  }
}

resource "aws_security_group" "balancer" {
  name        = "${var.name}-balancer"
  description = "Asked by allowed networks, asks tasks."
  vpc_id      = var.vpc_id
}

resource "aws_security_group" "tasks" {
  name        = "${var.name}-tasks"
  description = "Asked by the load balancer, load weights."
  vpc_id      = var.vpc_id
}

resource "aws_security_group" "machines" {
  name        = "${var.name}-machines"
  description = "Asked by nobody, pull images."
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "asked" {
  for_each          = toset(var.allowed_cidrs)
  security_group_id = aws_security_group.balancer.id
  ip_protocol       = "tcp"
  from_port         = local.port
  to_port           = local.port
  cidr_ipv4         = each.value
}

resource "aws_vpc_security_group_egress_rule" "asks" {
  security_group_id            = aws_security_group.balancer.id
  referenced_security_group_id = aws_security_group.tasks.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

resource "aws_vpc_security_group_ingress_rule" "reached" {
  security_group_id            = aws_security_group.tasks.id
  referenced_security_group_id = aws_security_group.balancer.id
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

resource "aws_vpc_security_group_egress_rule" "tasks_load" {
  security_group_id = aws_security_group.tasks.id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  cidr_ipv4         = "0.0.0.0/0"
}

resource "aws_vpc_security_group_egress_rule" "machines_load" {
  security_group_id = aws_security_group.machines.id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  cidr_ipv4         = "0.0.0.0/0"
}

output "endpoint" {
  value       = "${aws_lb.grpc.dns_name}:${local.port}"
  description = "What a RemotePipelineNode asks."
}
