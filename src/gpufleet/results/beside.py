"""What a copy keeps beside its model, as users get it."""

from __future__ import annotations

from gpufleet.results.base import Figure, Result


class KeptBeside(Result):
    """As `optimize.beside.BesideCopy`: bytes of a copy's fullest GPU, seconds over the link to host memory."""

    adapters: str | None = None
    adapter_bytes: float = 0.0
    slots_bytes_per_gpu: Figure
    adapter_load_s: Figure
    offloaded_bytes_per_gpu: float = 0.0
    offload_read_s: Figure
    kv_bytes: float = 0.0
    kv_contexts: float = 0.0
    context_tokens: float
    context_load_s: Figure
    context_prefill_s: float | None = None
    host_bytes: float = 0.0
