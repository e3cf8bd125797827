#!/bin/sh
# How busy the GPUs of a machine were in the last day: gpu-utilization.sh INSTANCE_ID
set -eu
aws cloudwatch get-metric-statistics \
  --namespace RemoteMedia/GPU \
  --metric-name GPUUtilization \
  --dimensions "Name=InstanceId,Value=$1" \
  --start-time "$(date -u -d '1 day ago' +%Y-%m-%dT%H:%M:%SZ)" \
  --end-time "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
  --period 300 \
  --statistics Average Maximum
