"""gpufleet: which GPUs, how many, in what layout, where, at what latency, throughput and cost."""
