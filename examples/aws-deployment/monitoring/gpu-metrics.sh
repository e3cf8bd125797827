#!/bin/sh
# Tells CloudWatch once a minute what the GPUs of this machine do. Runs on the machine: nvidia-smi is there.
set -eu
metadata=http://169.254.169.254/latest
token=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$metadata/api/token")
instance=$(curl -sf -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/instance-id")
AWS_DEFAULT_REGION=$(curl -sf -H "X-aws-ec2-metadata-token: $token" "$metadata/meta-data/placement/region")
export AWS_DEFAULT_REGION
whose="\"Dimensions\": [{\"Name\": \"InstanceId\", \"Value\": \"$instance\"}]"
nvidia-smi --query-gpu=utilization.gpu,utilization.memory,temperature.gpu --format=csv,noheader,nounits -l 60 |
  while IFS=', ' read -r gpu memory celsius; do
    aws cloudwatch put-metric-data --namespace RemoteMedia/GPU --metric-data "[
      {\"MetricName\": \"GPUUtilization\", $whose, \"Unit\": \"Percent\", \"Value\": $gpu},
      {\"MetricName\": \"GPUMemoryUtilization\", $whose, \"Unit\": \"Percent\", \"Value\": $memory},
      {\"MetricName\": \"GPUTemperature\", $whose, \"Unit\": \"None\", \"Value\": $celsius}
    ]" </dev/null
  done
