variable "name" {
  type        = string
  description = "What the cluster is called."
}

variable "gpu_type" {
  type        = string
  description = "What machines are labelled with: t4, a10g."
}

variable "instance_type" {
  type        = string
  description = "Machine type."
}

variable "fallback_instance_types" {
  type        = list(string)
  description = "Further types of the same GPU."
}

variable "gpu_count" {
  type        = number
  description = "GPUs of one task."
}

variable "min_gpu_instances" {
  type        = number
  description = "Machines that are always there."
}

variable "max_gpu_instances" {
  type        = number
  description = "Machines at most."
}

variable "spot_percent" {
  type        = number
  description = "Share of the machines on spot, in percent."
}

variable "night_off" {
  type        = bool
  description = "No machine from 22:00 to 06:00."
}

variable "time_zone" {
  type        = string
  description = "Whose 22:00."
}

variable "image" {
  type        = string
  description = "Image with its version."
}

variable "cuda_devices" {
  type        = map(string)
  description = "GPU of each model of a task."
}

variable "region" {
  type        = string
  description = "Where the machines stand."
}

variable "vpc_id" {
  type        = string
  description = "The network."
}

variable "subnet_ids" {
  type        = list(string)
  description = "Private subnets."
}

variable "allowed_cidrs" {
  type        = list(string)
  description = "Networks that may ask."
}
