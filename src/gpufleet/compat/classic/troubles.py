"""The seeds' troubleshooting sections as answers: a symptom, its cause, what helps."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpufleet.errors import UnknownName


class Trouble(NamedTuple):
    """One symptom; `signs` are words by which it is recognised."""

    key: str
    title: str
    cause: str
    solutions: tuple[str, ...]
    signs: tuple[str, ...]


TROUBLES = (
    Trouble(
        "cannot_fit",
        '"CANNOT FIT MODEL" Error',
        "Model too large for GPU memory",
        (
            "Use INT8/FP8 precision to reduce memory usage",
            "Increase GPU count",
            "Choose instance with more memory per GPU (P5e, P6)",
        ),
        ("cannot fit", "does not fit", "too large", "too big"),
    ),
    Trouble(
        "high_cost",
        "High Monthly Costs",
        "Using on-demand pricing or over-provisioned instances",
        (
            "Enable spot pricing (use_spot=True), not for production inference",
            "Right-size instance for workload",
            "Consider G-series for inference workloads",
        ),
        ("cost", "expensive", "price", "bill", "budget"),
    ),
    Trouble(
        "low_performance",
        "Low Performance Recommendations",
        "Current setup already well-optimized",
        (
            "Consider newer GPU generations (P6 vs P5)",
            "Evaluate multi-GPU configurations",
            "Check if workload type matches instance strengths",
        ),
        ("low performance", "slow", "performance", "speed"),
    ),
    Trouble(
        "no_gpu",
        '"nvidia-smi not found", "No GPU devices found"',
        "The image lacks the NVIDIA driver, or the task was not given a GPU",
        (
            "Use a GPU-optimized AMI; its name should contain 'gpu' or 'nvidia'",
            "Check that the task definition has GPU resource requirements: "
            '"resourceRequirements": [{"type": "GPU", "value": "1"}]',
            "In Kubernetes, request nvidia.com/gpu: 1 and install the NVIDIA device plugin",
        ),
        ("nvidia smi", "nvidia", "no gpu", "not found", "devices", "driver", "ami"),
    ),
    Trouble(
        "out_of_memory",
        '"CUDA out of memory"',
        "Weights, KV cache and activations together exceed the memory of a GPU",
        (
            "Reduce batch size",
            "Use smaller model",
            "Upgrade to larger GPU (more VRAM)",
            "Enable model quantization (INT8 is 4x less VRAM than FP32, 2x less than FP16)",
        ),
        ("out of memory", "oom", "cuda", "memory"),
    ),
)
BY_KEY = {trouble.key: trouble for trouble in TROUBLES}


def trouble_of(symptom: str) -> Trouble:
    """The trouble that a symptom, an error message or a key describes.

    >>> trouble_of("RuntimeError: CUDA out of memory").key
    'out_of_memory'
    """
    words = " ".join(re.findall(r"[a-z0-9]+", str(symptom).casefold()))
    scores = {t: sum(len(sign) for sign in (*t.signs, t.key.replace("_", " ")) if sign in words) for t in TROUBLES}
    best = max(TROUBLES, key=lambda t: scores[t])
    if not scores[best]:
        raise UnknownName("symptom", symptom, BY_KEY, hint=f"Known: {', '.join(BY_KEY)}.")
    return best
