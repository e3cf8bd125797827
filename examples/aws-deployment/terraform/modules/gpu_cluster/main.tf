locals {
  port = 50051

  agent = [
    "#!/bin/sh",
    "cat >>/etc/ecs/ecs.config <<'END'",
    "ECS_CLUSTER=${aws_ecs_cluster.gpu.name}",
    "ECS_ENABLE_GPU_SUPPORT=true",
    "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true",
    "ECS_AWSVPC_BLOCK_IMDS=true",
    "ECS_IMAGE_PULL_INACTIVITY_TIMEOUT=15m",
    "ECS_INSTANCE_ATTRIBUTES={\"accelerator\":\"nvidia\",\"gpu-type\":\"${var.gpu_type}\"}",
    "END",
    "",
  ]

  visible = { CUDA_VISIBLE_DEVICES = join(",", sort(distinct(values(var.cuda_devices)))) }
  devices = length(var.cuda_devices) == 0 ? {} : merge(var.cuda_devices, local.visible)
}

data "aws_ssm_parameter" "ecs_gpu_optimized" {
  name = "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id"
}

data "aws_partition" "here" {}

resource "aws_ecs_cluster" "gpu" {
  name = var.name
}

resource "aws_launch_template" "gpu_workers" {
  name                   = var.name
  image_id               = data.aws_ssm_parameter.ecs_gpu_optimized.insecure_value
  instance_type          = var.instance_type
  update_default_version = true
  vpc_security_group_ids = [aws_security_group.machines.id]
  user_data              = base64encode(join("\n", local.agent))

  iam_instance_profile {
    arn = aws_iam_instance_profile.machines.arn
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = 100
      volume_type           = "gp3"
      encrypted             = true
      delete_on_termination = true
    }
  }
}

resource "aws_autoscaling_group" "gpu_workers" {
  name                      = var.name
  min_size                  = var.min_gpu_instances
  max_size                  = var.max_gpu_instances
  vpc_zone_identifier       = var.subnet_ids
  force_delete              = true
  wait_for_capacity_timeout = "0"

  depends_on = [aws_iam_role_policy_attachment.ecs, aws_iam_role_policy_attachment.shell]

  mixed_instances_policy {
    instances_distribution {
      on_demand_base_capacity                  = 0
      on_demand_percentage_above_base_capacity = 100 - var.spot_percent
      spot_allocation_strategy                 = "price-capacity-optimized"
    }

    launch_template {
      launch_template_specification {
        launch_template_id = aws_launch_template.gpu_workers.id
        version            = aws_launch_template.gpu_workers.latest_version
      }

      dynamic "override" {
        for_each = distinct(concat([var.instance_type], var.fallback_instance_types))

        content {
          instance_type = override.value
        }
      }
    }
  }

  tag {
    key                 = "Name"
    value               = var.name
    propagate_at_launch = true
  }

  tag {
    key                 = "AmazonECSManaged"
    value               = "true"
    propagate_at_launch = true
  }

  lifecycle {
    ignore_changes = [desired_capacity]
  }
}

resource "aws_autoscaling_schedule" "scale_down_night" {
  count                  = var.night_off ? 1 : 0
  scheduled_action_name  = "scale-down-night"
  min_size               = 0
  max_size               = 0
  desired_capacity       = 0
  recurrence             = "0 22 * * *"
  time_zone              = var.time_zone
  autoscaling_group_name = aws_autoscaling_group.gpu_workers.name
}

resource "aws_autoscaling_schedule" "scale_up_morning" {
  count                  = var.night_off ? 1 : 0
  scheduled_action_name  = "scale-up-morning"
  min_size               = var.min_gpu_instances
  max_size               = var.max_gpu_instances
  desired_capacity       = var.min_gpu_instances
  recurrence             = "0 6 * * *"
  time_zone              = var.time_zone
  autoscaling_group_name = aws_autoscaling_group.gpu_workers.name
}

resource "aws_ecs_capacity_provider" "gpu_workers" {
  name = var.name

  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.gpu_workers.arn
    managed_draining               = "ENABLED"
    managed_termination_protection = "DISABLED"

    managed_scaling {
      status          = "ENABLED"
      target_capacity = 100
    }
  }
}

resource "aws_ecs_cluster_capacity_providers" "gpu" {
  cluster_name       = aws_ecs_cluster.gpu.name
  capacity_providers = [aws_ecs_capacity_provider.gpu_workers.name]
}

resource "aws_cloudwatch_log_group" "grpc_server" {
  name              = "/ecs/${var.name}"
  retention_in_days = 30
}

resource "aws_ecs_task_definition" "grpc_server" {
  family                   = var.name
  network_mode             = "awsvpc"
  requires_compatibilities = ["EC2"]
  execution_role_arn       = aws_iam_role.starting.arn
  task_role_arn            = aws_iam_role.tasks.arn

  container_definitions = jsonencode([
    {
      name      = "grpc-server"
      image     = var.image
      essential = true

      memoryReservation = 8192
      resourceRequirements = [
        {
          type  = "GPU"
          value = tostring(var.gpu_count)
        },
      ]
      linuxParameters = {
        sharedMemorySize = 4096
      }
      portMappings = [
        {
          containerPort = local.port
          protocol      = "tcp"
        },
      ]
      environment = [for name, value in local.devices : { name = name, value = value }]
      logConfiguration = {
        logDriver = "awslogs"
        options = {
          awslogs-group         = aws_cloudwatch_log_group.grpc_server.name
          awslogs-region        = var.region
          awslogs-stream-prefix = "grpc-server"
        }
      }
    },
  ])
}

resource "aws_ecs_service" "grpc_server" {
  name                               = var.name
  cluster                            = aws_ecs_cluster.gpu.id
  task_definition                    = aws_ecs_task_definition.grpc_server.arn
  desired_count                      = var.min_gpu_instances
  deployment_minimum_healthy_percent = 0
  deployment_maximum_percent         = 100
  availability_zone_rebalancing      = "DISABLED"
  health_check_grace_period_seconds  = 900
  depends_on                         = [aws_ecs_cluster_capacity_providers.gpu, aws_iam_role_policy.starting, aws_lb_listener.grpc]

  capacity_provider_strategy {
    capacity_provider = aws_ecs_capacity_provider.gpu_workers.name
    weight            = 1
  }

  network_configuration {
    subnets         = var.subnet_ids
    security_groups = [aws_security_group.tasks.id]
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.grpc.arn
    container_name   = "grpc-server"
    container_port   = local.port
  }

  lifecycle {
    ignore_changes = [desired_count]
  }
}
