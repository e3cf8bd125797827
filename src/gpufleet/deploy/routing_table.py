"""A mix's routes as data that a router can read: by model, class and tokens, weights of backends."""

from __future__ import annotations

from typing import Any

from gpufleet.results.mix import FleetMix, MixCopies, RouteRow


def routing_table(mix: FleetMix) -> dict[str, Any]:
    """Backends by name, and rules: every request fits one of its model and class, which says its weights.

    A request fits where its prompt has more than `above_prompt_tokens` and at most `to_prompt_tokens` (null: any
    number), and where answers are foretold, the same of its answer.
    """
    names = [backend_name(mix, at, copies) for at, copies in enumerate(mix.copies)]
    backends = [backend(mix, name, copies) for name, copies in zip(names, mix.copies, strict=True)]
    return {"version": 1, "backends": backends, "rules": [rule(mix, route, names) for route in mix.routes]}


def backend_name(mix: FleetMix, at: int, copies: MixCopies) -> str:
    """A name of its own for each row of copies."""
    return f"{mix.services[copies.service].model}-{at + 1}-{copies.deployment.gpu}".lower()


def backend(mix: FleetMix, name: str, copies: MixCopies) -> dict[str, Any]:
    """Copies that stand on machines of one offer."""
    d = copies.deployment
    return {
        "name": name,
        "model": mix.services[copies.service].model,
        "cloud": d.cloud,
        "region": d.region,
        "instance": d.instance,
        "gpu": d.gpu,
        "replicas": d.replicas,
        "requests_per_s": round(copies.requests_per_s, 6),
    }


def rule(mix: FleetMix, route: RouteRow, names: list[str]) -> dict[str, Any]:
    """Where requests of some lengths go."""
    is_foretold = route.from_answer_tokens is not None
    answer = ends("answer", route.from_answer_tokens or 0.0, route.to_answer_tokens) if is_foretold else {}
    return {
        "model": mix.services[route.service].model,
        "class": route.request_class or None,
        **ends("prompt", route.from_prompt_tokens, route.to_prompt_tokens),
        **answer,
        "weights": {names[copies]: round(share, 6) for copies, share in route.copies.items()},
    }


def ends(what: str, low: float, high: float | None) -> dict[str, int | None]:
    """Above and up to how many whole tokens."""
    return {f"above_{what}_tokens": round(low), f"to_{what}_tokens": None if high is None else round(high)}
