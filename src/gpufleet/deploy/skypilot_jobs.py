"""A schedule as SkyPilot tasks: one YAML document a job, with every way that it may run as `any_of`.

Fields: docs.skypilot.co/en/latest/reference/yaml-spec.html.
"""

from __future__ import annotations

import math
from typing import Any

import yaml

from gpufleet.errors import UsageError
from gpufleet.results.schedule import ScheduledOption, ScheduledRun, SchedulePlan
from gpufleet.units import MINUTE

MOST_GPUS_OF_A_NODE = 8
SPELT = {
    "A100-SXM4-80GB": "A100-80GB", "A100-PCIe-80GB": "A100-80GB", "A100-SXM4-40GB": "A100", "A100-PCIe-40GB": "A100",
    "H100-SXM": "H100", "H100-PCIe": "H100", "H200-SXM": "H200", "B200-SXM": "B200", "V100-SXM2-16GB": "V100",
    "V100-SXM2-32GB": "V100-32GB",
}  # fmt: skip
"""GPUs that SkyPilot calls by another name than our tables do."""
NO_COMMAND = 'echo "Put the command of {job} here"'


def sky_tasks(plan: SchedulePlan, job: str | None = None) -> str:
    """Tasks in the order in which they begin, or that of one job."""
    runs = sorted((run for run in plan.runs if job in (None, run.job)), key=lambda run: (run.start_s, run.job))
    return "---\n".join(told(run) for run in runs)


def told(run: ScheduledRun) -> str:
    """One task, with when to launch it."""
    when = f"# Launch it {run.start_s / MINUTE:,.0f} min after the start of the schedule"
    waits = f", after {', '.join(run.after)}" if run.after else ""
    return f"{when}{waits}: sky jobs launch FILE\n" + yaml.safe_dump(sky_task(run), sort_keys=False, width=120)


def sky_task(run: ScheduledRun) -> dict[str, Any]:
    """One task as SkyPilot reads it."""
    nodes = nodes_of(run.gpus)
    options = [resources(option) for option in run.options if nodes_of(option.gpus) == nodes]
    task: dict[str, Any] = {"name": run.job, "num_nodes": nodes, "resources": {"any_of": unique(options)}}
    if run.image:
        task["resources"]["image_id"] = f"docker:{run.image}"
    return {**task, "run": run.command or NO_COMMAND.format(job=run.job)}


def nodes_of(gpus: float) -> int:
    """Machines that hold a gang."""
    nodes = math.ceil(gpus / MOST_GPUS_OF_A_NODE)
    if gpus > MOST_GPUS_OF_A_NODE and gpus % nodes:
        raise UsageError(
            "a gang is not spread evenly over machines", found=f"{gpus:g} GPUs", expected="a multiple of 8"
        )
    return nodes


def resources(option: ScheduledOption) -> dict[str, Any]:
    """One way to run a job; a share of a GPU is said as such, and Kubernetes clusters alone may have it."""
    name, gpus = SPELT.get(option.gpu, option.gpu), option.gpus / nodes_of(option.gpus)
    found: dict[str, Any] = {"accelerators": {name: int(gpus) if gpus >= 1 else gpus}}
    return {**found, "use_spot": option.kind == "spot"}


def unique(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ways without those that SkyPilot does not tell apart."""
    return [option for at, option in enumerate(options) if option not in options[:at]]
