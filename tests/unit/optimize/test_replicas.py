"""Which replicas are worth looking at, and why the others are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.accelerator import pcie_bytes_per_s
from gpufleet.domain.candidates import Palette
from gpufleet.domain.fabric import Fabric
from gpufleet.domain.precision import FP8, FP16
from gpufleet.domain.precision_labels import kv_precision, weight_format
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.layout.feasible import refusal
from gpufleet.optimize import replicas as search
from gpufleet.optimize.links import usual_link
from gpufleet.optimize.replicas import (
    LINK_UNKNOWN,
    Choices,
    Rejections,
    describe,
    hosts,
    replicas,
    room,
    with_fp16_twins,
)
from gpufleet.performance.serving import Lengths
from gpufleet.report.words import sentence

CATALOG = load_catalog()
LLAMA, LLAMA_70B, QWEN = (shipped_architecture(n) for n in ("llama-3.1-8b", "llama-3.3-70b", "qwen3-30b-a3b"))
L40S_X4 = CATALOG.instances["aws", "g6e.12xlarge"]
H100_X8 = CATALOG.instances["aws", "p5.48xlarge"]
T4_X4 = CATALOG.instances["aws", "g4dn.12xlarge"]


def choices(arch, formats=None, kv=None) -> Choices:
    """The formats and their fp16 twins under vLLM, each with the KV format that the engine keeps, or with `kv`."""
    weights = with_fp16_twins(formats or [arch.weights], FP16)
    caches = [kv or kv_precision(w, find_engine("vllm")) for w in weights]
    distinct = tuple({p.name: p for p in caches}.values())
    palette = Palette(tuple(CATALOG.accelerators.values()), weights, distinct, (find_engine("vllm"),))
    return Choices(palette, (tuple(distinct.index(cache) for cache in caches),))


def labels(found) -> set[str]:
    return {describe(found, row) for row in range(len(found))}


def test_a_dense_model_on_four_gpus_is_cut_by_tp_and_pp() -> None:
    found = labels(replicas(LLAMA, choices(LLAMA), [L40S_X4], Rejections()))
    assert {"1x L40S TP1 bf16", "2x L40S TP2 bf16", "4x L40S TP4 bf16", "2x L40S TP1/PP2 bf16"} <= found
    assert not any("DP" in label or "EP" in label for label in found)


def test_an_engine_that_splits_by_layer_is_searched_by_stages_alone() -> None:
    asked = choices(LLAMA)
    by_layer = replace(asked, palette=replace(asked.palette, engines=(find_engine("llama.cpp"),)))
    found = labels(replicas(LLAMA, by_layer, [L40S_X4], Rejections()))
    layouts = ("1x L40S TP1", "2x L40S TP1/PP2", "4x L40S TP1/PP4")
    assert found == {f"{layout} {weights}" for layout in layouts for weights in ("bf16", "fp16")}


def test_a_mixture_may_spread_its_experts_and_repeat_its_attention() -> None:
    found = labels(replicas(QWEN, choices(QWEN), [H100_X8], Rejections()))
    assert {"8x H100-SXM TP4/DP2/EP8 bf16", "8x H100-SXM TP1/DP8/EP8 bf16", "4x H100-SXM TP4 bf16"} <= found


def test_no_replica_spans_more_gpus_than_a_machine_has() -> None:
    found = replicas(LLAMA, choices(LLAMA), [L40S_X4], Rejections())
    assert found.num_devices.max() == 4


def test_a_card_without_bf16_runs_the_fp16_twin_and_says_why_not_bf16() -> None:
    rejections = Rejections()
    found = labels(replicas(LLAMA, choices(LLAMA), [T4_X4], rejections))
    assert "4x T4 TP4 fp16" in found
    assert not any(label.endswith("bf16") for label in found)
    assert any("bf16" in sentence(nearest.reason) for _, nearest in rejections.rows())


def test_nvfp4_before_ampere_is_refused_with_its_reason() -> None:
    rejections = Rejections()
    found = replicas(LLAMA, choices(LLAMA, formats=[weight_format(LLAMA, "nvfp4")]), [T4_X4], rejections)
    assert len(found) == 0
    [nearest] = [x for _, x in rejections.rows() if x.subject.endswith(" in nvfp4")]
    assert nearest.subject == "T4 in nvfp4"
    assert nearest.reason.code == "device_refuses_weights"
    assert dict(nearest.reason.figures)["device"] == "Turing"


def test_a_kv_format_that_does_not_run_is_refused_with_its_reason() -> None:
    rejections = Rejections()
    found = replicas(LLAMA, choices(LLAMA, kv=FP8), [T4_X4], rejections)
    assert len(found) == 0
    assert "unsupported_kv_cache" in {nearest.reason.code for _, nearest in rejections.rows()}


def test_heads_that_do_not_divide_are_counted() -> None:
    rejections = Rejections()
    odd = shipped_architecture("gpt2")
    replicas(odd, choices(odd), [H100_X8], rejections)
    assert Reason.of("heads_not_divisible", heads=12, parts=8) in rejections.counts


def test_a_machine_with_an_unknown_link_hosts_single_gpus_only() -> None:
    unknown = replace(L40S_X4, fabric=Fabric("pcie", None))
    rejections = Rejections()
    found = replicas(LLAMA, choices(LLAMA), [unknown], rejections)
    assert set(found.num_devices.tolist()) == {1}
    assert LINK_UNKNOWN in rejections.counts


def test_machines_with_the_same_gpu_and_link_are_one_host() -> None:
    palette = choices(LLAMA).palette
    twin = replace(L40S_X4, cloud="another", name="twin")
    assert hosts(palette, [L40S_X4, twin], (1, 2, 4)) == hosts(palette, [L40S_X4], (1, 2, 4))
    narrow = replace(twin, fabric=Fabric("pcie", 8e9))
    assert len(hosts(palette, [L40S_X4, narrow], (1, 2, 4))) == 5


def test_rules_are_asked_once_of_a_layout_and_a_format_and_count_for_every_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(search, "refusal", lambda *words: asked.append(words) or refusal(*words))
    odd, rejections = shipped_architecture("gpt2"), Rejections()
    narrow = replace(H100_X8, cloud="another", fabric=Fabric("pcie", 8e9))
    replicas(odd, choices(odd), [H100_X8, narrow, L40S_X4], rejections)
    assert len(asked) == len({(layout, weights.name) for _, layout, weights in asked})
    one = Rejections()
    replicas(odd, choices(odd), [H100_X8], one)
    of_heads = Reason.of("heads_not_divisible", heads=12, parts=8)
    assert rejections.counts[of_heads] == 2 * one.counts[of_heads] > 0


def test_a_rejection_keeps_the_nearest_miss_and_the_commonest_reason_comes_first() -> None:
    found = Rejections()
    large, unsold = Reason("too_large"), Rejection(Reason("no_price"), "a machine")
    short = {missing: Rejection(large, f"short by {missing:g}", shortfall=missing) for missing in (9.0, 2.0, 5.0)}
    for rejection in (unsold, *short.values()):
        found.add(rejection)
    assert found.rows() == [(3, short[2.0]), (1, unsold)]


def test_more_gpus_hold_at_least_as_many_sequences() -> None:
    found = replicas(LLAMA_70B, choices(LLAMA_70B), [H100_X8], Rejections())
    space = room(LLAMA_70B, found, Lengths(1000.0, 300.0), 1300.0)
    by_tp = {int(tp): float(b) for tp, pp, b in zip(found.tp, found.pp, space.largest_batch, strict=True) if pp == 1}
    assert by_tp[1] == 0
    assert by_tp[2] <= by_tp[4] <= by_tp[8]


def test_groups_of_attention_admit_as_many_sequences_each() -> None:
    found = replicas(QWEN, choices(QWEN), [H100_X8], Rejections())
    space = room(QWEN, found, Lengths(100.0, 100.0), 200.0)
    limited = np.flatnonzero(space.limited_by_engine)
    assert len(limited)
    expected = find_engine("vllm").max_batch * found.attention_dp[limited]
    np.testing.assert_array_equal(space.largest_batch[limited], expected)


def test_twins_of_16_bit_formats_are_added_once() -> None:
    names = [w.name for w in with_fp16_twins([LLAMA.weights, weight_format(LLAMA, "int4")], FP16)]
    assert names == ["bf16", "int4", "fp16", "int4 over fp16"]
    assert [w.name for w in with_fp16_twins([weight_format(LLAMA, "fp16")], FP16)] == ["fp16"]


@pytest.mark.parametrize(("generation", "gigabytes_per_s"), [(3, 16), (4, 32), (5, 64), (None, 16)])
def test_a_full_slot_moves_what_its_generation_does(generation: int | None, gigabytes_per_s: float) -> None:
    """PCI-SIG: 16 lanes of 1, 2 and 4 GB/s in one direction, before encoding overhead."""
    assert pcie_bytes_per_s(generation) == gigabytes_per_s * 1e9


def test_a_bridge_joins_two_cards_and_a_switch_eight() -> None:
    bridged, switched = CATALOG.accelerators["H100-NVL"], CATALOG.accelerators["H100-SXM"]
    assert usual_link(bridged, 2) == (False, bridged.nvlink_bytes_per_s)
    assert usual_link(bridged, 4) == (True, 64e9)
    assert usual_link(switched, 8) == (False, 450e9)
    assert usual_link(CATALOG.accelerators["L40S"], 2) == (True, 32e9)
