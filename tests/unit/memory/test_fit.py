"""The budget of a replica and its verdict."""

from dataclasses import fields, replace

import numpy as np
import pytest

from gpufleet.catalog.engine_eras import remembering
from gpufleet.catalog.engines import find_engine, load_engines
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.engine_start import EngineStart
from gpufleet.domain.layout import Layout
from gpufleet.domain.precision import BF16
from gpufleet.domain.precision_labels import weight_format
from gpufleet.memory.band import Band
from gpufleet.memory.fit import (
    Demand,
    budget_around,
    cached_bytes_per_sequence,
    held_bytes,
    kv_pool_bytes,
    memory_budget,
    memory_terms,
)
from gpufleet.memory.overhead import EngineMemory, batch_limits, driver_variation_bytes
from gpufleet.provenance import Sourced
from gpufleet.units import GIB


def engine_on(engine: str, gpu: str, memory_fraction: float | None = None) -> EngineMemory:
    profile = find_engine(engine).started_with(EngineStart(memory_fraction=memory_fraction))
    return EngineMemory.of(profile, load_catalog().accelerators[gpu])


def test_a_verdict_is_tight_when_only_the_high_end_breaks_it() -> None:
    arch, engine = shipped_architecture("llama-3.1-8b"), engine_on("vllm", "H100-SXM")
    contexts = np.arange(300_000.0, 520_000.0, 500.0)
    verdicts = memory_budget(arch, arch.weights, engine, Demand(2.0, contexts)).verdict.tolist()
    assert list(dict.fromkeys(verdicts)) == ["fits", "tight", "does not fit"]


def test_what_is_missing_is_the_difference_to_what_is_there() -> None:
    arch = shipped_architecture("llama-3.3-70b")
    engine = engine_on("vllm", "L40S")
    budget = memory_budget(arch, arch.weights, engine, Demand(2.0, 8192, tp=2))
    there = 0.95 * engine.device_bytes
    asked = budget.loaded_bytes.expected + budget.needed_kv_bytes
    asked += budget.activation_bytes.expected + budget.overhead_bytes.expected + budget.graph_bytes.expected
    assert float(budget.short_by_bytes) == pytest.approx(asked - there)


def test_the_fraction_is_raised_only_as_far_as_needed() -> None:
    arch, engine = shipped_architecture("gpt-oss-120b"), engine_on("vllm", "H100-SXM")
    short, long = (memory_budget(arch, arch.weights, engine, Demand(2.0, c)) for c in (1024.0, 131072.0))
    assert 0.90 < short.memory_fraction < long.memory_fraction < 0.95
    assert long.verdict == "tight"
    assert float(long.max_sequences.expected) == 1


def test_the_fraction_is_raised_until_the_pool_has_its_share_of_the_card() -> None:
    arch, engine = shipped_architecture("gpt-oss-120b"), engine_on("vllm", "H100-SXM")
    for share in (0.06, 0.07):
        budget = memory_budget(arch, arch.weights, replace(engine, raised_pool_ratio=share), Demand(2.0, 1024.0))
        assert budget.kv_pool_bytes.expected == pytest.approx(share * engine.device_bytes)
        assert engine.memory_fraction < budget.memory_fraction < engine.largest_memory_fraction


def test_a_stated_fraction_is_kept() -> None:
    arch = shipped_architecture("gpt-oss-120b")
    engine = engine_on("vllm", "H100-SXM", 0.90)
    assert memory_budget(arch, arch.weights, engine, Demand(2.0, 131072.0)).verdict == "does not fit"


def test_attention_data_parallel_groups_hold_their_own_sequences() -> None:
    arch, engine = shipped_architecture("deepseek-v3"), engine_on("sglang", "H200-SXM")
    tensor = memory_budget(arch, arch.weights, engine, Demand(2.0, 8192, tp=8))
    data = memory_budget(arch, arch.weights, engine, Demand(2.0, 8192, ep=8, attention_dp=8))
    assert data.max_sequences.expected > 4 * tensor.max_sequences.expected


def test_gathered_engines_equal_each_alone() -> None:
    engines, gpus = list(load_engines().values()), [load_catalog().accelerators[g] for g in ("L40S", "H100-SXM")]
    rows = [(e, g) for e in range(len(engines)) for g in range(2)]
    index = np.array(rows)
    arch = shipped_architecture("llama-3.1-8b")
    demand = Demand(2.0, 4096.0, tp=2, batch=4, prompt_tokens=1000)
    gathered = EngineMemory.gather(engines, gpus, index[:, 0], index[:, 1])
    together = memory_budget(arch, arch.weights, gathered, demand)
    for row, (e, g) in enumerate(rows):
        alone = memory_budget(arch, arch.weights, EngineMemory.of(engines[e], gpus[g]), demand)
        assert together.kv_pool_bytes.expected[row] == pytest.approx(float(alone.kv_pool_bytes.expected))
        assert together.verdict[row] == alone.verdict


@pytest.mark.parametrize(
    ("engine", "version"), [("vllm", "0.10.0"), ("vllm", "0.6.4"), ("transformers", None), ("llama.cpp", None)]
)
def test_what_a_layout_holds_serves_the_budget_of_any_context(engine: str, version: str | None) -> None:
    """What is counted once for many contexts is what each of them would count, whether steps depend on it or not."""
    arch, gpu = shipped_architecture("llama-3.1-8b"), load_catalog().accelerators["A100-SXM4-80GB"]
    profile = find_engine(engine) if version is None else remembering(find_engine(engine), version)
    rules = EngineMemory.of(profile, gpu)
    short, long = Demand(2.0, 1024.0, batch=4), Demand(2.0, 30_000.0, batch=4)
    shared = budget_around(arch, held_bytes(arch, arch.weights, rules, short), rules, long)
    alone = memory_budget(arch, arch.weights, rules, long)
    for part in ("activation_bytes", "kv_pool_bytes", "total_bytes"):
        assert getattr(shared, part).high == getattr(alone, part).high


def test_one_engine_on_one_gpu_may_be_gathered_too() -> None:
    engine, gpu = find_engine("vllm"), load_catalog().accelerators["L40S"]
    gathered = EngineMemory.gather([engine], [gpu], np.array([0]), np.array([0]))
    assert gathered.device_bytes == EngineMemory.of(engine, gpu).device_bytes
    assert gathered.loaded_ratio.high == EngineMemory.of(engine, gpu).loaded_ratio.high


def test_vllm_allows_fewer_sequences_on_small_cards() -> None:
    accelerators, vllm = load_catalog().accelerators, find_engine("vllm")
    assert batch_limits(vllm, accelerators["H100-SXM"]) == (1024, 8192)
    assert batch_limits(vllm, accelerators["L40S"]) == (256, 2048)
    assert batch_limits(vllm, accelerators["A100-SXM4-80GB"]) == (256, 2048)


def test_an_a100_counted_as_large_for_one_release_which_left_less_room_for_kv() -> None:
    """vLLM pull/17073 and, a month later, pull/17885."""
    vllm, a100 = find_engine("vllm"), load_catalog().accelerators["A100-SXM4-80GB"]
    limits = [batch_limits(remembering(vllm, version), a100) for version in ("0.8.4", "0.8.5.post1", "0.9.0")]
    assert limits == [(1024, 2048), (1024, 8192), (256, 2048)]


def test_an_engine_keeps_to_the_tokens_of_a_step_that_it_was_started_with_in_each_version() -> None:
    gpu = load_catalog().accelerators["L40S"]
    for version in ("0.7.3", "0.11.0"):
        started = remembering(find_engine("vllm"), version).started_with(EngineStart(max_step_tokens=4096))
        assert EngineMemory.of(started, gpu).prefill_budget_tokens == 4096


@pytest.mark.parametrize("engine", load_engines().values(), ids=lambda e: e.name)
def test_every_judgement_has_a_source_and_an_ordered_range(engine: object) -> None:
    figures = [getattr(engine, f.name) for f in fields(engine)]
    judged = [f for f in figures if isinstance(f, Sourced)] + list(engine.constants.values())
    for figure in judged:
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        assert figure.source
        assert low <= figure.value <= high


def test_static_batches_keep_logits_of_the_whole_prompt() -> None:
    arch, engine = shipped_architecture("qwen2-7b"), of_version("transformers", "4.38.2", "A100-SXM4-80GB")
    budget = memory_budget(arch, arch.weights, engine, Demand(2.0, 32768.0, batch=1, prompt_tokens=30720.0))
    assert float(budget.activation_bytes.expected) == pytest.approx(30720 * 152064 * 6)
    assert float(budget.total_bytes.expected) / GIB == pytest.approx(42.62, rel=0.02)


def test_transformers_keeps_the_last_logits_only_since_4_45() -> None:
    """Qwen speed_benchmark.rst@010c37c33b, transformers 4.46.0: 19.97 GB for 30,720 tokens of prompt."""
    arch, engine = shipped_architecture("qwen2.5-7b"), of_version("transformers", "4.46.0", "A100-SXM4-80GB")
    budget = memory_budget(arch, arch.weights, engine, Demand(2.0, 32768.0, batch=1, prompt_tokens=30720.0))
    assert float(budget.total_bytes.expected) / GIB == pytest.approx(19.97, rel=0.03)


def of_version(engine: str, version: str, gpu: str, memory_fraction: float | None = None) -> EngineMemory:
    profile = remembering(find_engine(engine), version).started_with(EngineStart(memory_fraction=memory_fraction))
    return EngineMemory.of(profile, load_catalog().accelerators[gpu])


def test_an_engine_that_does_not_chunk_pays_for_its_longest_prompt_and_a_chunking_one_does_not() -> None:
    """vllm-project/vllm issue 10517: 3.81 GiB of KV cache at a context of 20,000 tokens, 2.89 GiB at 29,000."""
    arch = shipped_architecture("llama-3.1-8b")
    pools = {
        version: [
            float(memory_budget(arch, arch.weights, engine, Demand(2.0, context)).kv_pool_bytes.expected) / GIB
            for context in (20_000.0, 29_000.0)
        ]
        for version in ("0.6.4", "0.10.0")
        for engine in (of_version("vllm", version, "RTX-3090", 0.9),)
    }
    assert pools["0.6.4"] == pytest.approx([3.81, 2.89], rel=0.05)
    assert pools["0.10.0"][0] == pytest.approx(pools["0.10.0"][1])


def test_a_context_that_is_chunked_needs_less_than_one_just_short_of_it() -> None:
    arch, engine = shipped_architecture("llama-3.1-8b"), of_version("vllm", "0.6.5", "A100-SXM4-80GB")
    whole, chunked = (
        float(memory_budget(arch, arch.weights, engine, Demand(2.0, context)).activation_bytes.expected)
        for context in (32_768.0, 32_784.0)
    )
    assert chunked < whole / 2


def test_a_newer_sampler_leaves_more_to_the_cache() -> None:
    """llm-d-planner, accuracy/accuracy_report.md@875a4fd609: Qwen3-14B on an H100 at 0.95 of its memory."""
    arch = shipped_architecture("qwen3-14b")
    for version, logged_gib in (("0.15.0", 41.94), ("0.17.0", 45.34), ("0.18.0", 45.23)):
        engine = of_version("vllm", version, "H100-SXM", 0.95)
        pool = memory_budget(arch, arch.weights, engine, Demand(2.0, 8192.0)).kv_pool_bytes
        assert float(pool.expected) / GIB == pytest.approx(logged_gib, rel=0.01)


def test_only_switches_with_multicast_cost_its_buffers() -> None:
    engines = {gpu: engine_on("vllm", gpu).communication_bytes.expected for gpu in load_catalog().accelerators}
    assert engines["H100-SXM"] == engines["B200"] > 4 * engines["A100-SXM4-80GB"]
    assert engines["A100-SXM4-80GB"] == engines["L40S"] == engines["H100-PCIe"] == engines["MI300X"]


def test_the_driver_keeps_some_of_a_card_and_amd_reports_what_there_is() -> None:
    for gpu, given_gib in (("RTX-3090", 23.58), ("RTX-4090", 23.55), ("H100-SXM", 79.2), ("RTX-A6000", 47.5)):
        assert float(engine_on("vllm", gpu).device_bytes) / GIB == pytest.approx(given_gib, abs=0.1)
    assert engine_on("vllm", "MI300X").device_bytes == load_catalog().accelerators["MI300X"].memory_bytes


def test_sglang_leaves_what_its_rule_for_the_card_says() -> None:
    """server_args.py on an H100: 512 + 1.5 x 8,192 + 2 x 256 MiB, and 128 MiB a GPU, of 81,559 MiB."""
    engine = engine_on("sglang", "H100-SXM")
    assert float(engine.memory_fraction - engine.fraction_per_device) == pytest.approx(0.835, abs=0.002)
    assert engine_on("sglang", "T4").memory_fraction < engine_on("sglang", "L4").memory_fraction


def test_a_fraction_stated_to_sglang_replaces_the_rule_for_the_card() -> None:
    engine = engine_on("sglang", "H200-SXM", 0.82)
    assert (engine.memory_fraction, engine.largest_memory_fraction, engine.fraction_per_device) == (0.82, 0.82, 0.0)


def test_a_fraction_stated_to_tensorrt_llm_is_of_what_is_free() -> None:
    """NVIDIA/TensorRT-LLM issue 6294: 52.51 GiB at a free fraction of 0.80 beside 8.46 GiB of weights."""
    arch = shipped_architecture("llama-3.1-8b")
    engine = engine_on("tensorrt-llm", "H100-SXM", 0.8)
    budget = memory_budget(arch, weight_format(arch, "fp8"), engine, Demand(1.0, 157.0))
    assert float(budget.kv_pool_bytes.expected) / GIB == pytest.approx(52.51, rel=0.02)


def test_an_engine_left_at_its_default_is_not_raised() -> None:
    arch, engine = shipped_architecture("gpt-oss-120b"), engine_on("vllm", "H100-SXM").at_its_default()
    budget = memory_budget(arch, arch.weights, engine, Demand(2.0, 131072.0))
    assert float(budget.memory_fraction) == pytest.approx(0.92)


def test_a_replica_has_the_product_of_its_parts() -> None:
    assert Demand(2.0, 8192, tp=2, pp=3, ep=6, attention_dp=5).num_devices == 30


def test_what_is_spare_is_the_pool_beyond_the_need_or_the_rest_of_the_card() -> None:
    arch, engine = shipped_architecture("llama-3.1-8b"), engine_on("vllm", "H100-SXM")
    budget = memory_budget(arch, arch.weights, engine, Demand(2.0, 8192.0, batch=16))
    pool, spare, total = budget.kv_pool_bytes, budget.spare_bytes, budget.total_bytes
    ends = [(spare.low, pool.low, total.high), (spare.expected, pool.expected, total.expected)]
    for left, end, used in [*ends, (spare.high, pool.high, total.low)]:
        assert left == min(end - budget.needed_kv_bytes, engine.device_bytes - used)
    assert spare.low < spare.expected < spare.high


def test_sglang_sets_aside_more_for_each_further_device() -> None:
    """Its rule takes bytes off the static fraction for every device of a replica."""
    engine = engine_on("sglang", "H100-SXM")
    taken = Band.exact(20 * GIB)
    nothing = Band.exact(0.0)
    one, eight = (kv_pool_bytes(engine, taken, nothing, 0.0, number).expected for number in (1, 8))
    assert engine.fraction_per_device > 0
    assert one - eight == pytest.approx(engine.free_fraction * 7 * engine.fraction_per_device * engine.device_bytes)


def test_what_the_driver_keeps_varies_around_what_is_taken_off() -> None:
    engine = engine_on("vllm", "H100-SXM")
    driver, variation = engine.driver_bytes, driver_variation_bytes(engine)
    assert driver.low < driver.expected < driver.high
    assert (variation.low, variation.expected, variation.high) == (
        driver.low - driver.expected,
        0.0,
        driver.high - driver.expected,
    )


def test_a_judgement_keeps_the_range_of_its_source_and_a_bare_figure_has_none() -> None:
    assert Band.of(Sourced(2.0, "GiB", "measured", 1.5, 3.0)) == Band(1.5, 2.0, 3.0)
    assert Band.of(Sourced(2.0, "GiB", "stated")) == Band(2.0, 2.0, 2.0)


def test_the_term_of_the_pool_says_how_large_the_card_is() -> None:
    """81,559 MiB less what the driver keeps."""
    arch, profile = shipped_architecture("llama-3.1-8b"), find_engine("vllm")
    engine, demand = engine_on("vllm", "H100-SXM"), Demand(2.0, 8192.0)
    terms = memory_terms(arch, arch.weights, BF16, profile, Layout(), memory_budget(arch, arch.weights, engine, demand))
    [pool] = [term for term in terms if term.name == "KV pool"]
    assert f"device {engine.device_bytes / GIB:.1f} GiB" in pool.inputs
    assert 78 < engine.device_bytes / GIB < 80


def kept_bytes(model: str, gpu: str, version: str | None, context: float, tp: int) -> float:
    """KV bytes of one sequence on one GPU, as a version of vLLM keeps them."""
    profile = remembering(find_engine("vllm"), version)
    engine = EngineMemory.of(profile, load_catalog().accelerators[gpu])
    return float(cached_bytes_per_sequence(shipped_architecture(model), engine, Demand(2.0, context, tp=tp)))


def test_heads_were_cached_before_vllm_knew_latents() -> None:
    """27 layers x 2 x 8 heads x 256 elements x 2 B; 27 x 576 x 2 B from 0.7.1 on: vllm issues/6156, pull/12528."""
    for version in ("0.5.2", "0.6.3", "0.7.0"):
        assert kept_bytes("deepseek-v2-lite", "L40", version, 1600, 2) == 1600 * 221_184
    assert kept_bytes("deepseek-v2-lite", "L40", "0.7.1", 1600, 2) == 1600 * 31_104
    assert kept_bytes("llama-3.1-8b", "L40", "0.6.3", 1600, 2) == kept_bytes("llama-3.1-8b", "L40", None, 1600, 2)


def test_windows_kept_the_whole_context_before_vllm_managed_several_kinds() -> None:
    """vllm issues/16118: 24.00 GiB on each of eight GPUs for 1,048,576 tokens of Llama 4, whose windows are 8,192."""
    then, now = (kept_bytes("llama-4-maverick-text", "H100-SXM", v, 1_048_576, 8) for v in ("0.8.3", None))
    assert then / GIB == pytest.approx(24.00)
    assert now < then / 3
    assert kept_bytes("mistral-7b-v0.1", "L4", "0.6.3", 32768, 1) == kept_bytes("mistral-7b-v0.1", "L4", None, 32768, 1)


def test_engines_of_both_ages_stand_in_one_budget() -> None:
    arch, accelerator = shipped_architecture("deepseek-v2-lite"), load_catalog().accelerators["L40"]
    profiles = [remembering(find_engine("vllm"), version) for version in ("0.6.3", None)]
    both = EngineMemory.gather(profiles, [accelerator], np.array([0, 1]), np.array([0, 0]))
    kept = cached_bytes_per_sequence(arch, both, Demand(2.0, 1600.0, tp=2))
    assert np.asarray(kept).tolist() == [1600 * 221_184, 1600 * 31_104]


def test_transformers_leaves_room_for_the_context_that_its_allocator_does_not_see() -> None:
    """A T4 of 15.0 GiB gave PyTorch 13.71 (oobabooga/textgen issues/171), an RTX 3090 of 24.0 gave vLLM's 23.2."""
    for gpu, given_gib in (("T4", 13.71), ("RTX-3090", 23.22)):
        engine = engine_on("transformers", gpu)
        assert engine.device_bytes / GIB == pytest.approx(given_gib, abs=0.4)


def test_the_low_end_of_a_pool_is_that_of_an_engine_that_takes_as_much_as_it_may() -> None:
    """And the high end that of one which takes as little; expected amounts alone decide the fraction."""
    engine, taken = engine_on("vllm", "H100-SXM"), Band(18 * GIB, 20 * GIB, 25 * GIB)
    nothing = Band.exact(0.0)
    pool = kv_pool_bytes(engine, taken, nothing, 0.0, 1)
    for end, used in ((pool.low, taken.high), (pool.high, taken.low)):
        assert end == pytest.approx(kv_pool_bytes(engine, Band.exact(used), nothing, 0.0, 1).expected)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
def test_the_ends_of_loaded_weights_are_those_of_engines_that_load_so_much(model: str) -> None:
    arch, engine = shipped_architecture(model), engine_on("vllm", "H100-SXM")
    loaded = held_bytes(arch, arch.weights, engine, Demand(2.0, 8192.0)).loaded_bytes
    ratio = engine.loaded_ratio
    for end, of_all in ((loaded.low, ratio.low), (loaded.high, ratio.high)):
        exact = replace(engine, loaded_ratio=Band.exact(of_all))
        alone = held_bytes(arch, arch.weights, exact, Demand(2.0, 8192.0)).loaded_bytes
        assert end == (alone.low if of_all == ratio.low else alone.high)
    assert ratio.low < ratio.expected < ratio.high
    assert loaded.low < loaded.expected < loaded.high


def test_a_pool_holds_the_sequences_that_it_was_made_for_and_not_one_more() -> None:
    """What a pool was summed up to is a little off in floating point: that costs no sequence, and brings none."""
    arch, engine = shipped_architecture("llama-3.1-8b"), engine_on("vllm", "H100-SXM")
    budget = memory_budget(arch, arch.weights, engine, Demand(2.0, 8192.0))
    numbers, sizes = np.arange(1.0, 400.0)[:, None], np.linspace(1e6, 3e9, 97)
    of_all_sizes = replace(budget, kv_bytes_per_sequence=sizes, startup_kv_bytes=sizes)
    assert (of_all_sizes.sequences_in(sizes * numbers * (1 - 1e-12)) == numbers).all()
    assert (of_all_sizes.sequences_in(sizes * (numbers - 1e-5)) == numbers - 1).all()


@pytest.mark.parametrize("engine", ["vllm", "sglang", "transformers"])
def test_the_terms_of_a_budget_add_up_to_what_a_sequence_and_all_beside_it_take(engine: str) -> None:
    arch, rules = shipped_architecture("llama-3.1-8b"), engine_on(engine, "H100-SXM")
    budget = memory_budget(arch, arch.weights, rules, Demand(2.0, 8192.0, batch=1))
    terms = memory_terms(arch, arch.weights, BF16, find_engine(engine), Layout(), budget)
    parts = [term.value for term in terms if term.name != "KV pool"]
    assert sum(parts) == pytest.approx(float(budget.total_bytes.expected))


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "transformers"])
def test_what_lies_on_a_card_beside_weights_is_taken_off_the_pool(engine: str) -> None:
    """A GiB more of context and libraries is a GiB less for KV, of which the engine takes its share."""
    arch, rules = shipped_architecture("llama-3.1-8b"), engine_on(engine, "H100-SXM").at_its_default()
    fuller = replace(rules, reserve_bytes=rules.reserve_bytes.plus(Band.exact(GIB)))
    pools = [memory_budget(arch, arch.weights, e, Demand(2.0, 8192.0)).kv_pool_bytes.expected for e in (rules, fuller)]
    assert pools[0] - pools[1] == pytest.approx(rules.free_fraction * GIB)
