"""Copies of a pool as users type them."""

from __future__ import annotations

import pytest

from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import PoolRequest, parse_pool


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("H100:4", PoolRequest(1, "H100", 4)),
        ("2x H100:4 TP4", PoolRequest(2, "H100", 4, tp=4)),
        ("2xH100:4 tp4", PoolRequest(2, "H100", 4, tp=4)),
        ("3 X H200:8 DP8 EP8", PoolRequest(3, "H200", 8, ep=8, attention_dp=8)),
        ("  RTX PRO 6000:8   TP4 PP2 ", PoolRequest(1, "RTX PRO 6000", 8, tp=4, pp=2)),
        ("1024x L4", PoolRequest(1024, "L4", 1)),
    ],
)
def test_copies_gpus_and_ranks_are_read(written: str, read: PoolRequest) -> None:
    assert parse_pool(written) == read


@pytest.mark.parametrize(
    "written", ["", "TP4", "0x H100:4", "1025x H100:4", "2x :4", "H100:0", "H100:4 TP0x", "x H100:four"]
)
def test_what_is_no_pool_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(UsageError, match=r"cannot read the decode pool.*2x H100:4 TP4"):
        parse_pool(written, "the decode pool")


def test_a_number_of_gpus_before_their_name_is_answered_with_the_right_spelling() -> None:
    with pytest.raises(UsageError, match=r"Write H100:4\."):
        parse_pool("2x 4xH100")


def test_ranks_are_stated_once() -> None:
    with pytest.raises(UsageError, match="a pool states TP twice"):
        parse_pool("H100:8 TP4 TP8")
