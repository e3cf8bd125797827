"""What a row of training says: its model, its recipe, its layout and its machines; what it leaves open is assumed.

The assumptions are those of the time: before flash attention (mid 2022) training recomputed all activations and
overlapped little; software is dated by its release, or by what its source was published as.
"""

from __future__ import annotations

import re

import numpy as np

from gpufleet.accuracy.models import SHAPE_FIELDS, ModelFinder
from gpufleet.architecture.parameters import num_parameters
from gpufleet.architecture.parse import parse_architecture
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.query import resolve_gpu
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.precision import BF16, WeightFormat
from gpufleet.domain.training import (
    ADAMW,
    ALL_LINEAR,
    BF16_AUTOCAST,
    BF16_MIXED,
    BF16_PURE,
    FP8_MIXED,
    FP16_MIXED,
    FP32_TRAINING,
    QLORA_BASE,
    Adapter,
    Method,
    NumberFormats,
    Recipe,
    Recompute,
    Sharding,
    TrainingLayouts,
    TrainingMachine,
)
from gpufleet.errors import UsageError
from gpufleet.inputs.measurements import MeasurementRow
from gpufleet.optimize.training_machines import usual_training_machine
from gpufleet.records import dataclass
from gpufleet.units import GBIT, GIGA

ARXIV = re.compile(r"arXiv[: ](\d{2})(\d{2})\.\d{4,5}")
RELEASE = re.compile(r"^(\d{2})\.(\d{2})")
YEAR = re.compile(r"\b(20[12]\d)\b")
NETWORK = re.compile(r"(\d+) ?Gbps")
FLASH_YEAR, EARLY_STOP_YEAR = 2022.6, 2023.3
MONTHS = 12
LARGEST_MICRO_BATCH = 16
SHARDINGS = {
    "none": Sharding.DDP,
    "no_fsdp": Sharding.ZERO_1,
    "zero1": Sharding.ZERO_1,
    "zero2": Sharding.ZERO_2,
    "zero3": Sharding.ZERO_3,
    "fsdp_shard_grad_op": Sharding.ZERO_2,
    "fsdp_hybrid": Sharding.HYBRID,
}
RECOMPUTES = {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL}
DEFAULT_RANK = 8


@dataclass(frozen=True)
class StatedRun:
    """A run as a row states it, with what is assumed where it is silent."""

    arch: Architecture
    recipe: Recipe
    layouts: TrainingLayouts
    machine: TrainingMachine
    software_year: float | None


def run_of(row: MeasurementRow, models: ModelFinder) -> StatedRun:
    """The run of a throughput row; raises what it does not say and nothing stands in for."""
    arch = model_of(row, models)
    year = software_year(row)
    recipe = recipe_of(row, year)
    machine = machine_of(row)
    return StatedRun(arch, recipe, layout_of(row, recipe, machine, year), machine, year)


def software_year(row: MeasurementRow) -> float | None:
    """When the software of a row was current: its release (26.04), the paper's number (2205.05198), a year in words."""
    if release := RELEASE.match(row.text("release")):
        return 2000 + int(release[1]) + int(release[2]) / MONTHS
    source = row.text("source")
    if papers := ARXIV.findall(source):
        return min(2000 + int(year) + int(month) / MONTHS for year, month in papers)
    years = [int(year) for year in YEAR.findall(source)]
    return min(years) + 0.5 if years else None


def model_of(row: MeasurementRow, models: ModelFinder) -> Architecture:
    """The model by its shape and number of parameters where they are stated, else by its name."""
    wanted = row.positive("params_b")
    if row.text("model_id") and not row.text("params_b"):
        return models.of(row)
    shapes = shapes_of(row)
    if not shapes or wanted is None:
        return models.of(row)
    return min(shapes, key=lambda arch: abs(num_parameters(arch) / GIGA - wanted))


def shapes_of(row: MeasurementRow) -> list[Architecture]:
    """Decoders of the row's shape: with a gated MLP and an untied head, or as GPT-2 is."""
    needed = [column for column in SHAPE_FIELDS if column not in ("heads", "ffn")]
    if not all(row.text(column) for column in needed) or row.text("num_experts") or row.text("model_id"):
        return []
    hidden, layers, vocab = row.whole("hidden") or 0, row.whole("layers"), row.whole("vocab")
    heads = row.whole("heads") or max(hidden // 128, 1)
    width, positions = row.whole("ffn") or 4 * hidden, row.whole("seq_len") or 2048
    name = row.text("model") or "decoder"
    llama = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "intermediate_size": width,
        "vocab_size": vocab,
        "num_key_value_heads": row.whole("kv_heads") or heads,
        "max_position_embeddings": positions,
    }
    gpt = {
        "model_type": "gpt2",
        "n_layer": layers,
        "n_embd": hidden,
        "n_head": heads,
        "n_inner": width,
        "vocab_size": vocab,
        "n_positions": positions,
    }
    return [parse_architecture(llama, name), parse_architecture(gpt, name)]


def method_of(row: MeasurementRow) -> Method:
    """What learns; a row that names no adapters trains every weight."""
    said = (row.text("method") or row.text("task")).casefold()
    return Method.QLORA if said.startswith("qlora") else Method.LORA if said.startswith("lora") else Method.FULL


def recipe_of(row: MeasurementRow, year: float | None) -> Recipe:
    """How a row trains."""
    method = method_of(row)
    adapter = None if method is Method.FULL else Adapter(row.whole("lora_rank") or DEFAULT_RANK, ALL_LINEAR)
    base = QLORA_BASE if method is Method.QLORA else WeightFormat.uniform(BF16)
    early = year is not None and year < FLASH_YEAR
    sequence = row.positive("seq_len")
    if sequence is None:
        raise UsageError("seq_len is not stated")
    return Recipe(
        method,
        formats_of(row, method),
        ADAMW,
        sequence,
        adapter=adapter,
        compiled=is_compiled(row, year),
        flash=not early,
        overlapped=not early,
        stops_early=not row.text("release") and (year is None or year >= EARLY_STOP_YEAR),
        base=base,
    )


def formats_of(row: MeasurementRow, method: Method) -> NumberFormats:
    """Number formats by the name of the precision: fine-tuning keeps 16 bits alone, FSDP casts from fp32."""
    label = row.text("precision").casefold()
    if label.startswith("fp8"):
        return FP8_MIXED
    if label.startswith("fp16"):
        return FP16_MIXED
    if label.startswith(("fp32", "tf32")):
        return FP32_TRAINING
    if is_fine_tuning(row) or method is not Method.FULL:
        return BF16_PURE
    return BF16_AUTOCAST if row.text("zero_or_fsdp").startswith("fsdp") else BF16_MIXED


def is_fine_tuning(row: MeasurementRow) -> bool:
    """Whether a row continues from trained weights."""
    return row.text("task").casefold() in ("full", "lora", "qlora", "sft")


def is_compiled(row: MeasurementRow, year: float | None) -> bool:
    """Whether kernels are fused: as the row says, in dated releases of a training framework, in fine-tuning today."""
    if said := row.text("compile"):
        return said.casefold() in ("yes", "true", "1")
    if "eager" in row.text("notes").casefold():
        return False
    if "compile" in row.text("notes").casefold() or row.text("release"):
        return True
    return is_fine_tuning(row) and not (year is not None and year < FLASH_YEAR)


def machine_of(row: MeasurementRow) -> TrainingMachine:
    """Machines as clouds usually offer this GPU, on the network that the row states."""
    gpu = row.text("gpu_id") if "gpu_id" in row.cells else row.text("gpu")
    if not gpu:
        raise UsageError("GPU not stated for certain" if row.text("gpu") else "GPU not stated")
    tables = load_catalog()
    found = NETWORK.search(row.text("interconnect"))
    network = None if found is None else float(found[1]) * GBIT
    return usual_training_machine(resolve_gpu(tables, gpu).accelerator, tables.instances.values(), network)


def layout_of(row: MeasurementRow, recipe: Recipe, machine: TrainingMachine, year: float | None) -> TrainingLayouts:
    """The layout of a row; silent parts are 1, its micro-batch what the time used."""
    tp, pp, cp = (row.whole(name) or 1 for name in ("tp", "pp", "cp"))
    num_gpus = row.whole("num_gpus") or 1
    dp = row.whole("dp") or max(num_gpus // (tp * pp * cp), 1)
    if tp * pp * cp * dp != num_gpus:
        raise UsageError("the layout does not use the GPUs", found=f"{tp * pp * cp * dp} of {num_gpus}")
    batch = row.positive("global_batch")
    per_rank = 1.0 if batch is None else max(batch / dp, 1.0)
    usual = min(per_rank, LARGEST_MICRO_BATCH) if pp == 1 else 1.0
    micro = row.positive("micro_batch") or usual
    columns = {
        "device": 0,
        "tp": tp,
        "pp": pp,
        "interleave": row.whole("vp") or 1,
        "cp": cp,
        "ep": row.whole("ep") or 1,
        "dp": dp,
        "sharding": sharding_of(row),
        "micro_batch": micro,
        "num_micro_batches": max(per_rank / micro, 1.0) if batch is not None else 1.0,
        "recompute": recompute_of(row, year),
        "sequence_parallel": not (year is not None and year < FLASH_YEAR) or row.text("recompute") == "selective",
        "ranks_per_node": machine.num_gpus,
    }
    return TrainingLayouts(**{name: np.array([value]) for name, value in columns.items()})


def sharding_of(row: MeasurementRow) -> Sharding:
    """What data-parallel ranks share, by the name that a row gives it."""
    said = (row.text("zero_or_fsdp") or row.text("sharding")).casefold()
    if not said and row.text("release"):
        return Sharding.ZERO_1
    return Sharding.ZERO_3 if said.startswith("fsdp") and said not in SHARDINGS else SHARDINGS.get(said, Sharding.DDP)


def recompute_of(row: MeasurementRow, year: float | None) -> Recompute:
    """What is computed again: as stated; else all before flash attention and in fine-tuning, nothing since."""
    said = RECOMPUTES.get(row.text("recompute").casefold())
    if said is not None:
        return said
    early = year is not None and year < FLASH_YEAR
    return Recompute.FULL if early or (is_fine_tuning(row) and not row.text("release")) else Recompute.NONE
