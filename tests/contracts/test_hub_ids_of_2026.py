"""Ids that recipes and engines' own lists of 2025 and 2026 name: read as their model, or refused with what to type.

The list was written down before any of these names was added: whole lists of vLLM's recipes, and what is of those years
in vLLM's registry of tests and SGLang's pages. Parameters are those that the class of each model in transformers
5.24.0 counts, and where a model card states them for a checkpoint they differ by its prediction layers alone.
"""

from __future__ import annotations

import csv
from pathlib import Path

from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.models import hub_id, is_encoder, resolve_model_name, shipped_architecture
from gpufleet.errors import UnknownName

with Path(__file__).with_name("hub_ids_of_2026.csv").open(encoding="utf-8", newline="") as table:
    ROWS = list(csv.DictReader(table))
READ = [row for row in ROWS if row["model"]]


def refusal_of(hub: str) -> str:
    """What an id is refused with; empty where it is read."""
    try:
        resolve_model_name(hub)
    except UnknownName as error:
        return str(error)
    return ""


def wrong(row: dict[str, str]) -> str:
    """What of an id is not as its row says."""
    if not row["model"]:
        expected = f"'gpufleet catalog models add {row['id']}'"
        return "" if expected in refusal_of(row["id"]) and row["reason"] else "not refused with what to type"
    model = resolve_model_name(row["id"])
    if model.id != row["model"] or (hub_id(row["id"]) or "").casefold() != row["id"].casefold():
        return f"read as {model.id} of {hub_id(row['id'])}"
    if is_encoder(model):
        return ""
    arch = shipped_architecture(row["id"])
    count = f"{num_parameters(arch)}"
    if row["parameters"] not in ("", count) or arch.weights.name != row["weights"]:
        return f"{count} parameters in {arch.weights.name}"
    return ""


def test_each_of_268_ids_is_read_as_its_model_or_refused_with_the_command_that_adds_it():
    assert len({row["id"] for row in ROWS}) == len(ROWS) == 268
    assert {row["id"]: told for row in ROWS if (told := wrong(row))} == {}
    assert len(READ) >= 138
    assert sum(bool(row["parameters"]) for row in READ) >= 39


def test_a_number_is_no_slip_of_the_pen_in_an_id():
    """Qwen3.5-9B was once 'did you mean Qwen3.5-27B': another size or version is another model."""
    assert "Did you mean" not in refusal_of("Qwen/Qwen3.8-2.4T-A95B")
    assert "Qwen/Qwen3.5-27B" in refusal_of("Qwen/Qwem3.5-27B")
