"""Simpler models beside ours: what is taken away, and which way it moves a prediction."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tools.baselines import (
    ROOFLINE,
    Baseline,
    Efficiency,
    best_constant_efficiency,
    ladder,
    neutral,
    predicting_with,
    scored_figures,
)

from gpufleet import api
from gpufleet.catalog.engine_eras import load_engine
from gpufleet.inputs.measurements import MeasurementFile, read_measurements
from gpufleet.results.accuracy import ScoredFigure

MEASUREMENTS = Path(__file__).resolve().parents[3] / "measurements"
HALF = Efficiency(0.5, 0.7)
BY_NAME = {baseline.name: baseline for baseline in ladder(HALF)}


@pytest.fixture(scope="module")
def files() -> list[MeasurementFile]:
    """Every sixtieth row of the measured times and rates."""
    found = [read_measurements(MEASUREMENTS / f"{kind}.csv") for kind in ("serving_points", "inference_throughput")]
    return [replace(file, rows=file.rows[::60]) for file in found]


@pytest.fixture(scope="module")
def scored(files: list[MeasurementFile]) -> dict[str, dict[tuple[str, int, str], ScoredFigure]]:
    """Predictions of every baseline by row and quantity."""
    found = {name: scored_figures(files, None, baseline) for name, baseline in BY_NAME.items()}
    return {name: {(f.file, f.row, f.quantity): f for f in figures} for name, figures in found.items()}


def seconds(figure: ScoredFigure) -> float:
    """What is better when smaller: a time, or one over a rate."""
    predicted = figure.predicted or 0.0
    return 1 / predicted if figure.quantity == "out_tokens_per_s" else predicted


@pytest.mark.slow
def test_every_baseline_answers_for_the_same_rows(scored: dict[str, dict[object, ScoredFigure]]) -> None:
    rows = [set(figures) for figures in scored.values()]
    assert len(rows[0]) > 50
    assert all(keys == rows[0] for keys in rows)


@pytest.mark.slow
def test_nothing_is_slower_at_the_roofline_than_at_a_constant_share_of_it(
    scored: dict[str, dict[tuple[str, int, str], ScoredFigure]],
) -> None:
    roofline, constant = scored["roofline"], scored["constant efficiency"]
    assert all(seconds(roofline[key]) < seconds(constant[key]) for key in roofline if key[2] != "ttft")


def test_no_measured_kernel_beats_the_roofline(
    scored: dict[str, dict[tuple[str, int, str], ScoredFigure]],
) -> None:
    roofline, curves = scored["roofline"], scored["kernel curves"]
    assert all(seconds(roofline[key]) < seconds(curves[key]) for key in roofline if key[2] != "ttft")


def test_the_last_step_of_the_ladder_is_what_the_product_answers(
    scored: dict[str, dict[tuple[str, int, str], ScoredFigure]],
) -> None:
    ours, curves = scored["gpufleet"], scored["kernel curves"]
    assert sum(ours[key].predicted != curves[key].predicted for key in ours) > 0.9 * len(ours)
    question = {"input_tokens": 1000, "output_tokens": 200, "concurrency": 16}
    plain = api.estimate("llama-3.1-8b", "H100:1", **question)
    with predicting_with(BY_NAME["gpufleet"]):
        assert api.estimate("llama-3.1-8b", "H100:1", **question) == plain
    with predicting_with(BY_NAME["roofline"]):
        assert api.estimate("llama-3.1-8b", "H100:1", **question).tpot_s.value < plain.tpot_s.value
    assert api.estimate("llama-3.1-8b", "H100:1", **question) == plain


def test_at_the_roofline_a_lone_token_takes_the_reading_of_the_weights() -> None:
    with predicting_with(Baseline("", "", ROOFLINE)):
        found = api.estimate("llama-3.1-8b", "H100:1", input_tokens=16, output_tokens=16, batch=1)
    read_s = (8.03e9 - 128256 * 4096) * 2 / 3.35e12
    assert found.tpot_s.value == pytest.approx(read_s, rel=0.01)


def test_half_the_bandwidth_is_twice_the_time_of_a_lone_token() -> None:
    taken = []
    for share in (1.0, 0.5):
        with predicting_with(Baseline("", "", Efficiency(1.0, share))):
            taken.append(
                api.estimate("llama-3.1-70b", "H100:4", input_tokens=500, output_tokens=50, batch=1).tpot_s.value
            )
    assert taken[1] == pytest.approx(2 * taken[0], rel=1e-6)


def test_a_neutral_engine_keeps_its_memory_and_its_ranges() -> None:
    engine = load_engine("vllm")
    plain = neutral(engine)
    assert plain.constant("decode_scale_ratio") == 1.0
    assert plain.constant("step_overhead_s") == 0.0
    kept = ("free_fraction", "logit_bytes", "tpot_log_high", "most_sequences", "log_per_doubling")
    assert [plain.constant(name) for name in kept] == [engine.constant(name) for name in kept]


@pytest.mark.slow
def test_the_best_constant_shares_come_nearer_than_the_roofline(files: list[MeasurementFile]) -> None:
    best = best_constant_efficiency([replace(file, rows=file.rows[:2]) for file in files], None)
    assert 0 < best.compute_ratio < 1
    assert 0 < best.bandwidth_ratio < 1
