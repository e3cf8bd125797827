"""The budget of a replica and its verdict."""

from dataclasses import fields

import numpy as np
import pytest

from gpufleet.catalog.engines import find_engine, load_engines
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.memory.fit import Demand, memory_budget
from gpufleet.memory.overhead import EngineMemory, batch_limits
from gpufleet.units import GIB


def engine_on(engine: str, gpu: str) -> EngineMemory:
    return EngineMemory.of(find_engine(engine), load_catalog().accelerators[gpu])


def test_a_verdict_is_tight_when_only_the_high_end_breaks_it() -> None:
    arch, engine = shipped_architecture("llama-3.1-8b"), engine_on("vllm", "H100-SXM")
    contexts = np.arange(300_000.0, 460_000.0, 500.0)
    verdicts = memory_budget(arch, arch.weights, engine, Demand(2.0, contexts)).verdict.tolist()
    assert list(dict.fromkeys(verdicts)) == ["fits", "tight", "does not fit"]


def test_what_is_missing_is_the_difference_to_what_is_there() -> None:
    arch = shipped_architecture("llama-3.3-70b")
    budget = memory_budget(arch, arch.weights, engine_on("vllm", "L40S"), Demand(2.0, 8192, tp=2))
    there = 0.95 * load_catalog().accelerators["L40S"].memory_bytes
    asked = budget.weights_bytes + budget.needed_kv_bytes
    asked += budget.activation_bytes.expected + budget.overhead_bytes.expected
    assert float(budget.short_by_bytes) == pytest.approx(asked - there)


def test_the_fraction_is_raised_only_as_far_as_needed() -> None:
    arch, engine = shipped_architecture("gpt-oss-120b"), engine_on("vllm", "H100-SXM")
    short, long = (memory_budget(arch, arch.weights, engine, Demand(2.0, c)) for c in (1024.0, 131072.0))
    assert 0.90 < short.memory_fraction < long.memory_fraction < 0.95
    assert long.verdict == "tight"
    assert float(long.max_sequences.expected) == 1


def test_a_stated_fraction_is_kept() -> None:
    arch = shipped_architecture("gpt-oss-120b")
    engine = engine_on("vllm", "H100-SXM").with_fraction(0.90)
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


def test_vllm_allows_fewer_sequences_on_small_cards() -> None:
    accelerators, vllm = load_catalog().accelerators, find_engine("vllm")
    assert batch_limits(vllm, accelerators["H100-SXM"]) == (1024, 8192)
    assert batch_limits(vllm, accelerators["L40S"]) == (256, 2048)
    assert batch_limits(vllm, accelerators["A100-SXM4-80GB"]) == (256, 2048)


@pytest.mark.parametrize("engine", load_engines().values(), ids=lambda e: e.name)
def test_every_judgement_has_a_source_and_an_ordered_range(engine: object) -> None:
    figures = [getattr(engine, f.name) for f in fields(engine)]
    judged = [f for f in figures if hasattr(f, "source")] + list(engine.constants.values())
    for figure in judged:
        low = figure.value if figure.low is None else figure.low
        high = figure.value if figure.high is None else figure.high
        assert figure.source
        assert low <= figure.value <= high


def test_static_batches_keep_logits_of_the_whole_prompt() -> None:
    arch, engine = shipped_architecture("qwen2-7b"), engine_on("transformers", "A100-SXM4-80GB")
    budget = memory_budget(arch, arch.weights, engine, Demand(2.0, 32768.0, batch=1, prompt_tokens=30720.0))
    assert float(budget.activation_bytes.expected) == pytest.approx(30720 * 152064 * 6)
    assert float(budget.total_bytes.expected) / GIB == pytest.approx(42.62, rel=0.02)
