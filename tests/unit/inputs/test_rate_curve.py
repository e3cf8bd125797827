"""Curves of rates in the forms of the public ones, made up here, uneven ones, and hostile ones."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.errors import UsageError
from gpufleet.inputs import rate_curve as rate_curve_module
from gpufleet.inputs.rate_curve import parse_rate_curve, read_rate_curve

SERVEGEN = """model,t_s,rate_rps,active_clients,top_client_rps,rate_weighted_cv
m-large,0,212.5,43,87.2,2.1
m-large,600,180.0,40,93.5,1.5
m-mid,0,0.0,0,0.0,
m-mid,600,30.5,2,20.0,3.5
m-mid,1200,10.0,2,20.0,1.0
"""
NAB = """timestamp,value
2014-04-10 00:04:00,94.0
2014-04-10 00:09:00,56.0
2014-04-10 00:14:00,187.0
"""


def test_servegen_has_a_rate_and_a_cv_for_each_model() -> None:
    curve = parse_rate_curve(SERVEGEN, "m-mid")
    assert (curve.start_s, curve.bin_s, curve.num_filled) == (0.0, 600.0, 0)
    assert curve.rate_per_s.tolist() == [0.0, 30.5, 10.0]
    assert curve.cv is not None
    assert curve.cv.tolist() == [1.0, 3.5, 1.0]


def test_one_model_of_several_has_to_be_named() -> None:
    with pytest.raises(UsageError, match="of 2 models; expected one of them named: m-large, m-mid"):
        parse_rate_curve(SERVEGEN)
    with pytest.raises(UsageError, match=r"unknown model of the rate curve 'm-midd'\. Did you mean m-mid"):
        parse_rate_curve(SERVEGEN, "m-midd")
    with pytest.raises(UsageError, match="no column 'model'"):
        parse_rate_curve(NAB, "m-mid")


def test_counts_of_dated_bins_become_rates() -> None:
    curve = parse_rate_curve(NAB)
    assert curve.bin_s == 300.0
    assert curve.rate_per_s == pytest.approx([94 / 300, 56 / 300, 187 / 300])
    assert curve.num_expected == pytest.approx(94 + 56 + 187)
    assert curve.cv is None
    assert curve.times_s[1] - curve.times_s[0] == 300.0


def test_a_file_may_be_packed(tmp_path: Path) -> None:
    (tmp_path / "curve.csv.gz").write_bytes(gzip.compress(NAB.encode()))
    assert len(read_rate_curve(tmp_path / "curve.csv.gz")) == 3


def test_bins_without_a_row_lie_between_their_neighbours_and_are_counted() -> None:
    curve = parse_rate_curve("t_s,rate_per_s,cv\n0,1,1\n10,2,1\n20,3,2\n50,9,5\n60,1,1\n")
    assert curve.rate_per_s == pytest.approx([1, 2, 3, 5, 7, 9, 1])
    assert curve.cv == pytest.approx([1, 1, 2, 3, 4, 5, 1])
    assert curve.num_filled == 2


def test_a_row_off_time_shares_its_requests_out() -> None:
    """Of 30 requests from 15 to 25 s, half are of the second bin and half of the third."""
    curve = parse_rate_curve("t_s,requests\n0,10\n10,5\n15,30\n25,5\n30,20\n40,20\n50,20\n60,20\n70,20\n")
    assert curve.bin_s == 10.0
    assert curve.rate_per_s[:4] == pytest.approx([1.0, 2.0, 2.0, 2.0])


@given(
    gaps=st.lists(st.floats(0.8, 1.15), min_size=2, max_size=40),
    counts=st.lists(st.integers(0, 90), min_size=41, max_size=41),
)
def test_uneven_bins_keep_all_their_requests(gaps: list[float], counts: list[int]) -> None:
    """But for those of the last row beyond the curve's last bin, or a bin that is seen for less than half."""
    times = np.concatenate([[0.0], np.cumsum(gaps)])
    amounts = [float(c) for c in counts[: len(times)]]
    curve = parse_rate_curve(
        "t_s,count\n" + "".join(f"{t!r},{c}\n" for t, c in zip(times.tolist(), amounts, strict=True))
    )
    assert curve.num_filled <= 1
    assert curve.num_expected == pytest.approx(sum(amounts), abs=2.1 * max(amounts) / 0.8)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no rows"),
        ("t_s,rate_rps\n", "no rows"),
        ("t_s,rate_rps\n0,5\n", "one row"),
        ("a,b\n1,2\n", "columns of an unknown form; found 'a, b'; expected a time"),
        ("t_s,b\n1,2\n2,2\n", "unknown form"),
        ("t_s,rate_rps\n0,5\n10,nan\n", "line 3: cannot read rate_rps; found 'nan'"),
        ("t_s,rate_rps\n0,5\n10,-1\n", "line 3: cannot read rate_rps"),
        ("t_s,rate_rps\n0,5\n10,\n", "line 3: cannot read rate_rps"),
        ("t_s,rate_rps\n0,5\n10\n", "line 3: cannot read rate_rps"),
        ("t_s,rate_rps\n0,5\n10,inf\n", "line 3: cannot read rate_rps"),
        ("t_s,rate_rps\n0,1\n10,1e9\n", "the highest rate of the rate curve is out of range"),
        ("t_s,rate_rps,cv\n0,1,1\n10,1,-1\n", "line 3: cannot read cv"),
        ("t_s,rate_rps,cv\n0,1,1\n10,1,nan\n", "line 3: cannot read cv"),
        ("t_s,rate_rps\nnan,5\n10,5\n", "line 2: cannot read t_s"),
        ("timestamp,value\n2014-13-10,5\n2014-12-11,5\n", "line 2: cannot read timestamp"),
        ("t_s,rate_rps\n0,5\n20,5\n10,5\n", "line 4 is not later than the row before it; found '10'"),
        ("t_s,rate_rps\n0,5\n10,5\n10,6\n", "line 4 is not later"),
        ("t_s,rate_rps\n0,5\n10,5\n20,5\n1e12,5\n", "too many bins"),
        ("t_s,rate_rps\n0,5\n1e-9,5\n", "have a length that is out of range"),
        ("t_s,rate_rps\n-1e20,5\n1e20,5\n", "have a length that is out of range"),
    ],
)
def test_what_is_no_curve_is_refused(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rate_curve(text)
    assert told in str(caught.value)
    assert "trace" not in str(caught.value)


def test_a_huge_curve_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rate_curve_module, "MOST_BINS", 10)
    with pytest.raises(UsageError, match="too many rows; expected at most 10"):
        parse_rate_curve("t_s,rate_rps\n" + "".join(f"{i},5\n" for i in range(11)))
    monkeypatch.setattr(rate_curve_module, "MOST_BYTES", 10.0)
    (tmp_path / "curve.csv").write_text(NAB, encoding="utf-8")
    with pytest.raises(UsageError, match="the rate curve is too large"):
        read_rate_curve(tmp_path / "curve.csv")


def test_a_mangled_curve_never_fails_but_with_a_message() -> None:
    dice = random.Random(5)
    for text, model in ((SERVEGEN, "m-mid"), (NAB, None)):
        for _ in range(1500):
            cut = list(text)
            for _ in range(dice.randint(1, 6)):
                cut[dice.randrange(len(cut))] = dice.choice("0,\"\n-:.eE9\x00 \r'x")
            try:
                curve = parse_rate_curve("".join(cut), model)
            except UsageError:
                continue
            assert np.all(curve.rate_per_s >= 0)
