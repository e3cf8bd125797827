"""Service-level objectives as people type them."""

from __future__ import annotations

import pytest

from gpufleet.errors import UsageError
from gpufleet.inputs.slo import parse_slo


def limits_of(text: str) -> dict[str, float]:
    return {limit.label: limit.limit_s for limit in parse_slo(text).limits}


def test_three_limits_hold_together() -> None:
    assert limits_of("ttft.p95<500ms,tpot.p95<40ms,latency.p95<12s") == {
        "ttft.p95": 0.5,
        "tpot.p95": 0.04,
        "latency.p95": 12,
    }


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ttft<500ms", {"ttft.p95": 0.5}),
        ("TTFT.P99 <= 1 s", {"ttft.p99": 1}),
        ("e2e.mean<1min", {"latency.mean": 60}),
        ("tpot.p50<=30ms , ttft.p50<1s", {"tpot.p50": 0.03, "ttft.p50": 1}),
    ],
)
def test_short_forms_mean_what_the_manual_says(text: str, limits: dict[str, float]) -> None:
    assert limits_of(text) == pytest.approx(limits)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected limits such as"),
        ("ttft", "expected limits such as"),
        ("ttft<", "expected limits such as"),
        ("ttft>500ms", "expected limits such as"),
        ("ttft<500ms,", "expected limits such as"),
        ("ttft=500ms", "expected limits such as"),
        ("ttft<500", "a number with unit such as '500ms'"),
        ("ttft<-500ms", "must be positive"),
        ("ttft<nanms", "cannot read a duration"),
        ("ttft<0ms", "must be positive"),
        ("tfft<500ms", "Did you mean ttft"),
        ("ttft.p59<500ms", "Did you mean"),
        ("ttft<1s,ttft.p95<2s", "limits ttft.p95 twice"),
        ("ttft<1s," * 1000, "too long"),
        ("ttft<1s<2s", "expected limits such as"),
    ],
)
def test_an_unreadable_slo_says_what_to_mend(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_slo(text)
    assert told in str(caught.value)
