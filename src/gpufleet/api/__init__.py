"""The one facade: load, call, return an answer. Each question has a module of its own."""

from gpufleet.api.estimate import estimate
from gpufleet.api.fit import fit
from gpufleet.api.plan_serve import ServeRequest, plan_serve

__all__ = ["ServeRequest", "estimate", "fit", "plan_serve"]
