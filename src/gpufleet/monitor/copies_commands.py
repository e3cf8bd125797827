"""Commands that change how many copies run: of their deployment, or of the controller that owns the number.

Fields: `maxReplicas` of autoscaling/v2, `maxReplicaCount` and the annotation `paused-replicas` of keda.sh/v1alpha1.
"""

from __future__ import annotations

import json

from gpufleet.languages import shell_command
from gpufleet.monitor.watched import ScalingLaw, WatchedCopies

KEDA = "KEDA"
PAUSED_AT = "autoscaling.keda.sh/paused-replicas"


def more_copies(copies: WatchedCopies) -> str:
    """One copy more; of a law a machine more at its most."""
    if copies.law is None:
        return scaled_to(copies, copies.replicas + 1)
    return bounded(copies, copies.law, copies.law.most + copies.law.per_machine)


def fewer_copies(copies: WatchedCopies) -> str:
    """As few as there may be."""
    return scaled_to(copies, 1) if copies.law is None else bounded(copies, copies.law, copies.law.least)


def planned_copies(copies: WatchedCopies) -> str:
    """As many as the plan has, of a law its fewest; a job is held."""
    if copies.job is not None:
        return held_job(copies)
    return scaled_to(copies, copies.replicas) if copies.law is None else fewer_copies(copies)


def held_job(copies: WatchedCopies) -> str:
    """A job that ends its pods and keeps its place: `suspend` of batch/v1."""
    patch = json.dumps({"spec": {"suspend": True}})
    return shell_command(
        ["kubectl", "-n", copies.namespace, "patch", f"job/{copies.name}", "--type=merge", "-p", patch]
    )


def no_copies(copies: WatchedCopies) -> str:
    """None: KEDA is held there, and a HorizontalPodAutoscaler leaves a deployment that has none alone."""
    if copies.law is None or copies.law.controller != KEDA:
        return scaled_to(copies, 0)
    held = [f"scaledobject/{copies.name}", f"{PAUSED_AT}=0", "--overwrite"]
    return shell_command(["kubectl", "-n", copies.namespace, "annotate", *held])


def scaled_to(copies: WatchedCopies, replicas: int) -> str:
    """So many copies of a deployment that no controller scales."""
    which = f"deployment/{copies.name}"
    return shell_command(["kubectl", "-n", copies.namespace, "scale", which, f"--replicas={replicas}"])


def bounded(copies: WatchedCopies, law: ScalingLaw, most: int) -> str:
    """Another most of the controller, which owns the number of copies."""
    kind, field = ("scaledobject", "maxReplicaCount") if law.controller == KEDA else ("hpa", "maxReplicas")
    patch = json.dumps({"spec": {field: most}})
    return shell_command(
        ["kubectl", "-n", copies.namespace, "patch", f"{kind}/{copies.name}", "--type=merge", "-p", patch]
    )


def controller_seen(copies: WatchedCopies) -> str:
    """What the controller reads and wants: KEDA's own autoscaler is named `keda-hpa-` and its object's name."""
    is_keda = copies.law is not None and copies.law.controller == KEDA
    name = f"keda-hpa-{copies.name}" if is_keda else copies.name
    return shell_command(["kubectl", "-n", copies.namespace, "describe", f"hpa/{name}"])
