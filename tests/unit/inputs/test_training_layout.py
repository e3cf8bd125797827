"""Layouts and runs of one's own, as they are typed."""

from __future__ import annotations

import pytest

from gpufleet.domain.training import Recompute, Sharding
from gpufleet.errors import UsageError
from gpufleet.inputs.training_layout import parse_layout, parse_measured


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tp=4,pp=2,cp=1,ep=8,dp=16", {"tp": 4, "pp": 2, "cp": 1, "ep": 8, "dp": 16}),
        (" TP = 4 , micro-batch=2 ", {"tp": 4, "micro-batch": 2}),
        ("interleave=5", {"interleave": 5}),
        ("", {}),
        ("tp=4,,", {"tp": 4}),
        ("dp=1k", {"dp": 1000}),
        ("recompute=selective,sharding=fsdp", {"recompute": Recompute.SELECTIVE, "sharding": Sharding.ZERO_3}),
    ],
)
def test_parts_of_a_layout_are_read_by_name(text: str, expected: dict[str, int]) -> None:
    assert parse_layout(text) == expected


@pytest.mark.parametrize(
    ("name", "sharding"),
    [("none", Sharding.DDP), ("zero-1", Sharding.ZERO_1), ("fsdp", Sharding.ZERO_3), ("hsdp", Sharding.HYBRID)],
)
def test_sharding_has_the_names_of_both_schools(name: str, sharding: Sharding) -> None:
    assert parse_layout(f"sharding={name}") == {"sharding": sharding}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tp", "NAME=N"),
        ("tp=", "NAME=N"),
        ("tp=4,tp=2", "said twice"),
        ("tp=0", "must be positive"),
        ("tp=1.5", "from 1 to 65,536"),
        ("tp=1000000", "from 1 to 65,536"),
        ("tp=-4", "-4"),
        ("pt=4", "Did you mean"),
        ("recompute=fulll", "Did you mean full"),
        ("sharding=zero3", "Did you mean zero-3"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_layout(text)
    assert told in str(caught.value)


def test_runs_of_ones_own_stand_one_behind_the_other() -> None:
    one, other = parse_measured("H100:8,micro-batch=4,recompute=full@9800; A100-80GB:16@4.1k;")
    assert (one.gpus.name, one.gpus.number, one.tokens_per_s_per_gpu) == ("H100", 8, 9800.0)
    assert one.layout == {"micro-batch": 4, "recompute": Recompute.FULL}
    assert (other.gpus.number, other.layout, other.tokens_per_s_per_gpu) == (16, {}, 4100.0)


@pytest.mark.parametrize("text", ["H100:8", "H100:8,tp=2", "H100:8@", "H100:8@fast", "H100:8,tp@9800", "@9800"])
def test_a_run_needs_its_gpus_and_its_rate(text: str) -> None:
    with pytest.raises(UsageError):
        parse_measured(text)


@pytest.mark.parametrize("rate", ["0", "-5", "inf", "nan"])
def test_a_run_that_trains_nothing_is_no_run(rate: str) -> None:
    with pytest.raises(UsageError):
        parse_measured(f"H100:8@{rate}")
