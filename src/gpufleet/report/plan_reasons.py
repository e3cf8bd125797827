"""Why these machines for a model that writes, a line each."""

from __future__ import annotations

from gpufleet.report.levers import is_told
from gpufleet.report.mixed import mixed_price
from gpufleet.report.numbers import count, percent, plural, significant, usd, usd_per_hour
from gpufleet.report.plan_further import machines_of
from gpufleet.report.rented import about, machines
from gpufleet.report.service_page import LOAD, OwnReasons
from gpufleet.results.plan import Deployment, ServePlan
from gpufleet.units import PERCENT

EIGHT_BIT_CACHES, SAID = ("fp8", "int8"), ("given", "file", "config")
ROOM, USD_PER_HOUR, PRECISION = "KV room", "USD/h", "precision"


def own_reasons(plan: ServePlan, *, is_alone: bool = True) -> OwnReasons:
    """The lines of a model that writes; a plan among others is not asked further."""
    d = plan.answer
    return OwnReasons(
        layout_line(d),
        load_line(d),
        f"{usd(d.usd_per_request)} per request, ",
        quality=[*quality_line(plan), *cache_line(plan)],
        is_limit_told=bool(plan.looser_limits),
        cheaper=lower_precision_line(plan),
        further=mix_line(plan, is_alone),
        flips=flip_line(plan, " More: --flips." if is_alone else ""),
    )


def layout_line(d: Deployment) -> str:
    """Replicas, layout, formats, engine and GPUs without work."""
    size = plural(d.gpus_per_replica, "GPU") + (" each" if d.replicas > 1 else "")
    idle = f"; {plural(d.idle_gpus, 'GPU')} idle but paid for" if d.idle_gpus else ""
    return (
        f"{plural(d.replicas, 'replica')} of {d.layout} ({size}) in {d.weight_format} with {d.engine}, "
        f"KV cache {d.kv_precision}{idle}."
    )


def load_line(d: Deployment) -> str:
    """How full a replica is, in time and in memory, with the slack of both limits."""
    load, room = (f" ({percent(d.slack_ratio[name])} slack)" if name in d.slack_ratio else "" for name in (LOAD, ROOM))
    return (
        f"Load factor {significant(d.load_ratio, 2)} of what a replica sustains{load}; {significant(d.batch, 2)} "
        f"sequences decode at a time, {count(d.largest_batch)} fit{room}."
    )


def flip_line(plan: ServePlan, more: str) -> list[str]:
    """The price at which another row wins: the nearest of the answer's own."""
    flip = next((f for f in plan.flips or [] if f.is_rise and f.unit == USD_PER_HOUR and f.winner is not None), None)
    if flip is None or flip.winner is None or flip.value is None or flip.change_ratio is None:
        return []
    rise = f"{significant(PERCENT * flip.change_ratio, 2)}%"
    return [f"Flips at {usd_per_hour(flip.value)} per machine (+{rise}): then {machines_of(flip.winner)}.{more}"]


def mix_line(plan: ServePlan, is_alone: bool) -> list[str]:
    """That two offers together cost less; beside other models which, as no table of them follows."""
    if plan.mix is None:
        return []
    if is_alone:
        return [f"Two offers together cost less: {mixed_price(plan.mix)}, see below."]
    which = " + ".join(machines_of(part.deployment) for part in plan.mix.parts)
    return [f"Planned alone, two offers together would cost {mixed_price(plan.mix)}: {which}."]


def quality_line(plan: ServePlan) -> list[str]:
    """What the chosen weights cost in quality, where they are below the checkpoint's."""
    cost = plan.quality_costs.get(plan.answer.weight_format)
    return [] if cost is None else [f"Quality: {cost}."]


def cache_line(plan: ServePlan) -> list[str]:
    """That the KV cache has fewer bits than nobody asked for."""
    d, is_chosen = plan.answer, any(i.name == "KV cache" and i.origin in SAID for i in plan.inputs)
    if is_chosen or d.kv_precision not in EIGHT_BIT_CACHES:
        return []
    return [f"KV cache {d.kv_precision} costs quality too: {d.engine}'s default (--kv-precision bf16: 16 bits)."]


def lower_precision_line(plan: ServePlan) -> list[str]:
    """What a checkpoint of lower precision would save."""
    d = plan.lower_precision_alternative
    if d is None or is_told(plan, PRECISION):
        return []
    run = f"{machines(d)}, {d.layout}"
    return [f"With {d.weight_format} weights {about(d)}{usd_per_hour(d.usd_per_hour)} ({run}): --precision fp8."]
