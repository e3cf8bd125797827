"""The one facade: load, call, return an answer. Each question has a module of its own."""

from gpufleet.api.encoders import estimate_encoder
from gpufleet.api.estimates import estimate
from gpufleet.api.fits import fit
from gpufleet.api.plans import ServeRequest, plan_serve

__all__ = ["ServeRequest", "estimate", "estimate_encoder", "fit", "plan_serve"]
