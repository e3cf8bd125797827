"""Number formats of weights, KV cache and arithmetic."""

from __future__ import annotations

from gpufleet.records import dataclass


@dataclass(frozen=True)
class Precision:
    """A number format; `bytes_per_element` includes the scales that travel with the elements.

    `arithmetic` names the accelerator peak that multiplies it: weights-only formats compute in bf16.
    """

    name: str
    bytes_per_element: float
    arithmetic: str

    def __post_init__(self) -> None:
        if not 0 < self.bytes_per_element <= 8:
            raise ValueError(f"{self.name}: {self.bytes_per_element} bytes per element is not a number format")


FP32 = Precision("fp32", 4.0, "fp32")
TF32 = Precision("tf32", 4.0, "tf32")
BF16 = Precision("bf16", 2.0, "bf16")
FP16 = Precision("fp16", 2.0, "fp16")
FP8 = Precision("fp8", 1.0, "fp8")
FP8_BLOCK = Precision("fp8_block", 1.0 + 4 / (128 * 128), "fp8")  # one fp32 scale per 128 x 128 block
INT8 = Precision("int8", 1.0, "int8")
INT8_WEIGHT_ONLY = Precision("int8_wo", 1.0, "bf16")  # one scale per output channel: below 0.1 %
INT4 = Precision("int4", 0.5 + (2 + 0.5) / 128, "bf16")  # AWQ/GPTQ, groups of 128: fp16 scale and 4-bit zero
NF4 = Precision("nf4", 0.5 + 1 / 64 + 4 / (64 * 256), "bf16")  # bitsandbytes, double quantisation
MXFP4 = Precision("mxfp4", 0.5 + 1 / 32, "bf16")  # one 8-bit exponent per 32
NVFP4 = Precision("nvfp4", 0.5 + 1 / 16, "fp4")  # one fp8 scale per 16

# Files of llama.cpp, all tensors together: bits of Llama 3.1 8B in its table (tools/quantize/README.md@311c2c9f0e)
Q2_K = Precision("q2_k", 3.1593 / 8, "bf16")
Q4_K_M = Precision("q4_k_m", 4.8944 / 8, "bf16")
Q5_K_M = Precision("q5_k_m", 5.7036 / 8, "bf16")
Q6_K = Precision("q6_k", 6.5633 / 8, "bf16")
Q8_0 = Precision("q8_0", 8.5008 / 8, "bf16")
GGUF_MIXES = (Q2_K, Q4_K_M, Q5_K_M, Q6_K, Q8_0)

STATIC, PER_TENSOR, PER_TOKEN = "static", "tensor", "token"
"""Where the scales of quantised activations come from: the checkpoint, or the activations as they are met."""

PRECISIONS: dict[str, Precision] = {
    p.name: p
    for p in (
        *(FP32, TF32, BF16, FP16, FP8, FP8_BLOCK, INT8, INT8_WEIGHT_ONLY, INT4, NF4, MXFP4, NVFP4),
        *GGUF_MIXES,
    )
}


@dataclass(frozen=True)
class WeightFormat:
    """Which precision each part of a checkpoint is stored in.

    Vectors (norms, biases, router) and the token embedding stay in `base`; quantisers leave them alone. `attention` is
    the format of every token mixer. `kv` is the cache format that the checkpoint brings scales for, where it says so.
    `is_narrowed`: the checkpoint holds 32 bits, of which engines load 16; `is_gguf`: it is a file of llama.cpp;
    `is_awq`: its int4 is laid out for AWQ's kernels, not GPTQ's. `activation_scales`: STATIC where the checkpoint
    brings them, PER_TENSOR or PER_TOKEN where engines find them as they run, None where it does not say. `besides` are
    formats of a few matrices: a part has the name of most, and the mean bytes of all.
    """

    name: str
    base: Precision
    attention: Precision
    mlp: Precision
    experts: Precision
    head: Precision
    kv: Precision | None = None
    is_narrowed: bool = False
    is_gguf: bool = False
    is_awq: bool = False
    activation_scales: str | None = None
    besides: tuple[Precision, ...] = ()

    @classmethod
    def uniform(cls, precision: Precision, base: Precision = BF16) -> WeightFormat:
        """Every linear layer in one precision, embedding and output head in `base` (what quantisers do)."""
        kept = precision if precision.name in ("fp32", "tf32", "bf16", "fp16") else base
        return cls(precision.name, kept, precision, precision, precision, kept)

    @classmethod
    def experts_only(cls, precision: Precision, base: Precision = BF16) -> WeightFormat:
        """Only routed experts quantised (gpt-oss: MXFP4 experts, bf16 attention)."""
        return cls(precision.name, base, base, base, precision, base)
