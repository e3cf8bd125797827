"""What is judged or fitted in the memory of training; everything else of it is counted."""

from __future__ import annotations

from gpufleet.provenance import Sourced
from gpufleet.records import dataclass


@dataclass(frozen=True)
class TrainingMemoryConstants:
    """Bytes that depend on software more than on the model.

    Per token: `eager_norm_bytes` that an RMSNorm keeps in fp32 and `eager_other_bytes` of further copies, both times
    the hidden size; `gated_trained_bytes`, `gated_frozen_bytes` (fused kernels) and `gated_frozen_eager_bytes` of a
    gated MLP, times its width; `adapter_input_bytes` (dropout of an adapter, eager), times its inputs; a logit
    `logit_eager_bytes`, fused `logit_fused_bytes`, computed in chunks `logit_chunked_eager_bytes` and
    `logit_chunked_bytes`. `widened_state_bytes` per weight of a matrix whose states of 8 bits are stepped in fp32.
    Selective recompute keeps `selective_kept_share` of what matrices put out under flash attention.
    `gathered_blocks` are whole at a time where weights are sharded; `expert_imbalance` is the fullest rank's share of
    routed tokens over the mean. The peak that an allocator reports is `allocator_ratio` times what is counted and
    `workspace_bytes`, within `peak_ratio`; beside it lie `context_bytes` and, with other GPUs, `communication_bytes`;
    `fragmentation_ratio` of the peak is held in pieces that nobody can use.
    A machine needs `host_system_bytes` of its memory for itself, `host_process_bytes` for the process of each GPU, and
    `host_pinned_ratio` times what lies there for the GPU.
    """

    eager_norm_bytes: Sourced
    eager_other_bytes: Sourced
    gated_trained_bytes: Sourced
    gated_frozen_bytes: Sourced
    gated_frozen_eager_bytes: Sourced
    adapter_input_bytes: Sourced
    logit_eager_bytes: Sourced
    logit_fused_bytes: Sourced
    logit_chunked_bytes: Sourced
    logit_chunked_eager_bytes: Sourced
    widened_state_bytes: Sourced
    selective_kept_share: Sourced
    gathered_blocks: Sourced
    expert_imbalance: Sourced
    allocator_ratio: Sourced
    workspace_bytes: Sourced
    peak_ratio: Sourced
    context_bytes: Sourced
    communication_bytes: Sourced
    fragmentation_ratio: Sourced
    host_system_bytes: Sourced
    host_process_bytes: Sourced
    host_pinned_ratio: Sourced
