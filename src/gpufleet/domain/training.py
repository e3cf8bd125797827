"""How a model is trained: what learns, in which number formats, and how the work is laid out over devices."""

from __future__ import annotations

import math
from dataclasses import field, fields, replace
from enum import Enum, IntEnum

import numpy as np

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.arrays import AnyArray, BoolArray, FloatArray, IntArray
from gpufleet.domain.precision import BF16, FP32, NF4, PRECISIONS, WeightFormat
from gpufleet.records import dataclass


class Method(str, Enum):
    """What learns: every weight, or low-rank adapters beside weights that are frozen (in 4 bits: QLoRA)."""

    FULL = "full"
    LORA = "lora"
    QLORA = "qlora"


class AttentionKernel(str, Enum):
    """Kernels of attention whose scores never lie in memory, by what they were written for.

    `FUSED`: of the GPU's own generation (cuDNN, as Transformer Engine and JAX call it; FlashAttention-3).
    `FLASH_2`: FlashAttention-2, PyTorch's scaled_dot_product_attention and flex attention. `FLASH_1`: the package
    before version 2 (July 2023).
    """

    FUSED = "fused"
    FLASH_2 = "flash_2"
    FLASH_1 = "flash_1"


class Stack(str, Enum):
    """Software that trains: which kernels compute attention, and whether element-wise kernels are fused."""

    TE = "te"
    PYTORCH_SDPA = "pytorch-sdpa"
    EAGER = "eager"
    JAX = "jax"

    @property
    def attention(self) -> AttentionKernel:
        """The kernels that it computes attention with."""
        fuses = self in (Stack.TE, Stack.JAX)
        return AttentionKernel.FUSED if fuses else AttentionKernel.FLASH_2

    @property
    def is_compiled(self) -> bool:
        """Whether element-wise kernels are fused: Megatron's own, torch.compile, XLA."""
        return self is not Stack.EAGER

    @property
    def meaning(self) -> str:
        """What is meant, in the field's words."""
        return {
            Stack.TE: "Transformer Engine: fused kernels, attention of cuDNN",
            Stack.PYTORCH_SDPA: "PyTorch with torch.compile, attention of sdpa (FlashAttention-2)",
            Stack.EAGER: "PyTorch, kernels not fused",
            Stack.JAX: "JAX: kernels fused by XLA, attention of cuDNN",
        }[self]


class Recompute(IntEnum):
    """What the backward pass computes again: nothing, the cheap parts of a layer, or whole layers."""

    NONE = 0
    SELECTIVE = 1
    FULL = 2


class Sharding(IntEnum):
    """What data-parallel ranks keep one share of: nothing (DDP), optimizer states, gradients too, weights too.

    `HYBRID` shards everything over the ranks of one machine and copies it between machines (FSDP's HSDP).
    """

    DDP = 0
    ZERO_1 = 1
    ZERO_2 = 2
    ZERO_3 = 3
    HYBRID = 4

    @property
    def label(self) -> str:
        """What the field calls it."""
        return ("DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "HSDP")[self]


@dataclass(frozen=True)
class NumberFormats:
    """Bytes that training keeps per trained weight, and the arithmetic that multiplies them.

    `weight_bytes` of the copy that is computed with, `gradient_bytes` of what is accumulated, `master_bytes` of a
    second copy that the optimizer steps (0: there is none), `gathered_bytes` of a sharded block while it is in use.
    """

    name: str
    arithmetic: str
    weight_bytes: float
    gradient_bytes: float
    master_bytes: float
    gathered_bytes: float
    activation_bytes: float = 2.0

    @property
    def peak(self) -> str:
        """The peak of an accelerator that multiplies in this arithmetic."""
        return PRECISIONS[self.arithmetic].arithmetic


@dataclass(frozen=True)
class Optimizer:
    """An optimizer: bytes of state per trained weight in fp32; with `follows_weights` at the weight's own width.

    `in_backward`: each gradient is used and freed where it arises; `is_offloaded`: states lie in host memory.
    """

    name: str
    state_bytes: float
    num_states: int = 2
    follows_weights: bool = False
    in_backward: bool = False
    is_offloaded: bool = False
    is_paged: bool = False

    @property
    def is_on_host(self) -> bool:
        """Whether states take no memory of the device, as a rule."""
        return self.is_offloaded or self.is_paged


ATTENTION_MODULES = ("q", "k", "v", "o")
ALL_LINEAR = (*ATTENTION_MODULES, "gate", "up", "down")


@dataclass(frozen=True)
class Adapter:
    """Low-rank adapters: for a weight [n, k] a pair [n, rank] and [rank, k] on each of these modules."""

    rank: int
    modules: tuple[str, ...] = ALL_LINEAR

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"adapter: rank must be at least 1, found {self.rank!r}")
        if not self.modules or set(self.modules) - set(ALL_LINEAR):
            raise ValueError(f"adapter: modules are of {ALL_LINEAR}, found {self.modules!r}")


@dataclass(frozen=True)
class Recipe:
    """What is trained and with what software; all but the layout.

    `formats` of what learns; `adapter` and `base` (format of the frozen weights) where adapters do. `compiled`: fused
    kernels (torch.compile, Transformer Engine); `flash`: attention scores never lie in memory; `chunked_loss`: logits
    neither; `overlapped`: traffic of data parallelism runs beside the backward pass; `stops_early`: recomputing a layer
    ends before its last product, whose result nobody needs (PyTorch since 2.1, not Megatron). `dropout`: masks are kept
    for the backward pass. `flat_blocks`: a sharded block is one flat weight (FSDP of PyTorch before 2.4, as Lightning
    drives it): its frozen weights get gradients too, which stay whole while micro-batches accumulate.
    `offloads_weights`: what is sharded lies in host memory, all but the blocks in use (CPU offload of FSDP and ZeRO-3).
    `fused_loss`: fused kernels compute the loss too, not the layers alone. `attention`: the kernels of `flash`.
    """

    method: Method
    formats: NumberFormats
    optimizer: Optimizer
    sequence_tokens: float
    adapter: Adapter | None = None
    base: WeightFormat = field(default_factory=lambda: WeightFormat.uniform(BF16))
    compiled: bool = True
    flash: bool = True
    chunked_loss: bool = False
    overlapped: bool = True
    offloads_activations: bool = False
    stops_early: bool = True
    dropout: bool = False
    flat_blocks: bool = False
    offloads_weights: bool = False
    fused_loss: bool = True
    attention: AttentionKernel = AttentionKernel.FUSED

    def __post_init__(self) -> None:
        if (self.adapter is None) != (self.method is Method.FULL):
            raise ValueError(f"recipe: adapters go with LoRA and QLoRA, found {self.method} with {self.adapter}")
        if not self.sequence_tokens >= 1:
            raise ValueError(f"recipe: a sequence has at least one token, found {self.sequence_tokens!r}")

    @property
    def is_frozen_base(self) -> bool:
        """Whether the weights of the model stay as they are."""
        return self.adapter is not None

    @property
    def uses_host_memory(self) -> bool:
        """Whether states, activations or weights lie in the memory of the machine."""
        return self.optimizer.is_on_host or self.offloads_activations or self.offloads_weights

    @property
    def keeps_activations(self) -> bool:
        """Whether activations wait for the backward pass in the memory of the device."""
        return not self.offloads_activations


@dataclass(frozen=True, eq=False)
class TrainingLayouts:
    """Many layouts at once: equal-length arrays, one element a layout.

    `device` indexes the devices of a question; a layout uses tp pp cp dp GPUs, `ep` of the tp cp dp ranks of a stage
    share a set of experts. `interleave` chunks of layers a stage; `sharding` and `recompute` are the numbers of
    `Sharding` and `Recompute`; `micro_batch` sequences a rank, `num_micro_batches` of them a step and rank.
    `sequence_parallel`: norms are cut over the TP ranks. `ranks_per_node` GPUs share a machine.
    """

    device: IntArray
    tp: IntArray
    pp: IntArray
    interleave: IntArray
    cp: IntArray
    ep: IntArray
    dp: IntArray
    sharding: IntArray
    micro_batch: IntArray
    num_micro_batches: IntArray
    recompute: IntArray
    sequence_parallel: BoolArray
    ranks_per_node: IntArray

    def __post_init__(self) -> None:
        lengths = {f.name: len(getattr(self, f.name)) for f in fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"layouts: columns differ in length: {lengths}")

    def __len__(self) -> int:
        return len(self.tp)

    def columns(self) -> dict[str, AnyArray]:
        """The arrays by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def take(self, rows: IntArray | BoolArray) -> TrainingLayouts:
        """The layouts of these rows, in their order."""
        return TrainingLayouts(**{name: column[rows] for name, column in self.columns().items()})

    @property
    def num_devices(self) -> IntArray:
        """GPUs that work."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def global_batch(self) -> IntArray:
        """Sequences of a step."""
        return self.micro_batch * self.num_micro_batches * self.dp

    def shard_ranks(self) -> IntArray:
        """Ranks over which what is sharded is spread: those of DP and CP, of one machine where it is hybrid."""
        whole = self.dp * self.cp
        of_node = np.maximum(np.minimum(whole, self.ranks_per_node // np.minimum(self.tp, self.ranks_per_node)), 1)
        return np.where(self.sharding == Sharding.HYBRID, of_node, whole)

    def tokens_per_micro_batch(self, recipe: Recipe) -> FloatArray:
        """Tokens of a micro-batch on one rank."""
        return np.asarray(self.micro_batch * recipe.sequence_tokens / self.cp, dtype=np.float64)


def one_layout(
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    dp: int = 1,
    ep: int = 1,
    *,
    interleave: int = 1,
    sharding: Sharding = Sharding.DDP,
    micro_batch: int = 1,
    num_micro_batches: int = 1,
    recompute: Recompute = Recompute.NONE,
    sequence_parallel: bool = False,
    ranks_per_node: int = 8,
) -> TrainingLayouts:
    """A single layout, in arrays of one element.

    >>> int(one_layout(tp=8, pp=4, dp=2).num_devices[0])
    64
    """
    numbers = {
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "dp": dp,
        "ep": ep,
        "device": 0,
        "interleave": interleave,
        "sharding": int(sharding),
        "recompute": int(recompute),
        "micro_batch": micro_batch,
        "num_micro_batches": num_micro_batches,
        "ranks_per_node": ranks_per_node,
    }
    columns: dict[str, AnyArray] = {name: np.array([number], dtype=np.int64) for name, number in numbers.items()}
    return TrainingLayouts(**columns, sequence_parallel=np.array([sequence_parallel]))


FP32_TRAINING = NumberFormats("fp32", "tf32", 4.0, 4.0, 0.0, 4.0, 4.0)
BF16_MIXED = NumberFormats("bf16-mixed", "bf16", 2.0, 4.0, 4.0, 2.0)
"""Megatron: 16-bit weights and fp32 gradients beside fp32 master weights, 18 bytes with AdamW."""
BF16_AUTOCAST = NumberFormats("bf16-autocast", "bf16", 4.0, 4.0, 0.0, 2.0)
"""PyTorch FSDP: fp32 weights that are cast to 16 bits as they are gathered, 16 bytes with AdamW."""
BF16_PURE = NumberFormats("bf16", "bf16", 2.0, 2.0, 0.0, 2.0)
FP16_MIXED = NumberFormats("fp16-mixed", "fp16", 2.0, 4.0, 4.0, 2.0)
FP8_MIXED = NumberFormats("fp8-mixed", "fp8", 2.0, 4.0, 4.0, 2.0)
NVFP4_MIXED = NumberFormats("nvfp4-mixed", "nvfp4", 2.0, 4.0, 4.0, 2.0)
FP16_PURE = NumberFormats("fp16", "fp16", 2.0, 2.0, 0.0, 2.0)
NUMBER_FORMATS = {
    each.name: each
    for each in (
        *(FP32_TRAINING, BF16_MIXED, BF16_AUTOCAST, BF16_PURE, FP16_PURE),
        *(FP16_MIXED, FP8_MIXED, NVFP4_MIXED),
    )
}

ADAMW = Optimizer("adamw", 8.0)
ADAMW_8BIT = Optimizer("adamw-8bit", 2.0 + 2 * 4 / 256)
"""Block-wise 8-bit states with one fp32 scale per 256 of each (bitsandbytes)."""
ADAMW_IN_BACKWARD = replace(ADAMW, name="adamw-in-backward", in_backward=True)
ADAMW_8BIT_IN_BACKWARD = replace(ADAMW_8BIT, name="adamw-8bit-in-backward", in_backward=True)
PAGED_ADAMW_8BIT = replace(ADAMW_8BIT, name="paged-adamw-8bit", is_paged=True)
PAGED_IN_BACKWARD = replace(PAGED_ADAMW_8BIT, name="paged-adamw-8bit-in-backward", in_backward=True)
OPTIMIZERS = {
    each.name: each
    for each in (ADAMW, ADAMW_8BIT, PAGED_ADAMW_8BIT, ADAMW_IN_BACKWARD, ADAMW_8BIT_IN_BACKWARD, PAGED_IN_BACKWARD)
}
QLORA_BASE = WeightFormat.uniform(NF4)
EAGER_QLORA_BASE = WeightFormat.uniform(NF4, FP32)
"""As PEFT prepares a model: embedding, head and norms, which are not quantised, in fp32."""


@dataclass(frozen=True)
class TrainingMachine:
    """One machine of a cluster: its GPUs, the link between them, and its network to the other machines.

    `link_bytes_per_s` per GPU, `network_bytes_per_s` per machine, in one direction. `host_memory_bytes` of the machine,
    infinite where nobody states it.
    """

    accelerator: Accelerator
    num_gpus: int
    link_is_pcie: bool
    link_bytes_per_s: float
    network_bytes_per_s: float
    network_is_assumed: bool = False
    host_memory_bytes: float = math.inf
