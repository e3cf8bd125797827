"""A `FitResult` from the report of the core."""

from __future__ import annotations

from gpufleet.answers.figures import explained, spread_figure
from gpufleet.domain.offer import Offer
from gpufleet.domain.verdict import DOES_NOT_FIT
from gpufleet.memory.band import Band
from gpufleet.memory.fit import MemoryBudget, memory_terms
from gpufleet.optimize.fit import (
    DEFAULT_FRACTION,
    NATIVE_SAMPLER,
    PREFIX_STATES,
    Change,
    FitQuestion,
    FitReport,
    OtherSetting,
    Placement,
    PrecisionOption,
)
from gpufleet.report.words import sentence
from gpufleet.results import fit as results
from gpufleet.results.base import Figure, Input
from gpufleet.results.fit import FitResult, FittingChange, MemoryPart, RejectedLayout, UsersByPrecision

SETTINGS = {
    DEFAULT_FRACTION: ("a raised memory fraction, as it is stated", "the engine's default fraction"),
    NATIVE_SAMPLER: ("FlashInfer's sampler, as the official image has it", "PyTorch's sampler, as wheels have it"),
    PREFIX_STATES: ("no prefix caching of states", "prefix caching"),
}
"""What is assumed of an engine that nobody said, and what it is otherwise."""


def fit_result(report: FitReport, inputs: list[Input], notes: list[str]) -> FitResult:
    """The report of the core as the result that users get."""
    q, chosen = report.question, report.chosen
    common = FitResult(
        model=q.arch.name,
        gpus=f"{q.num_gpus}x {q.accelerator.name}",
        engine=q.engine.title,
        weight_format=q.weights.name,
        kv_precision=q.kv.name,
        context_tokens=q.context_tokens,
        batch=q.batch,
        verdict=report.verdict,
        binding_limit=report.binding_limit,
        refusal=None if report.refusal is None else sentence(report.refusal),
        device_bytes=float(q.accelerator.memory_bytes),
        by_precision=[_users_by_precision(option, report) for option in report.options],
        rejected=[RejectedLayout(layout=x.label, reason=sentence(why), code=why.code, short_by_bytes_per_gpu=short)
                  for x, why, short in report.rejected],
        changes=[_fitting_change(change, q) for change in report.changes],
        otherwise=[_other_setting(other, report) for other in report.otherwise],
        inputs=inputs,
        notes=notes,
    )  # fmt: skip
    return common if chosen is None else common.model_copy(update=_of_placement(report, chosen))


def _of_placement(report: FitReport, chosen: Placement) -> dict[str, object]:
    q, budget, floor = report.question, chosen.budget, report.tpot_floor_s
    parts = {
        "weights": budget.loaded_bytes,
        **({"adapters": budget.adapter_bytes} if q.engine.beside.adapters else {}),
        _kv_part(q, budget): Band.exact(budget.needed_kv_bytes),
        "activations": budget.activation_bytes,
        "graphs": budget.graph_bytes,
        "context, libraries, buffers": budget.overhead_bytes,
    }
    terms = memory_terms(q.arch, q.weights, q.kv, q.engine, chosen.layout, budget)
    grade = q.engine.grade
    return {
        "layout": chosen.layout.label,
        "memory_fraction": float(budget.memory_fraction),
        "driver_bytes": float(q.accelerator.memory_bytes) - float(budget.device_bytes),
        "checkpoint_bytes_per_gpu": float(budget.weights_bytes),
        "usable_bytes": float(budget.memory_fraction) * float(budget.device_bytes),
        "parts": [MemoryPart(name=name, size=spread_figure(band, "bytes", grade)) for name, band in parts.items()],
        "total_bytes": spread_figure(budget.total_bytes, "bytes", grade),
        "kv_pool_bytes": spread_figure(budget.kv_pool_bytes, "bytes", grade),
        "kv_bytes_per_user": float(budget.kv_bytes_per_sequence),
        "startup_kv_bytes": float(budget.startup_kv_bytes),
        "max_model_len": report.question.arch.max_model_len,
        "users": spread_figure(budget.max_sequences, "users", grade) if chosen.fits else None,
        "short_by_bytes_per_gpu": chosen.short_by_bytes,
        "tpot_floor_s": None if floor is None else Figure(value=floor, unit="s", grade="roofline"),
        "terms": [explained(term) for term in terms],
    }


def _kv_part(q: FitQuestion, budget: MemoryBudget) -> str:
    """Whose KV cache counts: of the users, or of the one sequence that the engine asks room for before it starts."""
    if budget.start_decides:
        return "KV cache to start with"
    return "KV cache of the users asked for" if q.batch else "KV cache of one user"


def _other_setting(other: OtherSetting, report: FitReport) -> results.OtherSetting:
    assumed, otherwise = SETTINGS[other.code]
    return results.OtherSetting(
        assumed=assumed,
        otherwise=otherwise,
        code=other.code,
        verdict=DOES_NOT_FIT,
        short_by_bytes_per_gpu=float(other.budget.short_by_bytes),
    )


def _users_by_precision(option: PrecisionOption, report: FitReport) -> UsersByPrecision:
    q = report.question
    is_asked = (option.weights.name, option.kv.name) == (q.weights.name, q.kv.name)
    weights, kv, placement = option.weights.name, option.kv.name, option.placement
    if placement is None:
        reason = "no layout is possible" if option.reason is None else sentence(option.reason)
        return UsersByPrecision(weights=weights, kv=kv, verdict=DOES_NOT_FIT, reason=reason)
    return UsersByPrecision(
        weights=weights,
        kv=kv,
        verdict=report.verdict if is_asked else str(placement.budget.verdict),
        layout=placement.layout.label,
        weights_bytes_per_gpu=float(placement.budget.weights_bytes),
        users=spread_figure(placement.budget.max_sequences, "users", q.engine.grade) if placement.fits else None,
    )


def _fitting_change(change: Change, q: FitQuestion) -> FittingChange:
    bare = FittingChange.made_of(
        change,
        change.placement,
        gpus=f"{change.num_gpus}x {q.accelerator.name}",
        layout=change.placement.layout.label,
        verdict=str(change.placement.budget.verdict),
    )
    return bare if change.offer is None else bare.model_copy(update=_price(change.offer))


def _price(offer: Offer) -> dict[str, object]:
    return {
        "price_usd_per_hour": offer.price_per_instance_usd_per_hour,
        "instance": f"{offer.cloud} {offer.instance}",
        "region": offer.region,
        "price_source": offer.source,
        "price_as_of": offer.day,
    }
