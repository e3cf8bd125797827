"""Ranges are learnt from what no fit had seen: as wide as an engine deserves, wider where it was not measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy")
pytest.importorskip("pandas")

from tools.calibrate.eras import ERAS, Era, Residual
from tools.calibrate.ranges import NARROWEST, Ranges, Span, fit_widths
from tools.calibrate.serving_rows import Point

from gpufleet.domain.layout import Layout
from gpufleet.performance.serving import Client

VLLM, SGLANG = (next(era for era in ERAS if era.engine == name and era.parent) for name in ("vllm", "sglang"))


def residual(era: Era, log_ratio: float, model: str = "a", sequences: float = 8.0, quantity: str = "tpot") -> Residual:
    point = Point(
        "bench", model, "H100-SXM", era.engine, None, "closed_loop", None, None, Layout(), sequences, (512.0, 256.0),
        Client(), {},
    )  # fmt: skip
    return Residual(era, quantity, point, log_ratio, True, sequences, True)


def residuals(era: Era, spread: float, **where: object) -> list[Residual]:
    draws = np.random.default_rng(1).normal(0.0, spread, 400)
    return [residual(era, float(x), model=f"m{i % 5}", **where) for i, x in enumerate(draws)]


def test_an_engine_that_is_better_known_has_the_narrower_range_and_both_hold() -> None:
    """Spreads of 0.1 and 0.5: the 10th and 90th percentile of a normal law are 1.28 spreads away."""
    widths = fit_widths("tpot", residuals(VLLM, 0.1) + residuals(SGLANG, 0.5))
    for era, spread in ((VLLM, 0.1), (SGLANG, 0.5)):
        low, high = widths.lone_ends(era.family_key, era.key)
        assert low == pytest.approx(-1.28 * spread, rel=0.25)
        assert high == pytest.approx(1.28 * spread, rel=0.25)


def test_the_first_token_is_as_uncertain_as_the_crowd_that_waits() -> None:
    few, many = residuals(VLLM, 0.1, quantity="ttft"), residuals(VLLM, 0.6, quantity="ttft", sequences=480.0)
    widths = fit_widths("ttft", few + many)
    assert widths.slopes["log_per_crowding"] > 0.2
    assert widths.ends(many[0])[1] > 3 * widths.ends(few[0])[1]


def test_the_range_of_a_first_token_never_shrinks_as_clients_join() -> None:
    few, many = residuals(VLLM, 0.6, quantity="ttft"), residuals(VLLM, 0.1, quantity="ttft", sequences=480.0)
    assert fit_widths("ttft", few + many).slopes["log_per_crowding"] == 0


def test_tokens_of_models_with_experts_are_less_certain() -> None:
    dense, routed = (residuals(VLLM, spread) for spread in (0.1, 0.3))
    routed = [replace(r, is_moe=True) for r in routed]
    widths = fit_widths("tpot", dense + routed)
    assert widths.ends(dense[0])[1] == pytest.approx(1.28 * 0.1, rel=0.25)
    assert widths.ends(routed[0])[1] == pytest.approx(1.28 * 0.3, rel=0.25)


def test_an_engine_that_nobody_left_out_takes_the_range_of_all() -> None:
    widths = fit_widths("tpot", residuals(VLLM, 0.1) + residuals(SGLANG, 0.5))
    high = widths.lone_ends(("unknown", "1"), ("unknown", "1"))[1]
    assert widths.lone_ends(VLLM.family_key, VLLM.key)[1] < high < widths.lone_ends(SGLANG.family_key, SGLANG.key)[1]


def test_rows_that_no_device_could_have_run_teach_nothing_and_no_range_is_a_point() -> None:
    exact = residuals(VLLM, 1e-6)
    wild = [replace(r, log_ratio=5.0, is_possible=False) for r in exact]
    assert fit_widths("tpot", exact + wild).lone_ends(VLLM.family_key, VLLM.key) == (-NARROWEST, NARROWEST)


def test_a_range_grows_by_the_doublings_beyond_what_was_measured() -> None:
    seen = residuals(VLLM, 0.1) + residuals(VLLM, 0.1, quantity="ttft")
    ranges = Ranges.learnt(seen, [], log_per_doubling=0.1)
    far = residual(VLLM, 0.0, sequences=64.0)
    assert Span.of(seen).doublings(far) == 3
    assert ranges.ends(far)[1] == pytest.approx(np.hypot(ranges.ends(seen[0])[1], 0.3))
    assert ranges.ends(residual(SGLANG, 0.0))[1] > 0


def test_a_lent_curve_widens_a_range_by_what_gpus_that_lost_theirs_were_off() -> None:
    """A spread of 0.1 of the engine and 0.15 of lent kernels, whose own range says 1.28 x 0.5."""
    own, off = residuals(VLLM, 0.1), residuals(VLLM, float(np.hypot(0.1, 0.15)))
    lent = [replace(r, borrowed_log=(1.28 * 0.5, 1.28 * 0.5)) for r in off]
    ranges = Ranges.learnt([*own, *residuals(VLLM, 0.1, quantity="ttft")], lent, log_per_doubling=0.0)
    assert ranges.lent_kept["tpot"] == pytest.approx(0.3, abs=0.07)
    low, high = ranges.ends(lent[0])
    assert np.mean([low <= r.log_ratio <= high for r in lent]) == pytest.approx(0.8, abs=0.02)
