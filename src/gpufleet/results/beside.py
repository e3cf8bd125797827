"""What a copy keeps beside its model, as users get it."""

from __future__ import annotations

from gpufleet.results.base import Figure, Result


class KeptBeside(Result):
    """What one copy keeps beside its model; bytes of its fullest GPU, seconds over the link to host memory.

    `adapter_bytes`: one adapter as it is stored; the slots for `adapters` take `slots_bytes_per_gpu`, and one comes
    from host memory in `adapter_load_s`. In host memory lie `offloaded_bytes_per_gpu` of weights, read in
    `offload_read_s` at most in each step, and `kv_bytes` of KV cache: `kv_contexts` of `context_tokens`, each of which
    comes back in `context_load_s`, where it is computed in `context_prefill_s` (None: nobody timed it). With its
    adapters the copy takes `host_bytes` of it.
    """

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
