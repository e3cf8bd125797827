"""Where a plan can be started: a row a target, by the module of `gpufleet.deploy` that writes its files."""

from __future__ import annotations

from importlib import import_module

from gpufleet.deploy.target import Target
from gpufleet.errors import UnknownName

TARGETS = {
    "kubernetes": "kubernetes_serving",
    "compose": "compose",
    "terraform-ecs": "terraform_ecs",
    "eksctl": "eksctl",
}


def target_named(name: str) -> Target:
    """The target of a name; modules of the others are not loaded.

    >>> target_named("compose").title
    'Docker Compose'
    """
    if name not in TARGETS:
        raise UnknownName("target", name, TARGETS, hint=f"Known: {', '.join(TARGETS)}.")
    target: Target = import_module(f"gpufleet.deploy.{TARGETS[name]}").TARGET
    return target
