"""Which engine runs which number format on which accelerator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpufleet.domain.accelerator import Accelerator
from gpufleet.domain.architecture import Architecture, Attention, LatentAttention
from gpufleet.domain.engine import EngineProfile, FormatSupport
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import Precision, WeightFormat
from gpufleet.domain.reason import Reason
from gpufleet.domain.speculation import DRAFT_MODEL, N_GRAM
from gpufleet.memory.overhead import slots_of

if TYPE_CHECKING:
    from gpufleet.domain.runtime import Runtime

HALF_TWIN = {"bf16": "fp16"}


def precisions_of(weights: WeightFormat) -> list[Precision]:
    """The formats of a checkpoint's matrices, each once."""
    parts = (weights.base, weights.attention, weights.mlp, weights.experts, weights.head, *weights.besides)
    return list({precision.name: precision for precision in parts}.values())


def supported(rows: Iterable[FormatSupport], name: str, accelerator: Accelerator) -> FormatSupport | None:
    """The row that lets an accelerator run a format."""
    return next((row for row in rows if row.name == name and accelerator.generation in row.generations), None)


def runs_as_half_twin(engine: EngineProfile, accelerator: Accelerator, precision: Precision) -> bool:
    """Whether bf16 is run as fp16, which takes the same bytes: cards before Ampere have no bf16 arithmetic.

    An engine that is told bfloat16 does not.
    """
    twin = None if engine.told.dtype == "bfloat16" else HALF_TWIN.get(precision.name)
    native = supported(engine.formats, precision.name, accelerator)
    return native is None and twin is not None and supported(engine.formats, twin, accelerator) is not None


def arithmetic_of(engine: EngineProfile, accelerator: Accelerator, precision: Precision) -> str | None:
    """The arithmetic that multiplies weights of this format here; None where it does not run.

    fp8 weights on Ampere are widened to bf16 before each product (vLLM, SGLang).
    """
    name = HALF_TWIN[precision.name] if runs_as_half_twin(engine, accelerator, precision) else precision.name
    row = supported(engine.formats, name, accelerator)
    return None if row is None else row.arithmetic


def architecture_refusal(engine: EngineProfile, arch: Architecture) -> Reason | None:
    """Why an engine does not run a model on any device; None where it does, or where nobody could know.

    A family that is only read by its usual fields is in no engine's list: it passes.
    """
    known, family = engine.architectures, arch.family
    if arch.is_assumed:
        return None
    if not known.includes(family):
        return Reason.of("unsupported_architecture", engine=engine.title, family=family)
    if family not in known.later or (known.falls_back and arch.is_usual):
        return None
    first = known.later[family]
    return Reason.of(
        "architecture_of_newer_versions", engine=engine.title, version=engine.version, family=family, first=first
    )


def drafts_refusal(engine: EngineProfile, layout: Layout) -> Reason | None:
    """Why an engine does not draft in a layout; None where it does, or drafts nothing.

    Pipeline stages: SGLang asserts against it, vLLM's documentation calls both not composable (read 2026-11-29).
    Attention-DP in SGLang: n-gram and other models as drafts are refused. vLLM's first engine of its second generation
    knows no other model as a draft (issues/26547, 31883; pull/24322).
    """
    how = engine.drafts
    if how is None:
        return None
    if layout.pp > 1:
        return Reason.of("drafts_with_stages", engine=engine.title)
    apart = how.method in (N_GRAM, DRAFT_MODEL)
    if engine.name == "sglang" and layout.attention_dp > 1 and apart:
        return Reason.of("drafts_with_groups", engine=engine.title, method=how.method)
    if how.method == DRAFT_MODEL and engine.figure("lacks_draft_models", 0.0) > 0:
        return Reason.of("drafts_by_model", engine=engine.title)
    return None


def beside_refusal(engine: EngineProfile, arch: Architecture, layout: Layout | None = None) -> Reason | None:
    """Why an engine does not keep beside a model what it was told to, in any layout or in this one; None where it does.

    An engine that adapts routed experts may do so only where each is cut over all GPUs.
    """
    asked, rules, host, title = engine.beside, engine.adapters, engine.host_memory, engine.title
    if asked.adapters is not None:
        if rules is None:
            return Reason.of("no_adapters", engine=title)
        if arch.family in rules.lacks:
            return Reason.of("no_adapters_of_family", engine=title, family=arch.family)
        if rules.slot_rank(asked.adapters.rank) is None:
            return Reason.of("adapter_rank_too_large", engine=title, most=rules.ranks[-1])
        has_experts = arch.is_moe and slots_of(engine)["adapts_experts"] and not rules.experts_with_ep
        if layout is not None and layout.ep > 1 and has_experts:
            return Reason.of("adapters_with_ep", engine=title, layout=layout.label)
    if asked.offloaded_bytes and (host is None or host.weights_since is None):
        return Reason.of("no_weights_in_host_memory", engine=title)
    if asked.kv_bytes and (host is None or host.kv_since is None):
        return Reason.of("no_kv_in_host_memory", engine=title)
    return None


def engine_refusal(engine: EngineProfile, accelerator: Accelerator) -> Reason | None:
    """Why an engine does not run on an accelerator at all; None where it does."""
    if accelerator.vendor not in engine.vendors:
        return Reason.of("unsupported_device", engine=engine.title, device=accelerator.name)
    if not any(accelerator.generation in row.generations for row in engine.formats):
        dropped = next((d for d in engine.dropped if d.generation == accelerator.generation), None)
        if dropped is not None:
            return Reason.of("unmaintained_device", engine=engine.title, until=dropped.until, why=dropped.why)
        return Reason.of("unsupported_device", engine=engine.title, device=_of_generation(accelerator))
    return None


def runtime_refusal(runtime: Runtime, accelerator: Accelerator) -> Reason | None:
    """Why a runtime of encoders does not run on an accelerator, the same for its generation; None where it does."""
    if runtime.runs_on(accelerator):
        return None
    is_host = accelerator.vendor in runtime.vendors and not runtime.runs_beside(accelerator.host_architecture)
    device = f"machines with {accelerator.host_architecture} CPUs" if is_host else accelerator.generation
    return Reason.of("unsupported_device", engine=runtime.title, device=device)


def weight_refusal(
    engine: EngineProfile, accelerator: Accelerator, weights: WeightFormat, *, allow_fp16_twin: bool = True
) -> Reason | None:
    """Why a checkpoint format does not run here; None where it does.

    With `allow_fp16_twin`, a bf16 checkpoint passes where the card can run it as fp16.
    """
    whole = engine_refusal(engine, accelerator)
    if whole:
        return whole
    for precision in precisions_of(weights):
        twin = allow_fp16_twin and runs_as_half_twin(engine, accelerator, precision)
        if not twin and supported(engine.formats, precision.name, accelerator) is None:
            return _format_refusal(engine, accelerator, precision.name)
    return None


def weights_that_run(engine: EngineProfile, accelerator: Accelerator) -> tuple[str, ...]:
    """Names of the weight formats that an engine runs on an accelerator."""
    return tuple(row.name for row in engine.formats if accelerator.generation in row.generations)


def _format_refusal(engine: EngineProfile, accelerator: Accelerator, name: str) -> Reason:
    device = _of_generation(accelerator)
    others = _versions(engine.of_other_versions, name, accelerator)
    if others:
        return Reason.of("weights_of_other_versions", engine=engine.title, device=device, weights=name, others=others)
    if name not in engine.weight_formats:
        return Reason.of("unsupported_weights", engine=engine.title, weights=name)
    if name in engine.refusals:
        return Reason.of("device_refuses_weights", device=device, why=engine.refusals[name])
    wide = _wider_that_runs(engine, accelerator, name)
    if wide is not None:
        return Reason.of("device_runs_wider", device=device, weights=name, wide=wide)
    return Reason.of("device_lacks_weights", device=device, weights=name)


def _wider_that_runs(engine: EngineProfile, accelerator: Accelerator, name: str) -> str | None:
    """The other 16-bit format, where that one runs: engines convert to it at start."""
    wider = (wide for wide, half in HALF_TWIN.items() if half == name)
    return next((wide for wide in wider if supported(engine.formats, wide, accelerator)), None)


def _of_generation(accelerator: Accelerator) -> str:
    return f"{accelerator.name} ({accelerator.generation})"


def _versions(rows: Iterable[FormatSupport], name: str, accelerator: Accelerator) -> str:
    """Versions that run a format on this device where the profile's own does not; empty where none does."""
    return " and ".join(r.versions for r in rows if r.name == name and accelerator.generation in r.generations)


def kv_refusal(
    engine: EngineProfile, accelerator: Accelerator, precision: Precision, arch: Architecture
) -> Reason | None:
    """Why a model's KV cache does not run here in a format; None where it does. bf16 passes where fp16 does."""
    names = {precision.name, HALF_TWIN.get(precision.name, precision.name)}
    rows = [row for name in sorted(names) if (row := supported(engine.kv_formats, name, accelerator))]
    device, kv = _of_generation(accelerator), precision.name
    if any(_caches(row, arch) for row in rows):
        return None
    if rows:
        heads = ", ".join(map(str, rows[0].head_dims))
        return Reason.of("kv_cache_of_other_heads", engine=engine.title, device=device, kv=kv, heads=heads)
    others = _versions(engine.kv_of_other_versions, kv, accelerator)
    if others:
        return Reason.of("kv_cache_of_other_versions", engine=engine.title, device=device, kv=kv, others=others)
    return Reason.of("unsupported_kv_cache", engine=engine.title, device=device, kv=kv)


def _caches(row: FormatSupport, arch: Architecture) -> bool:
    """Whether a format is kept for the attention of this model."""
    if not row.head_dims:
        return True
    mixers = [block.mixer for block in arch.blocks]
    heads = {head for m in mixers if isinstance(m, Attention) for head in (m.head_dim, m.value_dim)}
    is_latent = any(isinstance(mixer, LatentAttention) for mixer in mixers)
    return not is_latent and heads <= set(row.head_dims) and arch.family not in row.lacks
