"""Ids that engines' pages, their test suites and our measurements name: what each is read as.

The table holds whole lists (Red Hat's validated models, NVIDIA's for DGX Spark, SGLang's nightly runs, vLLM's for TPU,
Qwen 1.5 to 2.5 of ms-swift, the configs of aiconfigurator); of vLLM's long page the ids of families that are read here,
and ten that are not, with the reason. It was read by a person: families and sizes are those that the ids state.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from gpufleet.architecture.parameters import num_parameters
from gpufleet.catalog.models import hub_id, resolve_model_name, shipped_architecture
from gpufleet.errors import UnknownName
from gpufleet.units import GB as GIGA

with Path(__file__).with_name("hub_ids.csv").open(encoding="utf-8", newline="") as table:
    ROWS = list(csv.DictReader(table))
READ, UNREAD = [row for row in ROWS if row["model"]], [row for row in ROWS if not row["model"]]
SIZE = re.compile(r"(?<![\d.a-z])(\d+(?:\.\d+)?)b(?![a-z])")
STATES_ACTIVE_OR_OF_ONE_EXPERT = re.compile(r"-\d+e-|olmoe|\dx\d")


def test_more_than_95_of_a_hundred_ids_are_read_and_the_others_say_why():
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 300
    assert len(READ) / len(ROWS) >= 0.95
    assert all(row["reason"] for row in UNREAD)
    assert all(row["source"] for row in ROWS)


def test_no_list_gives_the_most():
    assert max(Counter(row["source"].split("@")[0] for row in ROWS).values()) < len(ROWS) / 3


@pytest.mark.parametrize("row", READ, ids=lambda row: row["id"])
def test_an_id_is_read_as_its_model_in_its_own_number_format(row):
    assert resolve_model_name(row["id"]).id == row["model"]
    assert shipped_architecture(row["id"]).weights.name == row["weights"]
    assert hub_id(row["id"]) == row["id"]


@pytest.mark.parametrize("row", UNREAD, ids=lambda row: row["id"])
def test_what_is_not_read_is_not_guessed(row):
    with pytest.raises(UnknownName):
        resolve_model_name(row["id"])


def test_the_size_that_an_id_states_is_that_of_its_model():
    """To within a half: 1B is 1.24 billion for Llama 3.2, 1.48 for OLMo 2; the next size of a family is twice it."""
    checked = 0
    for row in READ:
        stated = SIZE.search(row["id"].lower())
        if stated is None or STATES_ACTIVE_OR_OF_ONE_EXPERT.search(row["id"].lower()):
            continue
        billions = float(num_parameters(shipped_architecture(row["id"]))) / GIGA
        assert billions / float(stated[1]) == pytest.approx(1, abs=0.5), row["id"]
        checked += 1
    assert checked > 200


STATED = (
    (r"gptq-int8|w8a16", "int8_wo"),
    (r"awq|gptq|w4a16", "int4"),
    (r"w8a8", "int8"),
    (r"fp4", "nvfp4"),
    (r"fp8", "fp8"),
)


def test_the_format_that_an_id_states_is_that_of_its_weights():
    checked = 0
    for row in READ:
        stated = next((weights for pattern, weights in STATED if re.search(pattern, row["id"].lower())), None)
        if stated is not None:
            assert row["weights"].removesuffix("_block") == stated, row["id"]
            checked += 1
    assert checked > 100
