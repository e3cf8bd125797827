"""Weights of no meaning that a vLLM worker can be timed with: values of real size, so that activations stay finite.

vLLM's own dummy weights fill all layers alike, leave packed formats as memory was, and draw norms, scales and router
biases around zero: tokens then choose the same experts. Here norms are 1, biases 0, scales what keeps products near 1.
Name `tools.dummy_weights.LaysWeights` as `worker_extension_cls`: a worker imports this before it loads.
"""

from __future__ import annotations

import torch
from vllm.model_executor.model_loader import dummy_loader

LARGEST_WEIGHT = 0.035
SCALE = 0.02
SCALE_EXPONENT = 118
BYTE_VALUES = 256
SCALES_OF_THE_CACHE = ("q_scale", "k_scale", "v_scale", "prob_scale")


class LaysWeights:
    """Adds nothing to a worker."""


@torch.no_grad()
def lay(layer: torch.nn.Module, _: object) -> None:
    """Fills a layer's own parameters."""
    for name, weights in layer.named_parameters(recurse=False):
        if weights.device.type != "meta" and name not in SCALES_OF_THE_CACHE:
            fill(weights.data, name, is_norm="norm" in type(layer).__name__.lower())


def fill(weights: torch.Tensor, name: str, *, is_norm: bool) -> None:
    """Fills one tensor by its type and its part; integers other than bytes stay."""
    if weights.dtype == torch.uint8 and "scale" in name:
        weights.fill_(SCALE_EXPONENT)
    elif weights.dtype == torch.uint8:
        weights.random_(0, BYTE_VALUES)
    elif weights.dtype == torch.float8_e4m3fn:
        weights.copy_(torch.randn(weights.shape, device=weights.device, dtype=torch.bfloat16).to(weights.dtype))
    elif weights.is_floating_point():
        fill_floats(weights, name, is_norm=is_norm)


def fill_floats(weights: torch.Tensor, name: str, *, is_norm: bool) -> None:
    """Norms of 1, no biases, equal scales, evenly drawn weights."""
    if is_norm:
        weights.fill_(1.0)
    elif name.endswith("scale"):
        weights.fill_(SCALE)
    elif name.endswith("bias"):
        weights.zero_()
    else:
        weights.uniform_(-LARGEST_WEIGHT, LARGEST_WEIGHT)


dummy_loader.initialize_dummy_weights = lay
