"""Which engine a model that is not a decoder is served with, and which engines refuse it."""

from __future__ import annotations

import pytest

from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_encoder
from gpufleet.catalog.runtimes import chosen_runtime, find_runtime, load_runtimes, usual_runtime
from gpufleet.errors import Infeasible


@pytest.mark.parametrize(
    ("model", "engine"),
    [
        ("bge-base-en-v1.5", "text-embeddings-inference"),
        ("all-mpnet-base-v2", "text-embeddings-inference"),
        ("bge-m3", "text-embeddings-inference"),
        ("whisper-large-v3", "faster-whisper"),
        ("vit-base", "transformers"),
        ("clip-vit-base-patch32", "transformers"),
        ("t5-small", "transformers"),
        ("wav2vec2-base", "transformers"),
    ],
)
def test_a_model_is_served_with_what_people_serve_it_with(model: str, engine: str) -> None:
    assert usual_runtime(shipped_encoder(model)).name == engine


@pytest.mark.parametrize(
    ("gpu", "engine"),
    [
        ("T4", "text-embeddings-inference"),
        ("H100-SXM", "text-embeddings-inference"),
        ("V100-SXM2-16GB", "infinity"),
        ("MI300X", "infinity"),
        ("B300", "infinity"),
    ],
)
def test_another_server_takes_over_where_the_usual_one_has_no_image(gpu: str, engine: str) -> None:
    """README of text-embeddings-inference 1.9: images for compute capability 7.5, 8.0, 8.6, 8.9, 9.0, 10.0 and 12.0."""
    model = shipped_encoder("bge-base-en-v1.5")
    assert usual_runtime(model, load_catalog().accelerators[gpu]).name == engine


def test_a_format_that_no_server_has_is_left_to_the_library() -> None:
    model = shipped_encoder("bge-base-en-v1.5")
    assert usual_runtime(model, formats=["bf16"]).name == "infinity"
    assert usual_runtime(model, formats=["int8"]).name == "transformers"


def test_images_of_amd64_do_not_run_beside_arm_cpus() -> None:
    tei, gpus = find_runtime("tei"), load_catalog().accelerators
    assert tei.runs_on(gpus["T4"])
    assert not tei.runs_on(gpus["T4G"])


@pytest.mark.parametrize("gpu", ["T4G", "GH200-96GB", "GB200"])
def test_whisper_beside_arm_cpus_is_not_started_in_what_has_no_cuda_build_for_them(gpu: str) -> None:
    """speaches-ai/speaches issues/620: 'This CTranslate2 package was not compiled with CUDA support'."""
    card = load_catalog().accelerators[gpu]
    assert not usual_runtime(shipped_encoder("whisper-large-v3"), card).runs_on(card)
    assert find_runtime("transformers").runs_on(card)


def test_a_refusal_names_the_engines_that_run_the_model() -> None:
    for model in ("whisper-tiny", "vit-base", "mpnet-base", "t5-small"):
        asked = shipped_encoder(model)
        able = {r.name for r in load_runtimes().values() if r.runs(asked.family)}
        for name in sorted(set(load_runtimes()) - able):
            with pytest.raises(Infeasible, match=f"does not run {asked.family} models") as refused:
                chosen_runtime(name, asked)
            assert all(each in str(refused.value) for each in able)


def test_flash_attention_is_off_on_turing_and_for_mpnet() -> None:
    """README of text-embeddings-inference on the Turing image; MPNet has no flash model in its candle backend."""
    tei, gpus = find_runtime("tei"), load_catalog().accelerators
    assert tei.running("bert", gpus["L4"]).fuses_attention(64, 2.0)
    assert not tei.running("bert", gpus["T4"]).fuses_attention(64, 2.0)
    assert not tei.running("mpnet", gpus["L4"]).fuses_attention(64, 2.0)
