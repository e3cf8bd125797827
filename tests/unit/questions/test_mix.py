"""Quotas and shares of a mix, as they are said."""

from __future__ import annotations

import pytest

from gpufleet.errors import UsageError
from gpufleet.questions.mix import MixRequest, SaidQuota, parse_quota, parse_shares


@pytest.mark.parametrize(
    ("said", "quota"),
    [
        ("H100=16", SaidQuota("H100", 16)),
        ("aws:H100=8", SaidQuota("H100", 8, "aws")),
        ("aws:us-east-1:H100=0", SaidQuota("H100", 0, "aws", "us-east-1")),
        (" gcp : L4 = 4 ", SaidQuota("L4", 4, "gcp")),
    ],
)
def test_a_quota_names_a_gpu_and_where(said: str, quota: SaidQuota) -> None:
    assert parse_quota(said) == quota


@pytest.mark.parametrize("said", ["H100", "=8", "H100=", "H100=-8", "H100=2.5", "a:b:c:H100=8", "aws::H100=8", ""])
def test_what_is_no_quota_is_refused_with_an_example(said: str) -> None:
    with pytest.raises(UsageError, match=r"a quota cannot be read.*aws:us-east-1:H100=16"):
        parse_quota(said)


def test_shares_are_all_of_it_together() -> None:
    assert parse_shares(["aws=60%", "gcp=0.3", "azure=10%"]) == [("aws", 0.6), ("gcp", 0.3), ("azure", 0.1)]
    assert parse_shares(["aws=100%"]) == [("aws", 1.0)]


@pytest.mark.parametrize("said", [["aws=60%", "gcp=60%"], ["aws=60%"], ["aws=50%", "aws=50%"]])
def test_shares_that_are_not_all_of_it_are_refused_with_their_sum(said: list[str]) -> None:
    with pytest.raises(UsageError, match=r"not 100% together.*% together"):
        parse_shares(said)


@pytest.mark.parametrize("said", [["aws"], ["=60%"], ["aws="], ["aws=160%"], ["aws=lots"]])
def test_what_is_no_share_is_refused(said: list[str]) -> None:
    with pytest.raises(UsageError, match=r"cannot (be )?read"):
        parse_shares(said)


def test_words_of_a_mix_that_are_not_known_are_refused_by_their_options() -> None:
    with pytest.raises(UsageError, match=r"--share-of.*'money'.*cost or gpus"):
        MixRequest(share_of="money")
    with pytest.raises(UsageError, match=r"--route-by.*'answer'.*prompt or both"):
        MixRequest(route_by="answer")
