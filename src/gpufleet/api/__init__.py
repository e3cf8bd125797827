"""The one facade: load, call, return an answer. Each question has a module of its own."""

from gpufleet.api.comparisons import compare, compare_plans
from gpufleet.api.estimates import estimate
from gpufleet.api.fits import fit
from gpufleet.api.plan_changes import explain_plan
from gpufleet.api.plans import ServeRequest, plan_serve

__all__ = ["ServeRequest", "compare", "compare_plans", "estimate", "explain_plan", "fit", "plan_serve"]
