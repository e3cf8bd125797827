"""CUDA graphs, and what else an engine takes after its KV pool is sized."""

import pytest

from gpufleet.catalog.engine_eras import remembering
from gpufleet.catalog.engines import find_engine
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.engine_start import EngineStart
from gpufleet.memory.fit import Demand, MemoryBudget, memory_budget
from gpufleet.memory.graphs import captured_graphs, graph_bytes_per_device, graph_sizes
from gpufleet.memory.overhead import EngineMemory
from gpufleet.units import GIB, MIB


def rules(
    engine: str, gpu: str, version: str | None = None, fraction: float | None = None, max_batch: int | None = None
) -> EngineMemory:
    profile = remembering(find_engine(engine), version).started_with(
        EngineStart(max_batch=max_batch, memory_fraction=fraction)
    )
    return EngineMemory.of(profile, load_catalog().accelerators[gpu])


def graphs_gib(model: str, engine: EngineMemory, tp: int = 1, attention_dp: int = 1) -> float:
    return float(graph_bytes_per_device(engine, shipped_architecture(model), tp, 1, attention_dp).expected) / GIB


def budget(engine: EngineMemory, model: str = "qwen3-30b-a3b", tp: int = 4, attention_dp: int = 1) -> MemoryBudget:
    arch = shipped_architecture(model)
    return memory_budget(arch, arch.weights, engine, Demand(2.0, 8192.0, tp=tp, attention_dp=attention_dp))


@pytest.mark.parametrize(("largest", "sizes"), [(0, 0), (1, 1), (2, 2), (4, 3), (8, 4), (256, 35), (512, 67)])
def test_graphs_are_captured_for_a_few_small_sizes_and_every_eighth(largest: float, sizes: int) -> None:
    assert float(graph_sizes(largest, 8.0)) == sizes


@pytest.mark.parametrize(("version", "graphs"), [("0.2.5", 0), ("0.7.3", 35), ("0.8.5", 67), ("0.11.0", 67 + 35)])
def test_each_version_captures_the_graphs_that_it_logged(version: str, graphs: int) -> None:
    assert float(captured_graphs(rules("vllm", "RTX-4090", version))) == graphs


def test_an_engine_started_for_few_sequences_captures_few_graphs() -> None:
    few, many = (captured_graphs(rules("vllm", "RTX-4090", "0.11.0", max_batch=n)) for n in (8, None))
    assert float(few) == (3 + 2) + (3 + 1)
    assert float(few) < float(many) / 10


@pytest.mark.parametrize(
    ("model", "gpu", "tp", "version", "logged_gib"),
    [
        ("qwen3-30b-a3b", "RTX-4090", 4, "0.11.0", 1.88),  # vllm issues/27782
        ("qwen2.5-7b", "H100-SXM", 1, "0.8.2", 0.63),  # QwenLM/Qwen3-VL issues/1057, its language model
        ("llama-4-maverick-text", "H100-SXM", 8, "0.9.2", 1.40),  # sgl-project/sglang issues/8538
    ],
)
def test_graph_memory_that_vllm_logged(model: str, gpu: str, tp: int, version: str, logged_gib: float) -> None:
    assert graphs_gib(model, rules("vllm", gpu, version), tp) == pytest.approx(logged_gib, rel=0.25)


def test_nccl_reductions_in_graphs_cost_only_where_no_link_joins_the_gpus() -> None:
    """Custom kernels reduce on two PCIe cards and over NVLink: vllm pull/2192, custom_all_reduce.py."""
    on_pcie, on_nvlink = rules("vllm", "L4", "0.5.4"), rules("vllm", "A100-SXM4-80GB", "0.5.4")
    one, two, eight = (graphs_gib("gemma-2-9b", on_pcie, tp) for tp in (1, 2, 8))
    assert one == two
    assert eight - one == pytest.approx(35 * 2 * 42 * 435000 / GIB)
    assert graphs_gib("gemma-2-9b", on_nvlink, 8) == graphs_gib("gemma-2-9b", on_nvlink)


def test_a_model_that_ran_on_eight_pcie_cards_of_24_gb_fits_them_with_its_graphs() -> None:
    """AccelMark 5797fc42, 8 x RTX 4090: Llama-3-70B in vLLM 0.7.3 with graphs, driver 565, utilization of 0.9.

    NCCL puts less into a graph from CUDA 12.4 on, vllm issues/5517; 1.43 GiB on A30, issues/11452.
    """
    ran = rules("vllm", "RTX-4090", "0.7.3", fraction=0.9, max_batch=256)
    assert graphs_gib("llama-3-70b", ran, 8) == pytest.approx(1.43, rel=0.05)
    assert budget(ran, "llama-3-70b", 8).fits
    assert graphs_gib("llama-3-70b", rules("vllm", "RTX-4090", "0.5.4"), 8) > 3


def test_attention_dp_in_sglang_pads_graphs_for_every_group() -> None:
    """server_args.py: 3 MiB for each sequence of the largest graph and each group, 4.5 above 300 sequences."""
    for gpu, batch, mib in (("B200", 512, 4.5), ("H100-SXM", 256, 3.0)):
        engine = rules("sglang", gpu)
        added = graphs_gib("glm-5-fp8", engine, attention_dp=8) - graphs_gib("glm-5-fp8", engine, tp=8)
        assert added == pytest.approx(batch * 8 * mib * MIB / GIB)


def test_a_stated_fraction_must_leave_room_for_what_comes_after_the_pool() -> None:
    """vllm issues/27782: 0.9 of 23.5 GiB leaves 2.35, graphs took 1.88, and the sampler's warm-up then failed."""
    kept, lower = (budget(rules("vllm", "RTX-4090", "0.11.0", fraction)) for fraction in (0.9, 0.88))
    assert not kept.fits
    assert kept.lacks_room_beside
    assert float(kept.left_beside_bytes.expected) < 0 < float(kept.kv_pool_bytes.expected - kept.needed_kv_bytes)
    assert lower.fits


def test_a_fraction_that_nobody_stated_gives_way() -> None:
    found = budget(rules("vllm", "RTX-4090", "0.11.0"))
    beside = found.device_bytes * (1 - found.memory_fraction)
    assert found.fits
    assert float(found.memory_fraction) < 0.9
    assert float(beside) == pytest.approx(float(found.after_pool_bytes.expected))


def test_graphs_inside_the_fraction_leave_it_alone() -> None:
    """vLLM counts graphs before it sizes the pool since 0.21: pull/38284."""
    assert float(budget(rules("vllm", "RTX-4090")).memory_fraction) == pytest.approx(0.92)


@pytest.mark.parametrize(("fraction", "fits"), [(0.9, False), (0.85, True)])
def test_attention_dp_of_glm_5_on_b200_fails_at_nine_tenths(fraction: float, fits: bool) -> None:
    """sgl-project/sglang pull/25453: TP8 runs at 0.9, attention DP of 8 dies in graph capture and runs at 0.85."""
    engine = rules("sglang", "B200", fraction=fraction)
    assert budget(engine, "glm-5-fp8", tp=8).fits
    assert bool(budget(engine, "glm-5-fp8", tp=1, attention_dp=8).fits) is fits


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "transformers"])
def test_other_engines_keep_their_default_pool(engine: str) -> None:
    """SGLang sizes its fraction by what comes after, TensorRT-LLM by what is free, transformers takes nothing after."""
    found = budget(rules(engine, "L4"), "llama-3.1-8b", tp=2)
    at_default = budget(rules(engine, "L4").at_its_default(), "llama-3.1-8b", tp=2)
    assert float(found.kv_pool_bytes.expected) >= float(at_default.kv_pool_bytes.expected)
    assert found.verdict == at_default.verdict
