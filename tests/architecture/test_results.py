"""Results are types: whoever reads a plan from a file loads pydantic and no physics."""

from __future__ import annotations

import subprocess
import sys

import pytest

READS_A_PLAN = "import sys, gpufleet.results.{module}; print(*sorted(sys.modules))"
PHYSICS = (
    "architecture",
    "memory",
    "pricing",
    "performance",
    "layout",
    "simulate",
    "optimize",
    "catalog",
    "inputs",
    "answers",
)


@pytest.mark.parametrize(
    "module", ["plan", "job", "fleet", "fit", "estimate", "encoders", "plan_changes", "simulation"]
)
def test_a_result_is_read_without_numpy_or_physics(module: str) -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", READS_A_PLAN.format(module=module)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "pydantic" in loaded
    assert "numpy" not in loaded
    assert not [name for name in loaded if name.startswith(tuple(f"gpufleet.{part}" for part in PHYSICS))]
