"""Measured calls of products lose what they spend on their input before a curve is fitted to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
import pandas as pd
from tools.calibrate import quantisation

from gpufleet.catalog.calibration import load_formulas
from gpufleet.units import MICROSECOND

H200 = Path("h200_sxm")
SEARCH_S, QUANTISING_S = 7.2 * MICROSECOND, 1.3 * MICROSECOND
STEPS = {("trtllm", "computescale"): SEARCH_S, ("trtllm", "scale_matrix"): QUANTISING_S}


def step_s(gpu: Path, engine: str, step: str) -> pd.Series:
    places = pd.MultiIndex.from_tuples([(8, 4096)], names=["m", "k"])
    return pd.Series([STEPS.get((engine, step), np.nan)], index=places)


def products(monkeypatch: pytest.MonkeyPatch, **call: object) -> pd.DataFrame:
    """What is left of one call of 8 x 4,096 x 4,096."""
    row = {"engine": "trtllm", "precision": "fp8", "m": 8, "n": 4096, "k": 4096, "latency_s": 16.9e-6, **call}
    monkeypatch.setattr(quantisation, "step_s", step_s)
    monkeypatch.setattr(quantisation, "gemm_rows", lambda gpu: pd.DataFrame([row]))
    return quantisation.product_rows(H200)


def test_the_fp8_call_of_tensorrt_llm_loses_the_search_and_the_quantisation(monkeypatch: pytest.MonkeyPatch) -> None:
    left = products(monkeypatch)
    assert left.latency_s.tolist() == pytest.approx([16.9e-6 - SEARCH_S - QUANTISING_S])


def test_what_nobody_measured_apart_loses_what_the_formula_says(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_s = load_formulas().streams.fixed_s.value
    left = products(monkeypatch, engine="sglang", latency_s=10.1e-6)
    assert 10.1e-6 - 1.05 * fixed_s < left.latency_s.iloc[0] < 10.1e-6 - fixed_s


def test_calls_in_16_bits_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert products(monkeypatch, precision="bf16").latency_s.tolist() == [16.9e-6]


def test_calls_that_do_little_but_quantise_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert products(monkeypatch, engine="sglang", latency_s=3.0e-6).empty
    assert products(monkeypatch, latency_s=SEARCH_S).empty
