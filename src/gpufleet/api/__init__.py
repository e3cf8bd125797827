"""The one facade: load, call, return an answer. Each question has a module of its own, loaded when first asked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpufleet.api.batches import BatchRequest, plan_batch
    from gpufleet.api.demands import RequestKind
    from gpufleet.api.encoders import estimate_encoder
    from gpufleet.api.estimates import estimate
    from gpufleet.api.fits import fit
    from gpufleet.api.fleets import plan_fleet
    from gpufleet.api.plans import ServeRequest, plan_serve

__all__ = [
    "BatchRequest",
    "RequestKind",
    "ServeRequest",
    "estimate",
    "estimate_encoder",
    "fit",
    "plan_batch",
    "plan_fleet",
    "plan_serve",
]

MODULES = {
    "BatchRequest": "batches",
    "RequestKind": "demands",
    "ServeRequest": "plans",
    "estimate": "estimates",
    "estimate_encoder": "encoders",
    "fit": "fits",
    "plan_batch": "batches",
    "plan_fleet": "fleets",
    "plan_serve": "plans",
}


def __getattr__(name: str) -> Any:
    """A public name, from its module."""
    if name not in MODULES:
        raise AttributeError(f"module 'gpufleet.api' has no attribute {name!r}")
    return getattr(import_module(f"gpufleet.api.{MODULES[name]}"), name)
