"""Which tests are asked about which modules: the quick ones beside them, so that what they enter is soon recorded.

A module that stands in no row is covered by every test without a command line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

EVERY = ("tests/unit", "tests/properties", "tests/published", "tests/invariants", "tests/catalog")
REPLAYING = tuple(
    f"simulate/{name}"
    for name in ("cluster", "events", "finishing", "kv_", "replica", "routing", "state", "step_t", "waiting")
)
NEAREST: dict[str | tuple[str, ...], tuple[str, ...]] = {
    "optimize/job_regions.py": ("unit/*/test_job_regions.py", "properties/test_job_region_laws.py"),
    "optimize/mixes/": (
        "unit/optimize/mixes", "unit/answers/test_fleet_mix.py", "unit/api/test_sun.py", "unit/api/test_mixes.py",
        "properties/test_mix_laws.py", "properties/test_mixes_of_services.py", "hostile/test_contradictory_mixes.py",
        "properties/test_laws_of_mixed_services.py", "properties/test_regions_by_brute_force.py",
    ),
    "optimize/schedule/": (
        "unit/optimize/test_occupancy.py", "unit/optimize/test_schedule_*.py", "properties/test_schedule_laws.py",
        "properties/test_schedule_defaults.py", "properties/test_online_laws.py",
    ),
    "optimize/spot": ("unit/optimize/test_spot_*.py", "properties/test_spot_*.py"),
    "optimize/slack_rules.py": ("unit/optimize/test_spot_question.py", "properties/test_spot_*.py"),
    "optimize/training": (
        "unit/optimize/test_training*.py", "unit/api/test_training_*.py", "unit/api/test_host_memory.py",
        "unit/compat/test_training_counts.py", "properties/test_training_laws.py",
    ),
    REPLAYING: (
        "unit/simulate/test_c*.py", "unit/simulate/test_f[ai]*.py", "unit/simulate/test_in_front_and_faults.py",
        "unit/simulate/test_later_requests.py", "unit/simulate/test_order_of_service.py",
        "unit/simulate/test_routing.py", "properties/test_simulator_laws.py",
    ),
    "simulate/": ("unit/simulate", "published/test_scaling_laws.py", "properties/test_availability_laws.py"),
}  # fmt: skip


def nearest_tests(paths: Iterable[str]) -> set[Path]:
    """The test files that are asked about these modules."""
    return {test for place in {place for path in set(paths) for place in places_for(path)} for test in files_at(place)}


def places_for(path: str) -> tuple[str, ...]:
    """Files and folders of tests for one module, and its own doctests."""
    module = path.removeprefix("src/gpufleet/")
    rows = [places for start, places in NEAREST.items() if module.startswith(start)]
    return (path, *(f"tests/{place}" for place in rows[0])) if rows else (path, *EVERY)


def files_at(place: str) -> list[Path]:
    """The files of tests in a folder or of a pattern; a module where it has doctests."""
    path = Path(place)
    found = path.rglob("test_*.py") if path.is_dir() else Path().glob(place)
    return [file for file in sorted(found) if file.name.startswith("test_") or ">>> " in file.read_text("utf-8")]
