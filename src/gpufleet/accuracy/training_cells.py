"""What the cells of a row of training say: method, number formats, optimizer, adapters, sharding, recompute, dates.

Read by columns alone; rows of throughput and rows of memory name the same things in different columns, which are read
in turn (`method` or `task`, `sharding` or `zero_or_fsdp`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpufleet.domain.precision import BF16, FP32, NF4, Precision, WeightFormat
from gpufleet.domain.training import (
    ADAMW,
    ADAMW_8BIT,
    ALL_LINEAR,
    BF16_AUTOCAST,
    BF16_MIXED,
    BF16_PURE,
    FP16_MIXED,
    FP32_TRAINING,
    Adapter,
    AttentionKernel,
    Method,
    NumberFormats,
    Optimizer,
    Recompute,
    Sharding,
    Stack,
)
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.records import dataclass
from gpufleet.units import GBIT, TBIT

NO = frozenset(("no", "none", "false", "0", "n", "off"))
YES = frozenset(("yes", "true", "1", "y", "on"))
ARXIV = re.compile(r"arXiv[: ](\d{2})(\d{2})\.\d{4,5}", re.IGNORECASE)
RELEASE = re.compile(r"^(\d{2})\.(\d{2})")
YEAR = re.compile(r"\b(20[12]\d)\b")
NETWORK = re.compile(r"(?:(\d+) ?x ?)?(\d+(?:\.\d+)?) ?([GT])(?:bps|b/s|bit/s)(?P<each> per GPU)?")
CHUNKS_OF = re.compile(r"interleave (\d+)")
SAYS_INTERLEAVED = re.compile(r"\binterleaved\b")
LEAST_CHUNKS = 2
"""Chunks of a stage whose schedule is interleaved, where nobody says of how many."""
PRETRAINING = re.compile(r"pre-? ?train")
NOT_COMPILED = re.compile(r"\b(?:eager|no compil\w*|not compiled|without (?:torch\.)?compil\w*)\b")
NO_OFFLOAD = re.compile(r"no cpu offload|cpu offload(?:ing)?:? (?:false|off|no)\b")
WORDS_OF_FULL = ("full", "pretrain", "pre-train", "sft", "finetun", "fine-tun", "continued")
WORDS_OF_RECOMPUTE = ("full", "checkpoint", "layer", "block")
FLASH_YEAR, FLASH_2_YEAR = 2022.6, 2023.6
FUSED_KERNELS = ("te", "cudnn", "transformer")
MONTHS = 12
PEFT_RANK = 8
NF4_SINGLE = Precision("nf4", 0.5 + 4 / 64, "bf16")
"""One fp32 scale per 64 weights, not quantised again."""
STAGES = {
    "nofsdp": Sharding.ZERO_1,
    "hsdp": Sharding.HYBRID,
    "hybrid": Sharding.HYBRID,
    "shardgradop": Sharding.ZERO_2,
    "fsdp": Sharding.ZERO_3,
    "zero3": Sharding.ZERO_3,
    "stage3": Sharding.ZERO_3,
    "zero2": Sharding.ZERO_2,
    "stage2": Sharding.ZERO_2,
    "zero1": Sharding.ZERO_1,
    "stage1": Sharding.ZERO_1,
    "distributedoptimizer": Sharding.ZERO_1,
}
"""Words for what ranks share, the first that is found counts."""
ZERO_STAGES = range(4)
NARROW = {"fp4": "nvfp4", "float4": "nvfp4", "fp8": "fp8", "float8": "fp8"}
"""Words for arithmetic of fewer than 16 bits."""


def is_on(row: MeasurementRow, column: str) -> bool:
    """Whether a column says yes."""
    return row.text(column).casefold() in YES


def notes_of(row: MeasurementRow) -> str:
    """The notes in small letters."""
    return row.text("notes").casefold()


def software_year(row: MeasurementRow) -> float | None:
    """When the software of a row was current: its release (26.04), the paper's number (2205.05198), a year in words."""
    if release := RELEASE.match(row.text("release")):
        return 2000 + int(release[1]) + int(release[2]) / MONTHS
    source = row.text("source")
    if papers := ARXIV.findall(source):
        return min(2000 + int(year) + int(month) / MONTHS for year, month in papers)
    years = [int(year) for year in YEAR.findall(source)]
    return min(years) + 0.5 if years else None


def is_early(row: MeasurementRow) -> bool:
    """Whether a row is dated before flash attention; undated software is today's."""
    year = software_year(row)
    return year is not None and year < FLASH_YEAR


def task_of(row: MeasurementRow) -> str:
    """What a row says that it trains."""
    return row.text("method", "task").casefold()


def method_of(row: MeasurementRow) -> Method:
    """Full training, LoRA or QLoRA; a row that names nothing trains every weight; other methods are not modelled.

    >>> method_of(MeasurementRow(1, {"method": "lora", "precision": "bf16-true+bnb.nf4"})).value
    'qlora'
    """
    said = task_of(row)
    if not said or said.startswith(WORDS_OF_FULL):
        return Method.FULL
    if said.startswith("qlora") or (said.startswith("lora") and "nf4" in row.text("precision").casefold()):
        return Method.QLORA
    if said.startswith("lora"):
        return Method.LORA
    raise UsageError(f"training method {row.text('method', 'task')!r} is not modelled")


def is_fine_tuning(row: MeasurementRow) -> bool:
    """Whether a row continues from trained weights: it says what it trains, and that is no pre-training."""
    said = task_of(row)
    return bool(said) and PRETRAINING.search(said) is None


def is_lightning(row: MeasurementRow) -> bool:
    """Whether the precision is in the words of Lightning Fabric ('bf16-true', '16-mixed'), which splits no tensors.

    >>> is_lightning(MeasurementRow(1, {"precision": "bf16-true+bnb.nf4"}))
    True
    """
    is_split = any(row.text(name) not in ("", "1") for name in ("tp", "pp"))
    return not is_split and re.search(r"\b(bf)?(16|32)-(true|mixed)\b", row.text("precision")) is not None


def is_megatron(row: MeasurementRow) -> bool:
    """Whether a row pre-trains as Megatron-LM does: 16-bit weights beside fp32 master weights, fused kernels."""
    return not (is_fine_tuning(row) or is_lightning(row) or is_fsdp(row))


def formats_of(row: MeasurementRow, method: Method) -> NumberFormats:
    """Bytes per trained weight by what trains it, arithmetic by the name of the precision."""
    label = row.text("precision").casefold()
    formats = held_formats(row, method, label)
    narrow = next((arithmetic for word, arithmetic in NARROW.items() if word in label), None)
    return formats if narrow is None else replace(formats, name=f"{narrow}-{formats.name}", arithmetic=narrow)


def held_formats(row: MeasurementRow, method: Method, label: str) -> NumberFormats:
    """Bytes per trained weight: fine-tuning keeps 16 bits alone, FSDP casts from fp32, Megatron keeps both."""
    if "32" in label and "16" not in label:
        return FP32_TRAINING
    if is_lightning(row):
        return BF16_AUTOCAST if "mixed" in label else BF16_PURE
    if is_fine_tuning(row) or method is not Method.FULL:
        if "mixed" in label:
            return BF16_AUTOCAST
        return FP16_MIXED if "fp16" in label else BF16_MIXED if any(word in label for word in NARROW) else BF16_PURE
    if "fp16" in label:
        return FP16_MIXED
    return BF16_AUTOCAST if is_fsdp(row) else BF16_MIXED


def optimizer_of(row: MeasurementRow, formats: NumberFormats) -> Optimizer:
    """AdamW unless the row says 8 bits; its states are as wide as the weights where it steps them directly."""
    said = row.text("optimizer").casefold()
    in_backward = is_on(row, "optimizer_in_backward") or "in backward" in said
    if "8bit" in said or "8-bit" in said:
        return replace(ADAMW_8BIT, in_backward=in_backward, is_paged="paged" in said)
    directly = formats.master_bytes == 0
    return replace(ADAMW, follows_weights=directly, in_backward=in_backward, is_paged="paged" in said)


def adapter_of(row: MeasurementRow) -> Adapter:
    """Rank and modules as stated; blank: rank 8, on q and v with Lightning, on every matrix else."""
    stated = row.text("lora_modules").replace(" ", "")
    default = ("q", "v") if is_lightning(row) else ALL_LINEAR
    modules = tuple(name for name in ALL_LINEAR if name in stated.split(",")) or default
    return Adapter(row.whole("lora_rank") or PEFT_RANK, ALL_LINEAR if stated == "all_linear" else modules)


def base_of(row: MeasurementRow, method: Method) -> WeightFormat:
    """Format of frozen weights: nf4 with its scales quantised again, unless the row names plain nf4.

    Beside PyTorch's plain modules PEFT keeps what is not quantised in fp32.
    """
    if method is not Method.QLORA:
        return WeightFormat.uniform(FP32 if "32" in row.text("precision") else BF16)
    is_plain = row.text("precision").casefold().endswith("nf4")
    kept = FP32 if stack_of(row) is Stack.EAGER and not is_lightning(row) else BF16
    return WeightFormat.uniform(NF4_SINGLE if is_plain else NF4, kept)


def said_sharding(row: MeasurementRow) -> str:
    """What a row says of sharding, without separators."""
    return re.sub(r"[-_ ]", "", row.text("zero_or_fsdp", "sharding").casefold())


def sharding_of(row: MeasurementRow) -> Sharding:
    """What data-parallel ranks share, in the words of a row; dated releases shard their optimizer.

    >>> sharding_of(MeasurementRow(1, {"sharding": "fsdp + cpu offload"})).label
    'ZeRO-3'
    """
    said = said_sharding(row)
    if said.isdigit() and int(said) in ZERO_STAGES:
        return Sharding(int(said))
    if not said and row.text("release"):
        return Sharding.ZERO_1
    return next((stage for word, stage in STAGES.items() if word in said), Sharding.DDP)


def is_fsdp(row: MeasurementRow) -> bool:
    """Whether PyTorch shards, in its own words."""
    said = said_sharding(row)
    return "fsdp" in said.replace("nofsdp", "") or "hsdp" in said


def offloads_weights(row: MeasurementRow) -> bool:
    """Whether sharded weights lie in host memory ('no CPU offload' does not count)."""
    said = f"{row.text('sharding', 'zero_or_fsdp')} {row.text('notes')}".casefold()
    return "cpu offload" in said and NO_OFFLOAD.search(said) is None


def stated_recompute(row: MeasurementRow) -> Recompute | None:
    """What is computed again in the words of a row; None where it says nothing."""
    said = row.text("recompute").casefold()
    if not said:
        return None
    if "selective" in said:
        return Recompute.SELECTIVE
    is_full = said in YES or any(word in said for word in WORDS_OF_RECOMPUTE)
    return Recompute.FULL if is_full and not said.startswith("no ") else Recompute.NONE


def stack_of(row: MeasurementRow) -> Stack | None:
    """The software that a row names; releases of NVIDIA's framework run Transformer Engine."""
    said = row.text("stack").casefold()
    if said in {each.value for each in Stack}:
        return Stack(said)
    return Stack.TE if row.text("release") else None


def attention_of(row: MeasurementRow) -> AttentionKernel:
    """The kernels of attention of a row: as stated, else those of its software, else FlashAttention-2.

    The flash-attn package without a number is its first version, but where the row is dated after that (July 2023).

    >>> attention_of(MeasurementRow(1, {"attention_kernel": "flash-attn 3"})).value
    'fused'
    """
    said, year = row.text("attention_kernel").casefold(), software_year(row)
    if said.startswith("flash-attn"):
        number = said.removeprefix("flash-attn").strip()
        is_first = number == "1" or (not number and (year is None or year < FLASH_2_YEAR))
        return (
            AttentionKernel.FUSED
            if number == "3"
            else (AttentionKernel.FLASH_1 if is_first else AttentionKernel.FLASH_2)
        )
    if said:
        return AttentionKernel.FUSED if said.startswith(FUSED_KERNELS) else AttentionKernel.FLASH_2
    stack = stack_of(row)
    return AttentionKernel.FLASH_2 if stack is None else stack.attention


def says_compiled(row: MeasurementRow) -> bool | None:
    """Whether kernels are fused, where a row says so: in its column or notes, or as a release of a framework."""
    if said := row.text("compile").casefold():
        return said in YES
    if NOT_COMPILED.search(notes_of(row)):
        return False
    return True if "compile" in notes_of(row) or row.text("release") else None


def is_sequence_parallel(row: MeasurementRow) -> bool:
    """Whether norms are cut over the ranks of TP: as a row says, else as software does since it can."""
    said = f"{row.text('sharding')} {row.text('recompute')} {row.text('notes')}".casefold()
    if "without sequence parallel" in said or "no seq-par" in said:
        return False
    return "sequence parallel" in said or "seq-par +" in said or not is_early(row)


def network_of(row: MeasurementRow, gpus_of_machine: int) -> float | None:
    """Bytes per second of a machine's network in one direction, where `interconnect` states it.

    >>> network_of(MeasurementRow(1, {"interconnect": "8x400 Gbps InfiniBand"}), 8) / 1e9
    400.0
    """
    found = NETWORK.search(row.text("interconnect"))
    if found is None:
        return None
    rate = float(found[2]) * (TBIT if found[3] == "T" else GBIT) * int(found[1] or 1)
    return rate * (gpus_of_machine if found["each"] else 1)


@dataclass(frozen=True)
class Ranks:
    """Over how many ranks a row spreads its work."""

    tp: int
    pp: int
    cp: int
    ep: int
    dp: int
    interleave: int


def ranks_of(row: MeasurementRow) -> Ranks:
    """Ranks as stated; silent ones are 1, and DP is what remains of the GPUs; a stated DP may count those of CP."""
    tp, pp, cp, ep = (row.whole(name) or 1 for name in ("tp", "pp", "cp", "ep"))
    dp, num_gpus = row.whole("dp"), row.whole("num_gpus")
    dp = dp or max((num_gpus or 0) // (tp * pp * cp), 1)
    if tp * pp * dp == num_gpus and dp % cp == 0:
        dp //= cp
    if num_gpus is not None and tp * pp * cp * dp != num_gpus:
        raise UsageError("the layout does not use the GPUs", found=f"{tp * pp * cp * dp} of {num_gpus}")
    return Ranks(tp, pp, cp, ep, dp, chunks_of(row, pp))


def chunks_of(row: MeasurementRow, pp: int) -> int:
    """Chunks of layers on a stage: as stated; two of an interleaved schedule that names no number; else one."""
    stated = CHUNKS_OF.search(row.text("sharding"))
    usual = LEAST_CHUNKS if pp > 1 and SAYS_INTERLEAVED.search(notes_of(row)) else 1
    return row.whole("vp") or (int(stated[1]) if stated else usual)


FORMULAS, SHARES = ("estimate", "estimated", "formula", "simulated"), ("relative",)
KINDS_OF_VALUE = ("status", "value_kind", "measured_or_formula")


def why_not_measured(row: MeasurementRow) -> str | None:
    """Why the value of a row is none of a run: not usable, a formula of others, or a share of another row."""
    if "usable" in row.cells and row.text("usable").casefold() != "yes":
        return f"not usable: {row.text('why_not') or 'no reason given'}"
    said = {row.text(column).casefold() for column in KINDS_OF_VALUE}
    if said & set(SHARES):
        return "states a share, not an amount"
    return "states what a formula gives, not a run" if said & set(FORMULAS) else None


def group_of(row: MeasurementRow) -> str:
    """What a row is grouped by: what learns, and in which precision.

    >>> group_of(MeasurementRow(1, {"task": "pretrain", "precision": "BF16"}))
    'pretrain, bf16'
    """
    return f"{task_of(row) or 'training'}, {row.text('precision').casefold() or 'precision not stated'}"
