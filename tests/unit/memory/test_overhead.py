"""The memory rules of an engine, of many candidates at once."""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Any

import numpy as np
import pytest

from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.memory.band import Band
from gpufleet.memory.overhead import EngineMemory

ENGINES = [find_engine(name) for name in ("vllm", "sglang", "tensorrt-llm")]
GPUS = list(load_catalog().accelerators.values())


def test_gathered_rules_are_those_of_each_candidate_and_no_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(5)
    engine, gpu = dice.integers(0, 3, 20), dice.integers(0, 9, 20)
    of, read = EngineMemory.of, []
    monkeypatch.setattr(EngineMemory, "of", lambda e, a: read.append((e.name, a.name)) or of(e, a))
    found = EngineMemory.gather(ENGINES, GPUS, engine, gpu)
    assert len(read) == len(set(read)) <= 1 + len(set(zip(engine, gpu, strict=True)))
    for row in range(20):
        alone = of(ENGINES[engine[row]], GPUS[gpu[row]])
        assert [float(column[row]) for column in figures(found)] == figures(alone)


def figures(rules: EngineMemory) -> list[Any]:
    """All figures of rules, three of each band."""
    found = (getattr(rules, f.name) for f in fields(EngineMemory))
    return [x for figure in found for x in (astuple(figure) if isinstance(figure, Band) else [figure])]


def test_no_candidate_has_no_rule() -> None:
    nobody = np.zeros(0, dtype=np.int64)
    assert EngineMemory.gather(ENGINES, GPUS, nobody, nobody).device_bytes.shape == (0,)
