"""Seconds of single operators on accelerators that were measured."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tools.calibrate.neighbours import MOST_FACTOR, MOST_RATIO, outliers

from gpufleet.api import estimate
from gpufleet.catalog.calibration import (
    DATA,
    OPERATORS,
    lending_spreads,
    load_calibration,
    load_formulas,
    loan_for,
    read_tables,
    set_aside,
)
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.table_files import SHIPPED
from gpufleet.catalog.table_rows import sources_in
from gpufleet.domain.calibration import (
    EVERY_ENGINE,
    MIXER_OPERATORS,
    AttentionCurves,
    Axis,
    Calibration,
    CollectiveCurves,
    GemmCurves,
    Grids,
    engine_index,
    general_index,
)
from gpufleet.errors import UnknownName
from gpufleet.performance.attention import attention_decode_s, attention_prefill_s, causal_pairs
from gpufleet.performance.collectives import all_gather_s, all_reduce_s, all_to_all_s, reduce_scatter_s
from gpufleet.performance.gemm import gemm_roofline_s, gemm_rows, gemm_s
from gpufleet.performance.interpolation import interpolate
from gpufleet.performance.latent_attention import absorb_s, latent_core_s, latent_prefill_s
from gpufleet.performance.moe import active_experts, busiest_rank, experts_s
from gpufleet.provenance import Grade
from gpufleet.units import GB, GIGA, MIB, MICROSECOND

NAMES = ("H100-SXM", "B200", "A100-SXM4-80GB", "L40S", "T4", "H100-NVL", "MI300X", "RTX-PRO-6000-Server", "GB200")

HELD_BACK = Path(__file__).parents[3] / "measurements" / "left_out" / "kernels.csv"
FITS = list(csv.DictReader(HELD_BACK.read_text(encoding="utf-8").splitlines()))


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    accelerators = load_catalog().accelerators
    return load_calibration([accelerators[name] for name in NAMES])


def index(name: str) -> np.ndarray:
    return np.array([NAMES.index(name)])


def gemm_on(calibration: Calibration, name: str, precision: str) -> GemmCurves:
    return calibration.gemm(index(name), [precision], np.array([0]))


def attention_on(calibration: Calibration, name: str, precision: str = "bf16") -> AttentionCurves:
    return calibration.attention(index(name), [precision], np.array([0]))


def link_of(calibration: Calibration, name: str, gigabytes: float, pcie: bool = False) -> CollectiveCurves:
    return calibration.collectives(index(name), np.array([pcie]), np.array([gigabytes * GIGA]))


@pytest.mark.parametrize(
    ("name", "precision", "shape", "low_us", "high_us"),
    [
        ("H100-SXM", "bf16", (4096, 8192, 8192), 640, 740),  # 0.74-0.86 of 989 TFLOP/s
        ("H100-SXM", "bf16", (1, 8192, 8192), 43, 52),  # 128 MiB of weights at 0.77-0.93 of 3.35 TB/s
        ("H100-SXM", "fp8", (1, 8192, 8192), 21, 30),
        ("A100-SXM4-80GB", "bf16", (4096, 8192, 8192), 1900, 2300),
        ("A100-SXM4-80GB", "int4", (1, 8192, 8192), 30, 50),
        ("L40S", "bf16", (1, 8192, 8192), 160, 200),
    ],
)
def test_a_product_takes_the_time_of_the_best_measured_kernel(
    calibration: Calibration, name: str, precision: str, shape: tuple[int, int, int], low_us: float, high_us: float
) -> None:
    """Bounds around the timings of aiconfigurator-core 0.12.0 (cuBLAS, CUTLASS, DeepGEMM kernels)."""
    seconds = float(gemm_s(gemm_on(calibration, name, precision), *shape)[0])
    assert low_us <= seconds / MICROSECOND <= high_us


def test_arithmetic_that_a_gpu_lacks_takes_forever(calibration: Calibration) -> None:
    assert np.isinf(gemm_s(gemm_on(calibration, "T4", "tf32"), 16, 4096, 4096)[0])
    assert np.isinf(gemm_s(gemm_on(calibration, "T4", "bf16"), 16, 4096, 4096)[0])


def test_fp8_weights_are_widened_on_a_gpu_without_fp8_arithmetic(calibration: Calibration) -> None:
    """Like 8-bit integer weights with 16-bit activations, and known no better than a borrowed curve."""
    fp8, integer = (gemm_on(calibration, "A100-SXM4-80GB", name) for name in ("fp8", "int8_wo"))
    assert gemm_s(fp8, 16, 4096, 4096) == gemm_s(integer, 16, 4096, 4096)
    assert fp8.activation_bytes_per_element == 2.0
    assert (Grade(int(fp8.grade[0])), Grade(int(integer.grade[0]))) == (Grade.TRANSFERRED, Grade.MEASURED)
    assert gemm_on(calibration, "H100-SXM", "fp8").activation_bytes_per_element == 1.0


@pytest.mark.parametrize(
    ("gpu", "stored", "like"), [("A100-SXM4-80GB", "fp8_block", "int8_wo"), ("H100-SXM", "nvfp4", "int4")]
)
def test_weights_in_blocks_are_widened_like_integers_of_as_many_bits(
    calibration: Calibration, gpu: str, stored: str, like: str
) -> None:
    """One sequence waits for the weights, whose scales differ by a few percent; a prompt for 16-bit arithmetic."""
    blocks, integer = (gemm_on(calibration, gpu, name) for name in (stored, like))
    for tokens in (1, 4096):
        assert gemm_s(blocks, tokens, 8192, 8192) == pytest.approx(gemm_s(integer, tokens, 8192, 8192), rel=0.1)
    assert blocks.activation_bytes_per_element == 2.0
    assert Grade(int(blocks.grade[0])) is Grade.TRANSFERRED
    assert blocks.high_ratio[0] >= integer.high_ratio[0]


def test_an_fp8_cache_is_read_no_faster_where_it_is_widened(calibration: Calibration) -> None:
    """vllm pull/49077: on A100 answers come 2 to 23 % slower with an fp8 cache; on H100 it halves what is read."""
    read = {
        (gpu, name): float(calibration.attention(index(gpu), [name], np.array([0])).decode.bytes_per_element[0])
        for gpu in ("A100-SXM4-80GB", "H100-SXM")
        for name in ("bf16", "fp8")
    }
    assert read["A100-SXM4-80GB", "fp8"] == read["A100-SXM4-80GB", "bf16"] == 2.0
    assert read["H100-SXM", "fp8"] == 1.0


def test_a_gpu_without_bf16_runs_fp16_and_weight_only_formats(calibration: Calibration) -> None:
    assert np.isfinite(gemm_s(gemm_on(calibration, "T4", "fp16"), 16, 4096, 4096)[0])
    assert np.isfinite(gemm_s(gemm_on(calibration, "T4", "int4"), 16, 4096, 4096)[0])


def test_four_bit_weights_pay_off_at_batch_one_and_hardly_in_prefill(calibration: Calibration) -> None:
    wide, narrow = (gemm_on(calibration, "A100-SXM4-80GB", p) for p in ("bf16", "int4"))
    assert gemm_s(narrow, 1, 8192, 8192)[0] < 0.5 * gemm_s(wide, 1, 8192, 8192)[0]
    assert gemm_s(narrow, 4096, 8192, 8192)[0] > 0.9 * gemm_s(wide, 4096, 8192, 8192)[0]


def test_grades_say_whose_kernels_were_measured(calibration: Calibration) -> None:
    grades = {name: Grade(int(gemm_on(calibration, name, "fp16").grade[0])) for name in NAMES}
    assert grades["H100-SXM"] is Grade.MEASURED
    assert grades["GB200"] is Grade.MEASURED
    assert grades["H100-NVL"] is Grade.TRANSFERRED
    assert grades["MI300X"] is Grade.ROOFLINE


def test_ranges_widen_from_measured_to_lent_to_foreign(calibration: Calibration) -> None:
    widths = [
        float(curves.high_ratio[0] / curves.low_ratio[0])
        for curves in (gemm_on(calibration, name, "bf16") for name in ("H100-SXM", "H100-NVL", "MI300X"))
    ]
    assert widths == sorted(widths)
    assert widths[0] < 1.2 < widths[1] < 1.5 < 2.5 < widths[2]


def test_an_unknown_precision_names_the_nearest(calibration: Calibration) -> None:
    with pytest.raises(UnknownName, match="nvfp4"):
        gemm_on(calibration, "H100-SXM", "nvfp")


def test_decode_attention_streams_a_large_cache_near_bandwidth(calibration: Calibration) -> None:
    """kernel_efficiency: .844 of HBM at the median on H100 with bf16 KV over 256 MB, p95 .927."""
    seconds = attention_decode_s(attention_on(calibration, "H100-SXM"), 64, 32, 8, 128, 8192)[0]
    cache_bytes = 2 * 64 * 8 * 128 * 8192 * 2
    assert 0.8 < cache_bytes / seconds / (3350 * GB) < 0.95


def test_decode_attention_of_one_short_sequence_is_a_launch(calibration: Calibration) -> None:
    assert 4e-6 < attention_decode_s(attention_on(calibration, "H100-SXM"), 1, 8, 1, 128, 128)[0] < 20e-6


def test_a_fraction_of_a_head_is_no_cheaper_than_nothing(calibration: Calibration) -> None:
    seconds = attention_decode_s(attention_on(calibration, "H100-SXM"), 4, 0.125, 0.125, 128, 1000)
    assert 0 < seconds[0] < 50e-6


def test_long_prompts_reach_the_published_share_of_peak(calibration: Calibration) -> None:
    """FlashAttention-3 reports up to 75 % of 989 TFLOP/s (Shah et al. 2024); causal, engine kernels: 55-75 %."""
    seconds = attention_prefill_s(attention_on(calibration, "H100-SXM"), 1, 16384, 16384, 32, 8, 128)[0]
    flop = 4 * 32 * 128 * 16384 * 16385 / 2
    assert 0.55 < flop / seconds / 989.4e12 < 0.78


def test_a_window_bounds_the_pairs_of_a_prompt(calibration: Calibration) -> None:
    assert causal_pairs(10, 10, 3) == 3 + 3 * 7 + 3  # 1 + 2 + 3, then 3 for each of seven
    full = attention_prefill_s(attention_on(calibration, "B200"), 1, 16384, 16384, 64, 8, 128)[0]
    windowed = attention_prefill_s(attention_on(calibration, "B200"), 1, 16384, 16384, 64, 8, 128, 1024)[0]
    assert windowed < full / 4


def test_a_cached_prefix_costs_less_than_the_whole_prompt_and_more_than_none(calibration: Calibration) -> None:
    curves = attention_on(calibration, "H100-SXM")
    chunk, with_prefix, whole = (
        attention_prefill_s(curves, 1, queries, context, 32, 8, 128)[0]
        for queries, context in ((2048, 2048), (2048, 8192), (8192, 8192))
    )
    assert chunk < with_prefix < whole


def test_latent_decode_reads_one_compressed_cache_for_all_heads(calibration: Calibration) -> None:
    curves = calibration.latent_attention(index("H100-SXM"), ["bf16"], np.array([0]))
    seconds = (latent_core_s(curves, 64, 16, 8192) + absorb_s(curves, 64, 16))[0]
    assert 180e-6 < seconds < 260e-6  # 604 MB of cache at 3.35 TB/s takes 180 us
    assert latent_prefill_s(curves, 1, 8192.0, 16)[0] > latent_prefill_s(curves, 1, 2048.0, 16)[0]


EVEN = 1e9


def test_sixteen_tokens_wake_two_fifths_of_256_experts_that_are_alike() -> None:
    assert active_experts(16, 256, 8, EVEN) == pytest.approx(256 * (1 - (1 - 8 / 256) ** 16), rel=0.02)
    assert active_experts(1, 8, 8, EVEN) == pytest.approx(8)


@pytest.mark.parametrize("popularity_shape", [0.3, 0.5, 1.0, EVEN])
def test_one_token_wakes_as_many_experts_as_it_chooses_and_endless_ones_all(popularity_shape: float) -> None:
    assert active_experts(1, 128, 4, popularity_shape) == pytest.approx(4)
    assert active_experts(1e12, 128, 4, popularity_shape) == pytest.approx(128, rel=1e-3)


def test_experts_drawn_from_a_gamma_distribution_are_missed_as_often_as_the_formula_says() -> None:
    """4,000 draws of 128 popularities w: 63 tokens after the first miss an expert with exp(-63 x 4 w / 128)."""
    popularity = np.random.default_rng(0).gamma(0.5, 1 / 0.5, size=(4000, 128))
    missed = np.exp(-63 * 4 / 128 * popularity).mean()
    assert active_experts(64, 128, 4, 0.5) == pytest.approx(128 - 124 * missed, rel=0.01)


def experts_of(curves, tokens, shape=(128, 8, 4096, 1536), ep=1.0, gated=True):
    """Seconds of routed experts that are alike."""
    num_experts, top_k, hidden, width = shape
    load = busiest_rank(tokens, num_experts, top_k, ep, EVEN)
    return experts_s(curves, load, hidden, width, ep, 1.0, gated)


def test_experts_at_small_batch_cost_the_weights_that_they_touch(calibration: Calibration) -> None:
    curves = calibration.experts(index("H100-SXM"), ["bf16"], np.array([0]))
    few, many = (experts_of(curves, tokens)[0] for tokens in (1.0, 64.0))
    touched_bytes = 126 * 3 * 4096 * 1536 * 2
    assert 5 < many / few < 16
    assert touched_bytes / many / (3350 * GB) > 0.6


def test_two_products_per_expert_cost_less_than_three(calibration: Calibration) -> None:
    curves = calibration.experts(index("B200"), ["bf16"], np.array([0]))
    gated, plain = (experts_of(curves, 256.0, gated=gated)[0] for gated in (True, False))
    assert plain < gated


def test_all_reduce_on_one_gpu_is_free_and_on_more_is_not(calibration: Calibration) -> None:
    curves = link_of(calibration, "H100-SXM", 450)
    assert all_reduce_s(curves, MIB, np.array([1]))[0] == 0
    assert all_reduce_s(curves, MIB, np.array([8]))[0] > all_reduce_s(curves, MIB, np.array([2]))[0] > 2e-6


@pytest.mark.parametrize(("ranks", "low_gb_per_s", "high_gb_per_s"), [(2, 290, 330), (4, 220, 250), (8, 235, 280)])
def test_large_all_reduce_reaches_the_measured_rate(
    calibration: Calibration, ranks: int, low_gb_per_s: float, high_gb_per_s: float
) -> None:
    """512 MiB over NVLink of H100: 318, 233 and 254 GB/s at 2, 4 and 8 GPUs (NCCL 2.29.2)."""
    size_bytes = 512 * MIB
    seconds = all_reduce_s(link_of(calibration, "H100-SXM", 450), size_bytes, np.array([ranks]))[0]
    assert low_gb_per_s < size_bytes / seconds / GB < high_gb_per_s


def test_pcie_is_an_order_slower_than_nvlink(calibration: Calibration) -> None:
    size_bytes, ranks = 16 * MIB, np.array([4])
    nvlink = all_reduce_s(link_of(calibration, "H100-SXM", 450), size_bytes, ranks)[0]
    pcie = all_reduce_s(link_of(calibration, "L40S", 32, pcie=True), size_bytes, ranks)[0]
    assert pcie > 8 * nvlink


def test_half_the_link_width_costs_almost_twice_the_time_for_large_tensors(calibration: Calibration) -> None:
    wide, narrow = (
        all_reduce_s(link_of(calibration, "L40S", width, pcie=True), 256 * MIB, np.array([4]))[0] for width in (32, 16)
    )
    assert narrow / wide == pytest.approx(2, rel=0.01)


def test_gathering_and_scattering_are_half_of_an_all_reduce(calibration: Calibration) -> None:
    curves, size_bytes, ranks = link_of(calibration, "B200", 900), 256 * MIB, np.array([8])
    both = all_gather_s(curves, size_bytes, ranks)[0] + reduce_scatter_s(curves, size_bytes, ranks)[0]
    assert both == pytest.approx(all_reduce_s(curves, size_bytes, ranks)[0], rel=0.5)
    assert all_to_all_s(curves, size_bytes, ranks)[0] < both


def test_no_product_beats_the_roofline_even_far_outside_the_grid(calibration: Calibration) -> None:
    for name in NAMES:
        curves = gemm_on(calibration, name, "fp16")
        for shape in ((1, 1, 1), (1, 2**20, 2**16), (2**20, 128, 128), (65536, 65536, 65536)):
            assert gemm_s(curves, *shape)[0] >= gemm_roofline_s(curves, *shape)[0]


@pytest.mark.parametrize("precision", ["bf16", "fp8_block", "nvfp4"])
def test_the_roofline_of_a_product_by_rows_is_that_of_the_whole_product(
    calibration: Calibration, precision: str
) -> None:
    curves, rows = gemm_on(calibration, "B200", precision), 2.0 ** np.arange(15)
    for n, k in ((128, 64), (7168, 2048), (65536, 8192)):
        by_rows = gemm_rows(curves, n, k).seconds(rows)
        np.testing.assert_allclose(by_rows, gemm_roofline_s(curves, rows, n, k), rtol=1e-14)


def test_interpolation_meets_the_knots_and_is_linear_between() -> None:
    grids = Grids((Axis("a", 0, 1, 3), Axis("b", 4, 2, 2)), np.array([[[0, 1], [2, 3], [4, 9.0]]]), 0.0)
    none, one = np.zeros(1), np.ones(1)
    host = load_formulas().host_exchange
    curves = CollectiveCurves(grids, np.array([0]), one, none.astype(np.int64), one, one, none > 0, host)

    def at(a: float, b: float) -> float:
        return float(interpolate(curves, (np.array(a), np.array(b)))[0])

    assert [at(0, 4), at(1, 6), at(2, 6)] == [0, 3, 9]
    assert at(0.5, 5) == pytest.approx((0 + 1 + 2 + 3) / 4)
    assert at(-7, 99) == 1
    assert at(99, -99) == 4


def test_a_grid_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="knots"):
        Grids((Axis("a", 0, 1, 3),), np.zeros((1, 4)), 0.0)


@pytest.mark.slow
def test_every_grid_says_where_it_comes_from_and_how_well_it_holds() -> None:
    described = {(row["operator"], row["accelerator"], row["key"], row["engine"]): row for row in FITS}
    shipped = {
        (operator, owner, key.split(" ")[-1], engine)
        for operator in (*OPERATORS, *MIXER_OPERATORS, "collectives")
        for owner, key, engine in read_tables(operator).rows
    }
    assert shipped == set(described)
    assert all(int(row["points"]) >= 30 and row["engines"] for row in described.values())
    assert all(told_source(row["operator"]) == row["source"] in sources_in(SHIPPED) for row in described.values())


def told_source(operator: str) -> str:
    source: str = json.loads((DATA / f"{operator}.json").read_text(encoding="utf-8"))["source"]
    return source


@pytest.mark.parametrize(
    ("operator", "highest_median", "highest_mean"),
    [
        ("gemm", 0.08, 0.12),
        ("decode", 0.075, 0.14),
        ("prefill", 0.06, 0.10),
        ("experts", 0.12, 0.20),
        ("delta_decode", 0.02, 0.03),
        ("delta_prefill", 0.08, 0.10),
        ("kda_decode", 0.07, 0.08),
        ("kda_prefill", 0.08, 0.10),
        ("index_decode", 0.06, 0.06),
        ("index_prefill", 0.04, 0.07),
        ("index_choice", 0.06, 0.10),
    ],
)
def test_no_grid_misses_unseen_shapes_by_more_than_stated(
    operator: str, highest_median: float, highest_mean: float
) -> None:
    """The bounds of docs/calibration.md: errors on shapes that the fit had not seen."""
    rows = [row for row in FITS if row["operator"] == operator and row["engine"] == EVERY_ENGINE]
    assert max(float(row["held_back_median"]) for row in rows) < highest_median
    assert max(float(row["held_back_mean"]) for row in rows) < highest_mean


def test_the_fastest_experts_stand_for_a_table_that_was_set_aside(calibration: Calibration) -> None:
    """64 tokens of gpt-oss on one H100 took vLLM 0.53 ms, and SGLang with weights widened to 16 bits 1.67 ms."""

    def seconds(engine: str) -> float:
        curves = calibration.experts(index("H100-SXM"), ["mxfp4"], np.array([0]), engine_index([engine]))
        return float(experts_of(curves, 64.0, (128, 4, 2880, 2880))[0])

    assert seconds("vllm") == pytest.approx(0.53e-3, rel=0.1)
    assert seconds("sglang") == seconds("gpt-fast") == seconds("") == pytest.approx(0.53e-3, rel=0.1)


def test_an_engine_borrows_the_kernels_that_it_has_on_the_lenders_card(calibration: Calibration) -> None:
    lent, own = (
        calibration.experts(index(name), ["fp8_block"], np.array([0]), engine_index(["vllm"])).table[0]
        for name in ("H100-NVL", "H100-SXM")
    )
    of_all = calibration.experts(index("H100-SXM"), ["fp8_block"], np.array([0])).table[0]
    assert lent == own != of_all


def test_hopper_pays_for_a_window_and_blackwell_does_not(calibration: Calibration) -> None:
    """gpt-oss: 64 heads of 64 over 8 KV heads, every other layer sees 128 tokens."""

    def price(name: str) -> float:
        curves = calibration.attention(index(name), ["bf16"], np.array([0]), engine_index(["vllm"]))
        seen, windowed = (attention_decode_s(curves, 32, 64, 8, 64, *context)[0] for context in ((128,), (8192, 128)))
        return float(windowed / seen)

    assert 1.1 < price("H100-SXM") < 1.6
    assert 0.9 < price("B200") < 1.15


def test_a_window_that_hides_nothing_costs_nothing(calibration: Calibration) -> None:
    curves = attention_on(calibration, "H100-SXM")
    assert attention_decode_s(curves, 8, 64, 8, 64, 100, 128)[0] == attention_decode_s(curves, 8, 64, 8, 64, 100)[0]


def test_borrowing_from_the_same_silicon_is_surer_than_from_another_generation() -> None:
    near, far = (lending_spreads()[kin] for kin in ("same silicon", "other generation"))
    assert len(near) > 1
    for kind in near:
        assert near[kind]["high_ratio"] / near[kind]["low_ratio"] < far[kind]["high_ratio"] / far[kind]["low_ratio"]
        assert near[kind]["pairs"] > 10
        assert far[kind]["pairs"] > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "grade"),
    [
        *((n, Grade.TRANSFERRED) for n in ("T4", "V100-SXM2-32GB", "A10G", "L4", "A30", "A100-PCIe-80GB", "H100-PCIe")),
        *((n, Grade.TRANSFERRED) for n in ("H100-NVL", "H20", "RTX-3090", "RTX-4090", "RTX-5090")),
        *((n, Grade.ROOFLINE) for n in ("MI300X", "MI325X", "Gaudi2", "Gaudi3", "TPU-v5e", "Trainium1", "Trainium2")),
    ],
)
def test_what_nobody_measured_answers_with_a_lower_grade_and_a_wider_range(name: str, grade: Grade) -> None:
    """A projection and a decode step of an 8B model in 16 bit."""
    here = load_calibration([load_catalog().accelerators[name]])
    zero = np.array([0])
    products = [here.gemm(zero, [weights], zero) for weights in ("bf16", "fp16")]
    product = next(curves for curves in products if curves.is_supported[0])
    attention = here.attention(zero, ["fp16"], zero).decode
    assert np.isfinite(gemm_s(product, 16, 6144, 4096)[0])
    assert np.isfinite(attention_decode_s(here.attention(zero, ["fp16"], zero), 16, 32, 8, 128, 1000)[0])
    for curves in (product, attention):
        assert Grade(int(curves.grade[0])) is grade
        assert curves.high_ratio[0] / curves.low_ratio[0] > 1.2


def test_a_card_with_gddr_does_not_borrow_from_one_with_hbm() -> None:
    accelerators = load_catalog().accelerators
    assert loan_for(accelerators["A10G"]).donor == "L40S"
    assert loan_for(accelerators["A100-PCIe-80GB"]).donor == "A100-SXM4-80GB"
    assert loan_for(accelerators["RTX-5090"]).donor == "RTX-PRO-6000-Server"
    assert loan_for(accelerators["GH200-144GB"]).donor == "H200-SXM"


@pytest.mark.parametrize(("engine", "precision"), [("tensorrt-llm", "nvfp4"), ("vllm", "fp8_block"), ("vllm", "bf16")])
def test_experts_that_are_not_made_for_blackwell_are_slower(calibration, engine: str, precision: str) -> None:
    places = index("B200"), [precision], np.array([0])
    made, general = (calibration.experts(*places, of([engine])) for of in (engine_index, general_index))
    for tokens in (64.0, 256.0, 4096.0):
        ratio = experts_of(general, tokens) / experts_of(made, tokens)
        assert 1.0 < float(ratio[0]) < 2.6


@pytest.mark.parametrize(("gpu", "engine", "precision"), [("H100-SXM", "vllm", "bf16"), ("B200", "sglang", "nvfp4")])
def test_where_no_others_were_measured_an_engine_keeps_its_experts(calibration, gpu, engine, precision) -> None:
    tables = [
        calibration.experts(index(gpu), [precision], np.array([0]), kernels).table[0]
        for kernels in (engine_index([engine]), general_index([engine]))
    ]
    assert tables[0] == tables[1]


@pytest.mark.parametrize("gpu", ["A100-SXM4-80GB", "H100-SXM", "B200"])
def test_nccl_takes_longer_for_small_tensors_than_the_kernels_of_engines(calibration, gpu: str) -> None:
    """One token of Llama-70B between eight GPUs: a fixed time of NCCL; large tensors take as long."""

    def seconds(engine: str, size_bytes: float) -> float:
        kernels = engine_index([engine])
        curves = calibration.collectives(index(gpu), np.array([False]), np.array([300 * GIGA]), kernels)
        return float(all_reduce_s(curves, size_bytes, np.array([8]))[0])

    assert 1.5 < seconds("nccl", 16384) / seconds("tensorrt-llm", 16384) < 5
    assert seconds("nccl", 64e6) == pytest.approx(seconds("tensorrt-llm", 64e6), rel=0.05)


OF_WEIGHTS = ("gemm", "experts")


def test_tables_of_an_engine_that_it_does_not_run_are_set_aside() -> None:
    """Twice as slow as the fastest neighbour and above three times the roofline where weights decide: set aside."""
    far = [
        x
        for x in outliers()
        if x.operator in OF_WEIGHTS and x.factor > MOST_FACTOR and x.ratio is not None and x.ratio > MOST_RATIO
    ]
    assert far
    assert all(x.is_set_aside for x in far)
    tables = {(o, precision, engine) for o in OPERATORS for _, precision, engine in read_tables(o).rows}
    assert set_aside() <= tables


def test_gpt_oss_in_sglang_is_as_fast_as_was_measured() -> None:
    """7.9 ms a token of gpt-oss-20b on one H100, 512 in, 1,024 out, 32 clients; tolerance 10 %."""
    found = estimate("gpt-oss-20b", "H100:1", engine="sglang", input_tokens=512, output_tokens=1024, concurrency=32)
    assert found.tpot_s.value == pytest.approx(0.0079, rel=0.1)


@pytest.mark.parametrize("weights", ["int8_wo", "int4"])
@pytest.mark.parametrize("gpu", ["A100-SXM4-80GB", "H100-SXM", "L40S", "B200"])
def test_weights_alone_in_fewer_bits_cost_prompts_no_more_than_to_widen_them_first(
    calibration: Calibration, gpu: str, weights: str
) -> None:
    """AccelMark, vLLM 0.7.3 on A100: w4a16 and w8a16 have their first tokens within 3 % of bf16's."""
    widths = np.array([4096.0]), np.array([4096.0])
    curves = [gemm_on(calibration, gpu, name) for name in ("bf16", weights)]
    byte_s = 4096 * 4096 / load_catalog().accelerators[gpu].bandwidth_bytes_per_s
    for rows in (1024.0, 4096.0, 16384.0):
        in_16, alone = (float(gemm_s(each, np.array([rows]), *widths)[0]) for each in curves)
        assert in_16 - 4 * byte_s <= alone * 1.001
        assert alone <= (in_16 + 4 * byte_s + 2e-6) * 1.001
