"""A schedule as SkyPilot tasks: one YAML document a job, with every way that it may run as `any_of`.

Fields: docs.skypilot.co/en/latest/reference/yaml-spec.html.
"""

from __future__ import annotations

import math
from typing import Any

from gpufleet.errors import UsageError
from gpufleet.languages import MOST_OF_A_NAME, comment, distinct_names, shell_command, task_name, yaml_document
from gpufleet.results.schedule import ScheduledOption, ScheduledRun, SchedulePlan
from gpufleet.units import MINUTE

MOST_GPUS_OF_A_NODE = 8
SPELT = {
    "A100-SXM4-80GB": "A100-80GB", "A100-PCIe-80GB": "A100-80GB", "A100-SXM4-40GB": "A100", "A100-PCIe-40GB": "A100",
    "H100-SXM": "H100", "H100-PCIe": "H100", "H200-SXM": "H200", "B200-SXM": "B200", "V100-SXM2-16GB": "V100",
    "V100-SXM2-32GB": "V100-32GB",
}  # fmt: skip
"""GPUs that SkyPilot calls by another name than our tables do."""


def sky_tasks(plan: SchedulePlan, job: str | None = None) -> str:
    """Tasks in the order in which they begin, or that of one job."""
    names = distinct_names((run.job for run in plan.runs), task_name, MOST_OF_A_NAME)
    runs = sorted((run for run in plan.runs if job in (None, run.job)), key=lambda run: (run.start_s, run.job))
    return "---\n".join(told(run, names[run.job]) for run in runs)


def told(run: ScheduledRun, name: str) -> str:
    """One task, with when to launch it."""
    when = f"Launch it {run.start_s / MINUTE:,.0f} min after the start of the schedule"
    waits = f", after {', '.join(run.after)}" if run.after else ""
    spelt = [comment(f"It is {run.job} of the schedule.")] if name != run.job else []
    lines = [comment(f"{when}{waits}: sky jobs launch FILE"), *spelt, yaml_document(sky_task(run, name))]
    return "\n".join(lines)


def sky_task(run: ScheduledRun, name: str) -> dict[str, Any]:
    """One task as SkyPilot reads it: where it is scheduled first, then what else has as many machines."""
    nodes = nodes_of(run.gpus)
    alike = [option for option in run.options if is_even(option.gpus) and nodes_of(option.gpus) == nodes]
    alike.sort(key=lambda option: (option.pool, option.gpus) != (run.pool, run.gpus))
    task: dict[str, Any] = {"name": name, "num_nodes": nodes}
    task["resources"] = {"any_of": unique([resources(option) for option in alike])}
    if run.image:
        task["resources"]["image_id"] = f"docker:{run.image}"
    return {**task, "run": command_of(run)}


def command_of(run: ScheduledRun) -> str:
    """What a job runs; where nobody said it, a line that asks for it."""
    return run.command or shell_command(["echo", f"Put the command of {run.job} here"])


def nodes_of(gpus: float) -> int:
    """Machines that hold a gang."""
    if not is_even(gpus):
        raise UsageError(
            "a gang is not spread evenly over machines", found=f"{gpus:g} GPUs", expected="a multiple of 8"
        )
    return math.ceil(gpus / MOST_GPUS_OF_A_NODE)


def is_even(gpus: float) -> bool:
    """Whether as few machines as hold a gang have the same number of its GPUs."""
    return gpus <= MOST_GPUS_OF_A_NODE or gpus % math.ceil(gpus / MOST_GPUS_OF_A_NODE) == 0


def resources(option: ScheduledOption) -> dict[str, Any]:
    """One way to run a job; a share of a GPU is said as such, and Kubernetes clusters alone may have it."""
    name, gpus = SPELT.get(option.gpu, option.gpu), option.gpus / nodes_of(option.gpus)
    found: dict[str, Any] = {"accelerators": {name: int(gpus) if gpus >= 1 else gpus}}
    return {**found, "use_spot": option.kind == "spot"}


def unique(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ways without those that SkyPilot does not tell apart."""
    return [option for at, option in enumerate(options) if option not in options[:at]]
