"""gpufleet: which GPUs, how many, in what layout, where, at what latency, throughput and cost.

>>> import gpufleet
>>> gpufleet.fit("llama-3.3-70b", "L40S:4", "8k").verdict
'fits'
"""

from __future__ import annotations


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted({*globals(), *__getattr__("__all__")})


def __getattr__(name: str) -> object:
    """Public names, `__all__` too, found when they are first used: `import gpufleet` alone loads nothing."""
    from gpufleet.table import HOMES

    if name == "__all__":
        return sorted(HOMES)
    if name not in HOMES:
        raise AttributeError(f"module 'gpufleet' has no attribute {name!r}")
    from gpufleet import api

    return getattr(api, name)
