"""One running copy of a model as an answer assumes it, before any engine's words."""

from __future__ import annotations

from gpufleet.domain.engine import EngineProfile
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import BF16, FP16, Precision, WeightFormat
from gpufleet.domain.precision_labels import kv_precision
from gpufleet.records import dataclass

SIXTEEN_BITS = (BF16.name, FP16.name)
NO_CHECKPOINT = "path/to"


@dataclass(frozen=True)
class Replica:
    """What an answer assumes: formats, layout, limits and memory of one copy.

    `checkpoint`: a hub id or a folder, None where none is known; `stands_for_shape` where the question named a shape
    that several have. `stored` is its own format, `weights` what runs.
    `sequences` decode together at most, over all attention-DP groups; None leaves that to the engine.
    `memory_fraction` is of the device, for TensorRT-LLM of what is free once weights and buffers are taken.
    """

    model: str
    checkpoint: str | None
    engine: EngineProfile
    layout: Layout
    stored: WeightFormat
    weights: WeightFormat
    kv: Precision
    longest_request_tokens: int
    step_tokens: int
    memory_fraction: float
    stands_for_shape: bool = False
    vendor: str = "nvidia"
    host_architecture: str = "x86_64"
    sequences: int | None = None
    replicas_per_machine: int | None = None

    @property
    def sequences_per_group(self) -> int | None:
        """The most that decode together in one attention-DP group."""
        return None if self.sequences is None else max(self.sequences // self.layout.attention_dp, 1)

    @property
    def is_widened_to_fp16(self) -> bool:
        """Whether parts stored in bf16 run in fp16, as on cards without bf16 arithmetic."""
        return self.stored.base.name == BF16.name and self.weights.base.name == FP16.name

    @property
    def named_dtype(self) -> str | None:
        """The 16 or 32 bits that must be said: what the engine takes of itself is not sure, or not what is planned."""
        if self.stored.is_narrowed:
            return {"fp32": "float32", FP16.name: "float16"}.get(self.weights.base.name, "bfloat16")
        return "float16" if self.is_widened_to_fp16 else None

    @property
    def is_requantised(self) -> bool:
        """Whether the weights run in another format than they are stored in, fp16 for bf16 apart."""
        if self.stored.is_narrowed and self.weights.name == "fp32":
            return False
        parts = ("attention", "mlp", "experts", "head")
        stored, runs = (tuple(_folded(getattr(w, part)) for part in parts) for w in (self.stored, self.weights))
        return stored != runs

    @property
    def is_quantised_by_loading(self) -> bool:
        """Whether an engine can make the format from the stored one while it loads: fp8 from 16 bits."""
        return self.is_requantised and self.weights.mlp.name == "fp8" and self.stored.mlp.name in SIXTEEN_BITS

    @property
    def names_cache_format(self) -> bool:
        """Whether the KV format must be said: it is not what the engine takes from the checkpoint, or not 16 bits."""
        usual = kv_precision(self.weights, self.engine)
        return self.kv.name not in SIXTEEN_BITS or usual.name not in SIXTEEN_BITS

    def loaded_from(self, quantises: bool) -> str:
        """The checkpoint; a name to be replaced where none is known, or where the engine needs another than the stored.

        `quantises`: whether the engine makes fp8 weights while it loads.
        """
        if self.is_requantised and not (quantises and self.is_quantised_by_loading):
            return f"{NO_CHECKPOINT}/{self.model}-{self.weights.name.partition(' ')[0]}"
        return self.checkpoint or f"{NO_CHECKPOINT}/{self.model}"


def _folded(precision: Precision) -> str:
    return BF16.name if precision.name == FP16.name else precision.name
