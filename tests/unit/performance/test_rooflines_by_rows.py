"""A roofline that is taken apart once, into what each row adds, is that of the whole kernel."""

from __future__ import annotations

import numpy as np
import pytest

from gpufleet.catalog.calibration import calibration_of
from gpufleet.catalog.load import load_catalog
from gpufleet.domain.arrays import IntArray
from gpufleet.domain.calibration import Calibration
from gpufleet.performance.attention import (
    causal_pairs,
    decode_roofline_s,
    decode_rows,
    prefill_roofline_s,
    prompt_pairs,
    prompt_roofline,
)
from gpufleet.performance.latent_attention import (
    absorb_roofline_s,
    absorb_rows,
    latent_decode_roofline_s,
    latent_decode_rows,
    latent_prefill_roofline_s,
    latent_prompt_roofline,
)
from gpufleet.performance.moe import RankLoad, experts_roofline_s, experts_rows

SEQUENCES = np.array([0.0, 1.0, 16.0, 700.0])
TOKENS = np.array([1.0, 1000.0, 9000.5, 131072.0])
FIRST = np.array([0])


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return calibration_of(load_catalog())


def on(calibration: Calibration, name: str) -> IntArray:
    return np.array([calibration.accelerators.index(name)])


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(32.0, 8.0), (128.0, 1.0), (4.0, 4.0)])
def test_attention(calibration: Calibration, precision: str, heads: float, kv_heads: float) -> None:
    curves = calibration.attention(on(calibration, "H100-SXM"), [precision], FIRST)
    by_rows = decode_rows(curves.decode, heads, kv_heads, 128.0).seconds_in(SEQUENCES, SEQUENCES * TOKENS)
    whole = decode_roofline_s(curves.decode, SEQUENCES, heads, kv_heads, 128.0, TOKENS)
    np.testing.assert_allclose(by_rows, whole, rtol=1e-14)
    pairs = prompt_pairs(TOKENS, 4096.0)
    by_pairs = prompt_roofline(curves.prefill, heads, kv_heads, 128.0).seconds(SEQUENCES * pairs, SEQUENCES * TOKENS)
    whole = prefill_roofline_s(curves.prefill, SEQUENCES, TOKENS, TOKENS, pairs, heads, kv_heads, 128.0)
    np.testing.assert_allclose(by_pairs, whole, rtol=1e-14)


@pytest.mark.parametrize("heads", [16.0, 128.0])
def test_latent_attention(calibration: Calibration, heads: float) -> None:
    curves = calibration.latent_attention(on(calibration, "H100-SXM"), ["bf16"], FIRST)
    by_rows = latent_decode_rows(curves.decode, heads).seconds_in(SEQUENCES, SEQUENCES * TOKENS)
    np.testing.assert_allclose(by_rows, latent_decode_roofline_s(curves.decode, SEQUENCES, heads, TOKENS), rtol=1e-12)
    absorbed = absorb_rows(curves.absorb, heads).seconds(SEQUENCES)
    np.testing.assert_allclose(absorbed, absorb_roofline_s(curves.absorb, SEQUENCES, heads), rtol=1e-12)
    pairs = prompt_pairs(TOKENS)
    by_pairs = latent_prompt_roofline(curves.prefill, heads).seconds(SEQUENCES * pairs, SEQUENCES * TOKENS)
    whole = latent_prefill_roofline_s(curves.prefill, SEQUENCES, TOKENS, pairs, heads)
    np.testing.assert_allclose(by_pairs, whole, rtol=1e-14)


@pytest.mark.parametrize("products", [2, 3])
def test_routed_experts(calibration: Calibration, products: int) -> None:
    curves = calibration.experts(on(calibration, "B200"), ["fp8_block"], FIRST)
    load = RankLoad(rows=TOKENS, experts=np.array([0.5, 8.0, 100.0, 256.0]))
    by_rows = experts_rows(curves, 7168, 2048.0, products).seconds_in(load.experts, load.rows)
    np.testing.assert_allclose(by_rows, experts_roofline_s(curves, load, 7168, 2048.0, products), rtol=1e-14)


@pytest.mark.parametrize("window", [np.inf, 3.0, 4096.0])
def test_a_prompt_that_nothing_precedes_has_the_pairs_of_a_whole_context(window: float) -> None:
    np.testing.assert_array_equal(prompt_pairs(TOKENS, window), causal_pairs(TOKENS, TOKENS, window))
