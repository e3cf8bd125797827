"""Prefill and decode on copies of their own, as users ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from gpufleet.api import estimate
from gpufleet.domain.token_counts import TokenCounts
from gpufleet.errors import DataMissing, Infeasible, OutOfMemory, UnknownName, UsageError
from gpufleet.inputs.gpu_request import PoolRequest
from gpufleet.report.estimate import estimate_page, estimate_rows_page
from gpufleet.report.text import page_as_text
from gpufleet.results.estimate import ServingEstimate


def ask(prefill: Any = "2x H100:4 TP4", decode: Any = "H200:8 TP8", **more: Any) -> ServingEstimate:
    load = {} if {"concurrency", "rate", "batch", "full_queue"} & set(more) else {"concurrency": 64}
    lengths = {"input_tokens": 4000, "output_tokens": 500}
    return estimate("llama-3.3-70b", prefill=prefill, decode=decode, **{**lengths, **load, **more})


def test_both_pools_stand_in_the_answer_with_what_they_carry() -> None:
    found = ask()
    assert found.pools is not None
    prefill, decode = found.pools.prefill, found.pools.decode
    assert (prefill.copies, prefill.gpu, prefill.num_gpus, prefill.layout) == (2, "H100-SXM", 4, "TP4")
    assert (decode.copies, decode.gpu, decode.num_gpus, decode.layout) == (1, "H200-SXM", 8, "TP8")
    assert found.num_gpus == 16
    assert found.pools.binds == "prefill"
    assert prefill.carried_requests_per_s.value < decode.carried_requests_per_s.value
    assert found.requests_per_s.value <= prefill.carried_requests_per_s.value * (1 + 1e-9)


def test_copies_that_match_carry_what_the_other_pool_does() -> None:
    pools = ask().pools
    assert pools is not None
    each = pools.prefill.carried_requests_per_s.value / pools.prefill.copies
    assert each * pools.matched_prefill >= pools.matched_decode * pools.decode.carried_requests_per_s.value
    matched = ask(f"{pools.prefill.needed_copies}x H100:4 TP4").pools
    assert matched is not None
    assert matched.binds == "decode"


def test_clients_over_the_answer_are_the_rate() -> None:
    found = ask()
    assert found.requests_per_s.value * found.latency_s.value == pytest.approx(64, rel=1e-6)
    assert sum(part.value for part in found.pools.first_token) == pytest.approx(found.ttft_s.value)


def test_ranges_hold_their_values() -> None:
    found = ask()
    for figure in (found.ttft_s, found.tpot_s, found.latency_s, found.pools.handover.seconds):
        assert figure.low < figure.value < figure.high


def test_arrivals_have_percentiles_and_refuse_more_than_the_pools_carry() -> None:
    found = ask(rate=2.0)
    assert [p.quantile for p in found.percentiles] == [0.5, 0.9, 0.95, 0.99]
    assert found.requests_per_s.value == found.requests_per_s.low == 2.0
    with pytest.raises(Infeasible, match=r"of what the prefill pool sustains; found '100 requests/s'"):
        ask(rate=100.0)
    with pytest.raises(Infeasible, match="of what the decode pool sustains"):
        ask("64x H100:4 TP4", "H100:4", rate=100.0)


def test_requests_that_are_alike_at_a_rate_wait_less() -> None:
    alike = ask(rate=4.0, input_tokens=TokenCounts(4000.0), output_tokens=TokenCounts(500.0))
    assert alike.ttft_s.value < ask(rate=4.0).ttft_s.value


def test_pools_in_one_machine_use_its_own_link_and_others_the_network() -> None:
    near, far = (ask(f"{n}x H100:2", "H100:4 TP4") for n in (2, 8))
    assert near.pools.handover.link == "in one machine, NVLink or the like at 450 GB/s"
    assert far.pools.handover.link == "between machines, 400 Gbit/s a GPU"
    assert near.pools.handover.seconds.value < far.pools.handover.seconds.value


def test_a_named_machine_brings_its_network() -> None:
    slow = ask("H100:8", "H100:8", instance="gcp:a3-highgpu-8g")
    assert slow.pools.handover.link == "between machines, 100 Gbit/s a GPU"
    assert slow.pools.handover.seconds.value > ask("H100:8", "H100:8").pools.handover.seconds.value
    with pytest.raises(UsageError, match=r"has the GPU of neither pool.*H100-SXM or H200-SXM"):
        ask(instance="g6e.12xlarge")


def test_keys_and_values_are_a_quarter_on_each_of_four_gpus() -> None:
    """80 layers x 8 heads x 128 x 2 x 2 bytes = 327,680 bytes a token."""
    assert ask().pools.handover.bytes_per_gpu == pytest.approx(327_680 * 4000 / 4)


def test_copies_started_for_fewer_sequences_hold_fewer() -> None:
    found = ask("16x H100:4 TP4", PoolRequest(1, "H200", 8, tp=8, max_batch=8))
    assert found.pools.decode.most_together == 8
    assert found.pools.binds == "decode"
    assert found.batch == pytest.approx(8)


def test_the_page_says_which_pool_binds_what_would_match_and_what_is_handed_over() -> None:
    page = page_as_text(estimate_page(ask()), 200)
    assert "Binding limit: the prefill pool, at 100% of what it carries." in page
    assert "6 prefill copies to 1 decode" in page
    assert "Hand-over of a prompt: 328 MB a GPU between machines" in page
    assert "what makes the TTFT" in page
    assert "TTFT" in page_as_text(estimate_rows_page(ask()), 200)


def test_an_answer_is_read_back_from_its_json() -> None:
    found = ask()
    assert ServingEstimate.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"prefill": "0x H100:4"}, UsageError, "cannot read the prefill pool"),
        ({"decode": "H200:0"}, UsageError, "cannot read the decode pool"),
        ({"decode": None}, UsageError, "prefill and decode come together; found 'prefill alone'"),
        ({"prefill": None}, UsageError, "prefill and decode come together; found 'decode alone'"),
        ({"gpus": "H100:8"}, UsageError, "GPUs and pools are two questions"),
        ({"tp": 4}, UsageError, "each pool states its own layout"),
        ({"explain": True}, UsageError, "only one copy is explained"),
        ({"batch": 8}, UsageError, "under clients or arrivals; found 'static batch'"),
        ({"full_queue": True}, UsageError, "under clients or arrivals; found 'full queue'"),
        ({"prefill": "H999:4"}, UnknownName, "prefill pool: unknown GPU 'H999'"),
        ({"decode": "2x H100:4 TP8"}, UsageError, "decode pool: the layout does not use the GPUs"),
        ({"decode": "H100:3 TP3"}, Infeasible, "decode pool: llama-3.3-70b cannot run as TP3"),
        ({"prefill": "L4:1"}, OutOfMemory, r"prefill pool: .*does not fit 1x L4.*GiB per GPU"),
        ({"decode": "2x L40S:1"}, OutOfMemory, r"decode pool: .*does not fit 1x L40S.*--gpus L40S:1"),
        ({"decode": "V100:8"}, Infeasible, "decode pool: "),
    ],
)
def test_what_cannot_be_answered_names_the_pool(asked: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ask(**asked)


def test_no_pools_and_no_gpus_are_asked_for() -> None:
    with pytest.raises(UsageError, match=r"the GPUs are missing; expected --gpus NAME:N, or --prefill and --decode"):
        estimate("llama-3.1-8b", input_tokens=1000, output_tokens=100, concurrency=4)


def test_a_format_without_kernels_names_the_pool() -> None:
    with pytest.raises((DataMissing, Infeasible), match="decode pool: "):
        ask("B200:4", "H100:4", precision="nvfp4", engine="tensorrt-llm")
