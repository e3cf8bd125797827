"""Encoders against models that were instantiated, published sizes, and published times."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpufleet.accuracy.param_counts import declared_config
from gpufleet.api import estimate_encoder
from gpufleet.architecture.encoder_parameters import num_encoder_parameters
from gpufleet.architecture.encoder_parse import encoder_family_of, parse_encoder
from gpufleet.catalog.models import shipped_encoder

COUNTS = Path(__file__).parents[2] / "measurements" / "param_counts.csv"
with COUNTS.open(encoding="utf-8", newline="") as table:
    ROWS = list(csv.DictReader(table))
ENCODERS = [row for row in ROWS if encoder_family_of(declared_config(row["config_json"], row["how"]))]

# Counted on the meta device of transformers 5.23.0, tied weights once; none of them is in the table.
COUNTED = {
    "bert-base-uncased": 109_482_240,
    "bge-m3": 567_754_752,
    "clip-vit-base-patch16": 149_620_737,
    "clip-vit-base-patch32": 151_277_313,
    "distil-whisper-large-v3": 756_405_760,
    "distilbert-base-uncased": 66_362_880,
    "hubert-base": 94_371_712,
    "hubert-large": 315_438_720,
    "minilm-l12": 33_360_000,
    "minilm-l6": 22_713_216,
    "mpnet-base": 109_486_464,
    "roberta-large": 355_359_744,
    "t5-3b": 2_851_598_336,
    "t5-base": 222_903_552,
    "vit-large-patch16-224": 304_351_232,
    "whisper-large-v2": 1_543_304_960,
    "whisper-large-v3-turbo": 808_878_080,
    "whisper-small": 241_734_912,
    "whisper-tiny": 37_760_640,
    "xlm-roberta-base": 278_043_648,
}

# Sizes of published checkpoints, which keep a head of their own; transformers 5 would tie it.
UNTIED = {
    "flan-t5-small": 76_961_152,
    "flan-t5-base": 247_577_856,
    "flan-t5-large": 783_150_080,
    "flan-t5-xxl": 11_135_332_352,
}


def test_the_table_holds_every_encoder_that_was_counted() -> None:
    assert len(ENCODERS) == 14


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row["model"])
def test_shipped_config_counts_to_the_last_parameter(row: dict[str, str]) -> None:
    assert num_encoder_parameters(shipped_encoder(row["model"])) == int(row["params_exact"])


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row["model"])
def test_fields_that_a_config_leaves_out_are_the_defaults_of_its_class(row: dict[str, str]) -> None:
    shipped = shipped_encoder(row["model"])
    config = {"model_type": shipped.family, **json.loads(row["config_json"])}
    assert num_encoder_parameters(parse_encoder(config, "m")) == int(row["params_exact"])


@pytest.mark.parametrize(("model", "count"), [*COUNTED.items(), *UNTIED.items()])
def test_usual_checkpoints_have_their_published_size(model: str, count: int) -> None:
    assert num_encoder_parameters(shipped_encoder(model)) == count


def test_mt5_small_has_its_published_size() -> None:
    """mT5 (arXiv:2010.11934), table 2: 300 M parameters; google/mt5-small holds 300,176,768."""
    assert num_encoder_parameters(parse_encoder({"model_type": "mt5"}, "mt5-small")) == 300_176_768


@pytest.mark.parametrize(
    ("model", "millions"),
    [
        ("whisper-tiny", 39),
        ("whisper-base", 74),
        ("whisper-small", 244),
        ("whisper-medium", 769),
        ("whisper-large-v2", 1550),
        ("whisper-large-v3-turbo", 809),
    ],
)
def test_whisper_sizes_are_those_of_its_readme(model: str, millions: float) -> None:
    """github.com/openai/whisper README, 'Available models'; it does not count what is fixed, and rounds."""
    assert num_encoder_parameters(shipped_encoder(model)) == pytest.approx(millions * 1e6, rel=0.035)


# NVIDIA/FasterTransformer docs/bert_guide.md: BERT-base in fp16, batch 32, 384 tokens; no constant is fitted there,
# as such large passes do not wait for the host.
@pytest.mark.parametrize(
    ("engine", "gpu", "milliseconds", "tolerance"),
    [
        ("fastertransformer", "A100", 14.67, 0.15),
        ("fastertransformer", "T4", 97.66, 0.15),
        ("fastertransformer", "A10", 43.74, 0.15),
        ("torchscript", "A100", 32.4, 0.3),
        ("torchscript", "A10", 73.5, 0.15),
        ("torchscript", "T4", 190.43, 0.25),
    ],
)
def test_large_batches_of_bert_take_their_published_time(
    engine: str, gpu: str, milliseconds: float, tolerance: float
) -> None:
    found = estimate_encoder("bert-base", gpu, input_tokens=384, batch=32, precision="fp16", engine=engine)
    assert found.latency_s.value == pytest.approx(milliseconds / 1e3, rel=tolerance)


# github.com/michaelfeil/infinity docs/docs/benchmarking.md: bge-large-en-v1.5 on an L4, ten requests of 256 sentences,
# 115,000 tokens each, over HTTP; seconds for all. Nothing was fitted to these rows: no pass of them waits for the host.
@pytest.mark.parametrize(("engine", "seconds"), [("text-embeddings-inference", 18.491), ("infinity", 19.562)])
def test_engines_that_serve_embeddings_take_their_published_time(engine: str, seconds: float) -> None:
    asked = {"input_tokens": 115_000 / 256, "precision": "fp16", "engine": engine}
    found = estimate_encoder("bge-large-en-v1.5", "L4", **asked)
    assert 2560 / found.inputs_per_s.value == pytest.approx(seconds, rel=0.25)
    assert found.inputs_per_s.low < 2560 / seconds < found.inputs_per_s.high


def test_a_layer_of_bert_base_takes_the_flop_of_its_paper() -> None:
    """BERT (arXiv:1810.04805): 110 M parameters, 85 M of them in layers: 2 x 85 M x 512 tokens, and attention."""
    found = estimate_encoder("bert-base", "T4", input_tokens=512, batch=1)
    assert found.flop_per_input == pytest.approx(2 * 85e6 * 512 + 12 * 4 * 768 * 512**2, rel=0.01)
