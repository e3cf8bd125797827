variable "gpu_instance_type" {
  type        = string
  description = "Machine type: g4dn for T4, g5 for A10G, or another with GPUs of NVIDIA."
  default     = "g4dn.xlarge"

  validation {
    condition     = can(regex("^(g4dn|g5|g6|g6e|g7e|p4d|p4de|p5|p5e|p5en)\\.", var.gpu_instance_type))
    error_message = "A GPU machine that AWS still starts with the driver of its GPU image: p3 is retired."
  }
}

variable "gpu_count" {
  type        = number
  description = "GPUs of one task."
  default     = 1

  validation {
    condition     = contains([1, 2, 4, 8], var.gpu_count)
    error_message = "1, 2, 4 or 8."
  }
}

variable "min_gpu_instances" {
  type        = number
  description = "Machines that are always there."
  default     = 1
}

variable "max_gpu_instances" {
  type        = number
  description = "Machines at most, whatever is asked for."
  default     = 5
}

variable "mixed_fleet" {
  type        = bool
  description = "Both clusters at once: T4 for small models, A10G for large ones."
  default     = false
}

variable "spot_percent" {
  type        = number
  description = "Share of the machines on spot, in percent."
  default     = 0

  validation {
    condition     = var.spot_percent >= 0 && var.spot_percent <= 100
    error_message = "0 to 100."
  }
}

variable "fallback_instance_types" {
  type        = list(string)
  description = "Further types of the same GPU, where the first has no spot capacity."
  default     = []
}

variable "night_off" {
  type        = bool
  description = "No machine from 22:00 to 06:00."
  default     = false
}

variable "time_zone" {
  type        = string
  description = "Whose 22:00, as Europe/Berlin: AWS takes UTC where none is named."
  default     = "Etc/UTC"
}

variable "image" {
  type        = string
  description = "Your image with its version, as 123456789012.dkr.ecr.us-east-1.amazonaws.com/remotemedia-grpc:1.4.2."

  validation {
    condition     = can(regex("(:[^:/]+|@sha256:[0-9a-f]{64})$", var.image)) && !endswith(var.image, ":latest")
    error_message = "An image with a version: what latest is changes while tasks run."
  }
}

variable "cuda_devices" {
  type        = map(string)
  description = "GPU of each model of a task, as WHISPER_CUDA_DEVICE = \"0\"."
  default     = {}
}

variable "region" {
  type        = string
  description = "Where the machines stand."
  default     = "us-east-1"
}

variable "vpc_id" {
  type        = string
  description = "The network that machines stand in."
}

variable "subnet_ids" {
  type        = list(string)
  description = "Private subnets, with a NAT gateway as their way out."
}

variable "allowed_cidrs" {
  type        = list(string)
  description = "Networks that may ask the pipelines: nobody, until you name some."
  default     = []

  validation {
    condition     = alltrue([for cidr in var.allowed_cidrs : can(cidrhost(cidr, 0))])
    error_message = "Each is a network such as 10.0.0.0/16."
  }
}
