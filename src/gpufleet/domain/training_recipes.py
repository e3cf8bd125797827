"""From words to a recipe: what is trained, in which formats, with what kept where, checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpufleet.domain.architecture import Architecture
from gpufleet.domain.habits import DEFAULT_METHOD, DEFAULT_RANK, DEFAULT_SEQUENCE_TOKENS
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

PRECISION_ALIASES = {"fp8": "fp8-mixed", "tf32": "fp32", "mixed": "bf16-mixed", "amp": "bf16-mixed"}
MODULE_GROUPS: Mapping[str, tuple[str, ...]] = {
    "all-linear": ALL_LINEAR,
    "all": ALL_LINEAR,
    "attention": ATTENTION_MODULES,
    "mlp": ("gate", "up", "down"),
}
METHODS, STACKS = (tuple(each.value for each in kind) for kind in (Method, Stack))
OFFLOADED = ("optimizer", "activations", "weights")
MOST_SEQUENCES = 10**12
IN_BACKWARD_SEQUENCES = 2
"""A judgement: an optimizer in the backward pass steps after every micro-batch, for which one GPU has little room."""
SHARDINGS: Mapping[str, Sharding] = {
    "none": Sharding.DDP,
    "ddp": Sharding.DDP,
    "zero-1": Sharding.ZERO_1,
    "zero-2": Sharding.ZERO_2,
    "zero-3": Sharding.ZERO_3,
    "fsdp": Sharding.ZERO_3,
    "hybrid": Sharding.HYBRID,
    "hsdp": Sharding.HYBRID,
}
RECOMPUTES: Mapping[str, Recompute] = {each.name.lower(): each for each in Recompute}


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


def usual_batch(recipe: Recipe, tokens: float, most: int = MOST_SEQUENCES, odd: int = 1) -> int:
    """Sequences of a step where nobody says: so many tokens, doubled shares of an odd number of GPUs, at most all.

    Few where every micro-batch is a step of its own.
    """
    wanted = IN_BACKWARD_SEQUENCES if recipe.optimizer.in_backward else tokens / recipe.sequence_tokens
    share = odd if odd <= most else 1
    doublings = min(round(math.log2(max(wanted / share, 1.0))), math.floor(math.log2(most / share)))
    return int(share * 2**doublings)
