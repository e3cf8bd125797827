"""Bytes per device: weights, KV cache, activations, overhead, and whether the sum fits."""
