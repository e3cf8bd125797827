"""From words to a recipe and a layout: what is trained, in which formats, with what kept where, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.calibration import load_habits
from gpufleet.catalog.models import is_shipped_encoder, shipped_architecture
from gpufleet.domain.architecture import Architecture
from gpufleet.domain.training import (
    ADAMW,
    ALL_LINEAR,
    ATTENTION_MODULES,
    EAGER_QLORA_BASE,
    FP32_TRAINING,
    NUMBER_FORMATS,
    OPTIMIZERS,
    QLORA_BASE,
    Adapter,
    Method,
    NumberFormats,
    Optimizer,
    Recipe,
    Recompute,
    Sharding,
    Stack,
)
from gpufleet.errors import UnknownName, UsageError
from gpufleet.inputs.model_config import is_encoder, read_model
from gpufleet.layout.training import FINE, Grid
from gpufleet.questions.training import DEFAULT_METHOD, DEFAULT_RANK, DEFAULT_SEQUENCE_TOKENS, METHODS

PRECISION_ALIASES = {"fp8": "fp8-mixed", "tf32": "fp32", "mixed": "bf16-mixed", "amp": "bf16-mixed"}
MODULE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "all-linear": ALL_LINEAR,
    "all": ALL_LINEAR,
    "attention": ATTENTION_MODULES,
    "mlp": ("gate", "up", "down"),
}
STACKS = tuple(each.value for each in Stack)
OFFLOADED = ("optimizer", "activations", "weights")
MOST_SEQUENCES = 10**12
IN_BACKWARD_SEQUENCES = 2
"""A judgement: an optimizer in the backward pass steps after every micro-batch, for which one GPU has little room."""
USUAL_PRETRAINED_PARAMETERS, MOST_TIMES_BATCH = 70e9, 4
"""Up to 70B models take the habitual tokens a step (Llama 2, 4M); Llama 3 405B took four times as many at last."""
GRID_NAMES = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "cp": "context_parallel",
    "ep": "expert_parallel",
    "dp": "data_parallel",
    "interleave": "interleave",
    "micro-batch": "micro_batch",
}


def trained_model(model: object) -> Architecture:
    """A model that training is planned for: a decoder, by name or path, or as it is."""
    if isinstance(model, Architecture):
        return model
    if is_encoder(str(model), is_shipped_encoder):
        hint = "Encoders, T5, Whisper and image models are planned by 'plan serve' and 'plan batch'."
        raise UsageError(f"{model} is not a decoder: its training is not planned", expected="a decoder", hint=hint)
    return read_model(str(model), shipped_architecture)


def model_notes(arch: Architecture) -> list[str]:
    """What of a model is trained otherwise than most, or is known less of."""
    notes = []
    if arch.vision is not None:
        notes.append("The vision tower is counted in memory as part of the first stage; its own passes are not timed")
    if arch.is_moe:
        notes.append("Mixtures of experts: one framework was measured, its releases differ by up to 77%")
    return [*notes, *arch.notes]


def method_named(said: str | None, usual: str = DEFAULT_METHOD) -> Method:
    """What learns, by its name."""
    name = (usual if said is None else said).strip().lower()
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    return Method(name)


def formats_named(said: str | None, method: Method) -> NumberFormats:
    """Number formats by name: mixed precision where all weights learn, else 16 bits alone."""
    usual = "bf16-mixed" if method is Method.FULL else "bf16"
    name = usual if said is None else said.strip().lower()
    name = PRECISION_ALIASES.get(name, name)
    if name not in NUMBER_FORMATS:
        raise UnknownName("precision of training", name, NUMBER_FORMATS)
    return NUMBER_FORMATS[name]


def stack_named(said: str | None, *, eager: bool, is_from_nothing: bool) -> Stack:
    """The software that trains, by name: Transformer Engine where nobody says and nothing was learnt, else PyTorch."""
    if said is None:
        return Stack.EAGER if eager else Stack.TE if is_from_nothing else Stack.PYTORCH_SDPA
    name = said.strip().lower()
    if name not in STACKS:
        raise UnknownName("stack", name, STACKS)
    if eager and name != Stack.EAGER.value:
        raise UsageError("two stacks", found=f"--eager and --stack {name}", expected="one of them")
    return Stack(name)


def optimizer_named(said: str | None, offloaded: Iterable[str]) -> Optimizer:
    """An optimizer by name; its states lie in host memory where that is asked."""
    name = "adamw" if said is None else said.strip().lower()
    if name not in OPTIMIZERS:
        raise UnknownName("optimizer", name, OPTIMIZERS)
    return replace(OPTIMIZERS[name], is_offloaded="optimizer" in offloaded)


def adapter_of(method: Method, rank: int | None, modules: Sequence[str] | None, most: int) -> Adapter | None:
    """Adapters of LoRA and QLoRA, of no higher rank than the model is wide; without such a method they are refused."""
    if method is Method.FULL:
        said = [name for name, value in (("--rank", rank), ("--modules", modules)) if value is not None]
        if said:
            raise UsageError(
                f"{' and '.join(said)}: all weights learn, there are no adapters",
                found="--method full",
                expected="--method lora or qlora",
            )
        return None
    if rank is not None and not 1 <= rank <= most:
        raise UsageError("the rank is out of range", found=rank, expected=f"from 1 to {most:,}, the model's width")
    return Adapter(DEFAULT_RANK if rank is None else rank, modules_named(modules or ("all-linear",)))


def modules_named(names: Sequence[str]) -> tuple[str, ...]:
    """Matrices by name; 'attention', 'mlp' and 'all-linear' stand for several."""
    found: list[str] = []
    for name in (each.strip().lower().removesuffix("_proj") for each in names):
        if name not in (*ALL_LINEAR, *MODULE_GROUPS):
            raise UnknownName("matrix with adapters", name, [*ALL_LINEAR, *MODULE_GROUPS])
        found += MODULE_GROUPS.get(name, (name,))
    return tuple(name for name in ALL_LINEAR if name in found)


def offloads_named(names: Sequence[str] | None) -> tuple[str, ...]:
    """What lies in host memory, by name."""
    said = tuple(name.strip().lower() for name in names or ())
    for name in said:
        if name not in OFFLOADED:
            raise UnknownName("thing to offload", name, OFFLOADED)
    return said


def sequence_of(said: float | None, arch: Architecture) -> float:
    """Tokens of a sequence, no more than the model's positions."""
    if said is None:
        return float(min(DEFAULT_SEQUENCE_TOKENS, arch.max_context_tokens))
    if not (said >= 1 and float(said).is_integer()):
        raise UsageError("the sequence is out of range", found=f"{said:g}", expected="whole tokens, from 1")
    if said > arch.max_context_tokens:
        hint = "A config.json with larger max_position_embeddings stands for a model whose context is extended."
        expected = f"at most {arch.max_context_tokens:,} tokens"
        raise UsageError(
            f"the sequence is longer than {arch.name} reads", found=f"{said:g}", expected=expected, hint=hint
        )
    return float(said)


def recipe_of_words(
    arch: Architecture,
    method: Method,
    *,
    sequence_tokens: float | None,
    rank: int | None,
    modules: Sequence[str] | None,
    precision: str | None,
    optimizer: str | None,
    offload: Sequence[str] | None,
    eager: bool,
    is_from_nothing: bool,
    stack: str | None = None,
) -> Recipe:
    """The recipe that words mean; pre-training runs on Megatron's rules, fine-tuning on PyTorch's."""
    kept, formats = offloads_named(offload), formats_named(precision, method)
    software = stack_named(stack, eager=eager, is_from_nothing=is_from_nothing)
    stepped = optimizer_named(optimizer, kept)
    is_narrow = formats.master_bytes == 0 and formats.weight_bytes < FP32_TRAINING.weight_bytes
    recipe = Recipe(
        method,
        formats,
        replace(stepped, follows_weights=is_narrow and stepped.state_bytes == ADAMW.state_bytes),
        sequence_of(sequence_tokens, arch),
        adapter=adapter_of(method, rank, modules, arch.hidden_size),
        compiled=software.is_compiled,
        chunked_loss=not is_from_nothing and software.is_compiled,
        offloads_activations="activations" in kept,
        stops_early=not is_from_nothing,
        offloads_weights="weights" in kept,
        attention=software.attention,
    )
    if method is not Method.QLORA:
        return recipe
    return replace(recipe, base=QLORA_BASE if software.is_compiled else EAGER_QLORA_BASE)


def usual_step_tokens(arch: Architecture, *, is_from_nothing: bool) -> float:
    """Tokens of a step: pre-training takes more for models of more than 70B, up to four times as many."""
    habits = load_habits()
    if not is_from_nothing:
        return habits.fine_tuning_batch_tokens.value
    larger = num_parameters(arch) / USUAL_PRETRAINED_PARAMETERS
    return habits.pretraining_batch_tokens.value * min(max(larger, 1.0), MOST_TIMES_BATCH)


def usual_batch(recipe: Recipe, tokens: float, most: int = MOST_SEQUENCES, odd: int = 1) -> int:
    """Sequences of a step where nobody says: so many tokens, doubled shares of an odd number of GPUs, at most all.

    Few where every micro-batch is a step of its own.
    """
    wanted = IN_BACKWARD_SEQUENCES if recipe.optimizer.in_backward else tokens / recipe.sequence_tokens
    share = odd if odd <= most else 1
    doublings = min(round(math.log2(max(wanted / share, 1.0))), math.floor(math.log2(most / share)))
    return int(share * 2**doublings)


def grid_of(layout: Mapping[str, int], batch: int, *, tunes: bool = False) -> Grid:
    """The layouts that are searched: those with the parts that were said; who fine-tunes builds no pipeline unasked."""
    micro = layout.get("micro-batch")
    if micro is not None and micro > batch:
        raise UsageError("the micro-batch is larger than the global batch", found=micro, expected=f"at most {batch:,}")
    fixed: dict[str, tuple[int, ...]] = {GRID_NAMES[n]: (v,) for n, v in layout.items() if n in GRID_NAMES}
    if tunes and "pp" not in layout:
        fixed["pipeline_parallel"] = (1,)
    if "sharding" in layout:
        fixed["sharding"] = (Sharding(layout["sharding"]),)
    if "recompute" in layout:
        fixed["recompute"] = (Recompute(layout["recompute"]),)
    return replace(FINE, **fixed)  # type: ignore[arg-type]
