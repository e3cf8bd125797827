"""The one facade: load, call, return an answer. Each question has a module of its own, loaded when it is asked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpufleet.api.batches import BatchRequest, plan_batch
    from gpufleet.api.comparisons import compare, compare_plans
    from gpufleet.api.demands import RequestKind
    from gpufleet.api.encoder_batches import EncoderBatchRequest, plan_encoder_batch
    from gpufleet.api.encoder_services import EncoderServeRequest, plan_encoder_serve
    from gpufleet.api.encoders import estimate_encoder
    from gpufleet.api.estimates import estimate
    from gpufleet.api.fits import fit
    from gpufleet.api.fleets import plan_fleet
    from gpufleet.api.plan_changes import explain_plan
    from gpufleet.api.plans import ServeRequest, plan_serve

__all__ = [
    "BatchRequest",
    "EncoderBatchRequest",
    "EncoderServeRequest",
    "RequestKind",
    "ServeRequest",
    "compare",
    "compare_plans",
    "estimate",
    "estimate_encoder",
    "explain_plan",
    "fit",
    "plan_batch",
    "plan_encoder_batch",
    "plan_encoder_serve",
    "plan_fleet",
    "plan_serve",
]

HOMES = {
    "BatchRequest": "batches",
    "EncoderBatchRequest": "encoder_batches",
    "EncoderServeRequest": "encoder_services",
    "RequestKind": "demands",
    "ServeRequest": "plans",
    "compare": "comparisons",
    "compare_plans": "comparisons",
    "estimate": "estimates",
    "estimate_encoder": "encoders",
    "explain_plan": "plan_changes",
    "fit": "fits",
    "plan_batch": "batches",
    "plan_encoder_batch": "encoder_batches",
    "plan_encoder_serve": "encoder_services",
    "plan_fleet": "fleets",
    "plan_serve": "plans",
}


def __getattr__(name: str) -> Any:
    """Public names, loaded when they are first used."""
    if name not in HOMES:
        raise AttributeError(f"module 'gpufleet.api' has no attribute {name!r}")
    return getattr(import_module(f"gpufleet.api.{HOMES[name]}"), name)
