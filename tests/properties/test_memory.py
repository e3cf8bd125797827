"""Laws of memory that hold whatever the numbers."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from gpufleet.catalog.engines import load_engines
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.memory.fit import Demand, memory_budget
from gpufleet.memory.overhead import EngineMemory
from gpufleet.memory.weights import weights_bytes_per_device

MODELS = ["llama-3.1-8b", "llama-3.3-70b", "deepseek-v3", "gpt-oss-20b", "gemma-3-12b-text", "mixtral-8x7b", "gpt2"]
models = st.sampled_from(MODELS).map(shipped_architecture)
engines = st.sampled_from(sorted(load_engines())).map(lambda name: load_engines()[name])
gpus = st.sampled_from(["T4", "L40S", "A100-SXM4-80GB", "H100-SXM", "B200", "MI300X"]).map(
    lambda name: load_catalog().accelerators[name]
)
powers = st.integers(0, 4).map(lambda n: 2**n)
contexts = st.floats(1, 2e6)


@given(models, engines, gpus, powers, powers, st.lists(contexts, min_size=2, max_size=20))
def test_longer_context_never_more_users(arch, engine, gpu, tp, pp, lengths) -> None:
    tokens = np.sort(np.array(lengths))
    budget = memory_budget(arch, arch.weights, EngineMemory.of(engine, gpu), Demand(2.0, tokens, tp=tp, pp=pp))
    for users in budget.max_sequences.ends().values():
        assert np.all(np.diff(users) <= 0)


@given(models, powers, powers, powers, st.integers(1, 16), st.integers(1, 64))
def test_tp_never_raises_the_weights_of_a_gpu(arch, pp, ep, attention_dp, tp, more) -> None:
    assume((tp * attention_dp) % ep == 0)
    assume(((tp + more) * attention_dp) % ep == 0)
    fewer, greater = weights_bytes_per_device(arch, arch.weights, np.array([tp, tp + more]), pp, ep, attention_dp)
    assert greater <= fewer


@given(models, engines, gpus, powers, contexts, st.integers(1, 2000), st.integers(1, 2000))
def test_more_batch_never_needs_less_memory(arch, engine, gpu, tp, context, batch, more) -> None:
    both = np.array([batch, batch + more], dtype=float)
    demand = Demand(2.0, context, tp=tp, batch=both)
    budget = memory_budget(arch, arch.weights, EngineMemory.of(engine, gpu), demand)
    for total in budget.total_bytes.ends().values():
        assert total[1] >= total[0]
    assert budget.fits[0] or not budget.fits[1]


@given(models, engines, gpus, powers, powers, contexts)
def test_a_range_is_in_order_and_a_verdict_agrees_with_it(arch, engine, gpu, tp, pp, context) -> None:
    budget = memory_budget(arch, arch.weights, EngineMemory.of(engine, gpu), Demand(2.0, context, tp=tp, pp=pp))
    for band in (budget.total_bytes, budget.kv_pool_bytes, budget.spare_bytes, budget.max_sequences):
        assert band.low <= band.expected <= band.high
    assert (budget.short_by_bytes > 0) != bool(budget.fits)
    if budget.fits:
        assert budget.max_sequences.expected >= 1


@given(models, powers, powers, st.integers(1, 8))
def test_pipeline_stages_together_hold_the_whole_model(arch, tp, pp, factor) -> None:
    whole = weights_bytes_per_device(arch, arch.weights, tp)
    stage = weights_bytes_per_device(arch, arch.weights, tp, pp)
    assert stage * pp >= whole * (1 - 1e-12)
