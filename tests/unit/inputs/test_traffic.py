"""Rates over time, from a table of rates or from requests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpufleet.domain.rate_curve import RateCurve
from gpufleet.errors import UsageError
from gpufleet.inputs.rate_curve import at_mean_rate, read_traffic


def written(folder: Path, text: str) -> Path:
    path = folder / "traffic.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_requests_are_counted_by_the_minute_of_their_clock(tmp_path: Path) -> None:
    text = "timestamp_s,input_tokens,output_tokens\n30,5,5\n59,5,5\n61,5,5\n185,5,5\n"
    curve = read_traffic(written(tmp_path, text))
    assert curve.bin_s == 60
    assert curve.start_s == 0
    assert (curve.rate_per_s * 60).tolist() == [2, 1, 0, 1]


def test_a_table_of_rates_is_read_as_it_is(tmp_path: Path) -> None:
    curve = read_traffic(written(tmp_path, "t_s,rate_rps\n0,2\n600,4\n1200,6\n"))
    assert curve.rate_per_s.tolist() == [2, 4, 6]


def test_requests_without_times_say_no_rate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no times"):
        read_traffic(written(tmp_path, "input_tokens,output_tokens\n5,5\n6,6\n"))


def test_requests_years_apart_are_refused(tmp_path: Path) -> None:
    text = "timestamp_s,input_tokens,output_tokens\n0,5,5\n1e9,5,5\n"
    with pytest.raises(UsageError, match="too long"):
        read_traffic(written(tmp_path, text))


def test_a_curve_is_scaled_to_a_mean() -> None:
    curve = at_mean_rate(RateCurve(0.0, np.array([1.0, 3.0]), 60.0), 10.0)
    assert curve.rate_per_s.tolist() == [5, 15]
    with pytest.raises(UsageError, match="no requests"):
        at_mean_rate(RateCurve(0.0, np.zeros(3), 60.0), 10.0)
