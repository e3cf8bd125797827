locals {
  family = split(".", var.gpu_instance_type)[0]

  shared = {
    gpu_count         = var.gpu_count
    min_gpu_instances = var.min_gpu_instances
    max_gpu_instances = var.max_gpu_instances
  }
}

module "gpu_t4_cluster" {
  source = "./modules/gpu_cluster"
  count  = local.family == "g4dn" || var.mixed_fleet ? 1 : 0

  name                    = "remotemedia-cluster-t4"
  gpu_type                = "t4"
  instance_type           = local.family == "g4dn" ? var.gpu_instance_type : "g4dn.xlarge"
  fallback_instance_types = [for type in var.fallback_instance_types : type if startswith(type, "g4dn.")]
  gpu_count               = local.family == "g4dn" ? local.shared.gpu_count : 1
  min_gpu_instances       = local.shared.min_gpu_instances
  max_gpu_instances       = local.shared.max_gpu_instances
  spot_percent            = var.spot_percent
  night_off               = var.night_off
  time_zone               = var.time_zone
  image                   = var.image
  cuda_devices            = var.cuda_devices
  region                  = var.region
  vpc_id                  = var.vpc_id
  subnet_ids              = var.subnet_ids
  allowed_cidrs           = var.allowed_cidrs
}

module "gpu_a10g_cluster" {
  source = "./modules/gpu_cluster"
  count  = local.family == "g5" || var.mixed_fleet ? 1 : 0

  name                    = "remotemedia-cluster-a10g"
  gpu_type                = "a10g"
  instance_type           = local.family == "g5" ? var.gpu_instance_type : "g5.xlarge"
  fallback_instance_types = [for type in var.fallback_instance_types : type if startswith(type, "g5.")]
  gpu_count               = local.family == "g5" ? local.shared.gpu_count : 1
  min_gpu_instances       = local.shared.min_gpu_instances
  max_gpu_instances       = local.shared.max_gpu_instances
  spot_percent            = var.spot_percent
  night_off               = var.night_off
  time_zone               = var.time_zone
  image                   = var.image
  cuda_devices            = var.cuda_devices
  region                  = var.region
  vpc_id                  = var.vpc_id
  subnet_ids              = var.subnet_ids
  allowed_cidrs           = var.allowed_cidrs
}

module "gpu_cluster" {
  source = "./modules/gpu_cluster"
  count  = contains(["g4dn", "g5"], local.family) || var.mixed_fleet ? 0 : 1

  name                    = "remotemedia-cluster"
  gpu_type                = local.family
  instance_type           = var.gpu_instance_type
  fallback_instance_types = [for type in var.fallback_instance_types : type if startswith(type, "${local.family}.")]
  gpu_count               = local.shared.gpu_count
  min_gpu_instances       = local.shared.min_gpu_instances
  max_gpu_instances       = local.shared.max_gpu_instances
  spot_percent            = var.spot_percent
  night_off               = var.night_off
  time_zone               = var.time_zone
  image                   = var.image
  cuda_devices            = var.cuda_devices
  region                  = var.region
  vpc_id                  = var.vpc_id
  subnet_ids              = var.subnet_ids
  allowed_cidrs           = var.allowed_cidrs
}

output "endpoints" {
  value       = concat(module.gpu_t4_cluster[*].endpoint, module.gpu_a10g_cluster[*].endpoint, module.gpu_cluster[*].endpoint)
  description = "What a RemotePipelineNode asks."
}
