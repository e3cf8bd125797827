"""GPUs as users type them: a count is read or refused, never lost."""

from __future__ import annotations

import re

import pytest

from gpufleet.errors import UsageError
from gpufleet.inputs.gpu_request import GpuRequest, parse_gpus


def test_a_bare_name_is_one_gpu_and_a_number_after_a_colon_is_how_many() -> None:
    assert parse_gpus("L40S") == GpuRequest("L40S", 1)
    assert parse_gpus(" H100 : 8 ") == GpuRequest("H100", 8)


@pytest.mark.parametrize("written", ["4xH100", "4x H100", "4 X H100", "4*H100", "4×H100", "４×H100"])
def test_a_number_before_the_name_is_answered_with_the_right_spelling(written: str) -> None:
    with pytest.raises(UsageError, match=r"Write H100:4\."):
        parse_gpus(written)


@pytest.mark.parametrize("written", ["", ":4", "H100:", "H100:0", "H100:４", "H100:-1", "H100:1025", "H100:4.0"])
def test_a_number_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(UsageError, match="cannot read a set of GPUs"):
        parse_gpus(written)


@pytest.mark.parametrize(("written", "meant"), [("8", "H100:8"), ("-3", "H100:3"), ("0", "H100:1"), ("+4", "H100:4")])
def test_a_number_alone_is_answered_with_a_name_before_it(written: str, meant: str) -> None:
    with pytest.raises(
        UsageError, match=f"the GPU's name is missing; found '{re.escape(written)}'; .* from 1: {meant}"
    ):
        parse_gpus(written)
