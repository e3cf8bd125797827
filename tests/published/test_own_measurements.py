"""What we measured on one H100 ourselves (measurements/own), which no fit sees."""

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from gpufleet.accuracy.score import score_files
from gpufleet.results.accuracy import ScoredFigure

OWN = Path(__file__).parents[2] / "measurements" / "own"


def rows_of(file: str) -> list[dict[str, str]]:
    with (OWN / file).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def figures_of(file: str) -> list[ScoredFigure]:
    (found,) = score_files([OWN / file]).files
    return [figure for figure in found.figures if figure.measured is not None]


def ratio(figure: ScoredFigure) -> float:
    return (figure.predicted or 0.0) / (figure.measured or 1.0)


def test_percentiles_are_those_of_the_requests() -> None:
    requests = defaultdict(list)
    with gzip.open(OWN / "request_traces" / "own.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        for request in csv.DictReader(stream):
            requests[request["experiment"]].append(float(request["ttft_s"]) * 1e3)
    stated = {row["id"]: row for row in rows_of("serving_under_load.csv") if row["usable"] == "yes"}
    assert set(stated) == set(requests)
    for name, ttft_ms in requests.items():
        assert len(ttft_ms) == int(stated[name]["num_requests"])
        assert np.percentile(ttft_ms, (50, 95)) == pytest.approx(
            [float(stated[name][f"ttft_p{p}_ms"]) for p in (50, 95)], abs=0.01
        )


@pytest.mark.parametrize("file", ["serving_points.csv", "inference_memory.csv"])
def test_every_usable_row_has_a_prediction(file: str) -> None:
    figures = figures_of(file)
    assert figures
    assert [figure.reason for figure in figures if figure.predicted is None] == []


def test_pools_and_weights_are_foreseen_within_five_percent() -> None:
    assert all(abs(ratio(figure) - 1) < 0.05 for figure in figures_of("inference_memory.csv"))


def test_single_streams_of_dense_16_bit_models_are_foreseen_within_ten_percent() -> None:
    singles = {n for n, row in enumerate(rows_of("serving_points.csv"), 2) if is_dense_single_stream(row)}
    streams = [f for f in figures_of("serving_points.csv") if f.row in singles and f.quantity == "tpot"]
    assert len(streams) == 3
    assert all(abs(ratio(figure) - 1) < 0.1 for figure in streams)


def is_dense_single_stream(row: dict[str, str]) -> bool:
    return (row["concurrency"], row["precision"]) == ("1", "bf16") and "experts" not in row["checkpoint"]


def test_scales_found_at_run_time_cost_less_than_a_tenth() -> None:
    tpot = {(row["checkpoint"], row["concurrency"]): float(row["tpot_ms"]) for row in rows_of("serving_points.csv")}
    dynamic, static = (next(c for c, _ in tpot if word in c) for word in ("at run time", "stored"))
    slower = [tpot[dynamic, n] / tpot[static, n] for n in ("1", "8", "32", "128")]
    assert slower == sorted(slower, reverse=True)
    assert 1.0 < slower[-1] < slower[0] < 1.1
