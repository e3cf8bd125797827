"""A mix's routes as data that a router can read: by model, class and tokens, weights of backends."""

from __future__ import annotations

from typing import Any

from gpufleet.results.mix import FleetMix, MixCopies, RouteRow


def routing_table(mix: FleetMix) -> dict[str, Any]:
    """Backends by name, and rules that are read from the top: the first that a request fits says its weights.

    A request fits a rule of its model and class where its prompt has at most `to_prompt_tokens`, null: any number; and
    where its answer is foretold, that at most `to_answer_tokens`.
    """
    names = [backend_name(mix, at, copies) for at, copies in enumerate(mix.copies)]
    backends = [backend(mix, name, copies) for name, copies in zip(names, mix.copies, strict=True)]
    return {"version": 1, "backends": backends, "rules": [rule(mix, at, names) for at in range(len(mix.routes))]}


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


def rule(mix: FleetMix, at: int, names: list[str]) -> dict[str, Any]:
    """Where requests of some lengths go."""
    route = mix.routes[at]
    is_last = not any(is_longer(other, route) for other in mix.routes)
    foretold = {} if route.to_answer_tokens is None else {"to_answer_tokens": end_of(mix, route)}
    return {
        "model": mix.services[route.service].model,
        "class": route.request_class or None,
        "to_prompt_tokens": None if is_last else round(route.to_prompt_tokens),
        **foretold,
        "weights": {names[copies]: round(share, 6) for copies, share in route.copies.items()},
    }


def is_longer(other: RouteRow, route: RouteRow) -> bool:
    """Whether another rule of the same class is of longer prompts."""
    same = (other.service, other.request_class) == (route.service, route.request_class)
    return same and other.to_prompt_tokens > route.to_prompt_tokens


def end_of(mix: FleetMix, route: RouteRow) -> int | None:
    """The longest answer of a rule; None for the longest of all."""
    same = [r for r in mix.routes if (r.service, r.request_class) == (route.service, route.request_class)]
    longest = max(r.to_answer_tokens or 0.0 for r in same)
    return None if route.to_answer_tokens == longest else round(route.to_answer_tokens or 0.0)
