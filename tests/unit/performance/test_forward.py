"""One pass through a tower, kernel by kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpufleet.architecture.encoder_flops import tower_flop
from gpufleet.architecture.encoder_parse import parse_encoder
from gpufleet.catalog.calibration import load_calibration
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.runtimes import find_runtime
from gpufleet.domain.encoder import Tower
from gpufleet.domain.precision import BF16, WeightFormat
from gpufleet.performance.forward import (
    CROSS,
    OVER_CACHE,
    Answer,
    PassCurves,
    as_in_larger,
    decoder_steps,
    together,
    tower_pass,
)
from gpufleet.provenance import Sourced

GPUS = load_catalog().accelerators
CURVES = PassCurves.gather(load_calibration([GPUS["H100-SXM"]]), 0, WeightFormat.uniform(BF16))
FUSED, EAGER = find_runtime("fastertransformer"), find_runtime("torchscript")
BERT = parse_encoder({"model_type": "bert"}, "bert").towers[0]
CLIP_TEXT = next(t for t in parse_encoder({"model_type": "clip"}, "clip").towers if t.stack.is_causal)
WHISPER = parse_encoder({"model_type": "whisper"}, "whisper")
BATCH = np.array([8.0])


@pytest.mark.parametrize("tower", [BERT, CLIP_TEXT], ids=["sees everything", "sees what came before"])
def test_the_kernels_do_the_flop_of_the_architecture(tower: Tower) -> None:
    passed = tower_pass(tower, CURVES, FUSED, BATCH, 77, 0.0)
    done = sum(float(operation.flop.sum()) * operation.count for operation in passed.operations)
    assert done == pytest.approx(8 * float(tower_flop(tower, 77).total))


def test_a_step_of_an_answer_reads_half_of_it_and_all_of_what_the_encoder_said() -> None:
    assert WHISPER.decoder is not None
    stack = WHISPER.decoder.stack
    steps = decoder_steps(WHISPER.decoder, CURVES, FUSED, BATCH, 1500, Answer(100, beams=5)).operations
    read = {o.name: float(o.flop.sum()) * o.count for o in steps if o.kernel == "attention"}
    per_token = 4 * stack.num_layers * stack.attention_width * 8 * 5 * 100
    assert read == {OVER_CACHE: pytest.approx(50 * per_token), CROSS: pytest.approx(1500 * per_token)}


def test_operators_come_in_the_order_that_an_input_meets_them() -> None:
    tower = parse_encoder({"model_type": "clip"}, "clip").towers[0]
    names = [o.name for o in tower_pass(tower, CURVES, FUSED, BATCH, 50, 49).operations]
    met = ["convolutions", "attention projections", "mlp", "norms, biases and residuals", "attention"]
    assert list(dict.fromkeys(names)) == [*met, "output projection"]


def test_convolutions_do_their_flop_too() -> None:
    tower = parse_encoder({"model_type": "wav2vec2"}, "m").towers[0]
    passed = tower_pass(tower, CURVES, FUSED, BATCH, tower.tokens_of(16000), 16000)
    done = sum(float(o.flop.sum()) * o.count for o in passed.operations if o.name == "convolutions")
    assert done == pytest.approx(8 * float(tower_flop(tower, 49, 16000).convolutions))


def test_no_kernel_beats_its_roofline() -> None:
    for operation in tower_pass(BERT, CURVES, EAGER, BATCH, 512, 0.0).operations:
        assert float(operation.seconds[0]) >= float(operation.roofline_s[0])


def test_scores_pass_through_memory_only_where_attention_is_not_one_kernel() -> None:
    names = [{o.name for o in tower_pass(BERT, CURVES, r, BATCH, 128, 0.0).operations} for r in (EAGER, FUSED)]
    assert ["attention scores in memory" in found for found in names] == [True, False]
    assert not FUSED.fuses_attention(128, 2.0)
    assert not FUSED.fuses_attention(64, 4.0)


def test_a_pass_takes_the_longer_of_kernels_and_host() -> None:
    slow = replace(EAGER, launch_s=Sourced(1.0, "s", "a very slow host"))
    idle = replace(EAGER, launch_s=Sourced(1e-12, "s", "no host at all"))
    waiting, busy = (tower_pass(BERT, CURVES, runtime, BATCH, 128, 0.0) for runtime in (slow, idle))
    assert float(waiting.seconds[0]) == float(waiting.host_s[0]) > 100
    assert float(busy.seconds[0]) == float(busy.kernels_s[0]) < 0.1


def test_twice_the_answer_is_twice_the_steps() -> None:
    assert WHISPER.decoder is not None
    once, one, two = (
        float(decoder_steps(WHISPER.decoder, CURVES, EAGER, BATCH, 1500, Answer(n)).host_s[0]) for n in (0, 50, 100)
    )
    assert two - once == pytest.approx(2 * (one - once))


def test_passes_one_after_the_other_add_up() -> None:
    passed = tower_pass(BERT, CURVES, FUSED, BATCH, 128, 0.0)
    assert float(together([passed, passed]).seconds[0]) == pytest.approx(2 * float(passed.seconds[0]))


def test_a_hump_of_a_curve_is_not_a_gain_for_small_batches() -> None:
    def humped(rows: np.ndarray) -> np.ndarray:
        return rows * np.where(rows < 10, 1.0, 2.0)

    assert float(as_in_larger(humped, np.array([8.0]))[0]) == pytest.approx(16.0)
