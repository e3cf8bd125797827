"""Llama 3.2 Vision: layers that read an image beside the prompt hold their weights and keep nothing of the text."""

from __future__ import annotations

import pytest

from gpufleet.architecture.kv_cache import kv_bytes_per_sequence
from gpufleet.architecture.parameters import num_parameters, weights_bytes
from gpufleet.architecture.vision import with_images
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.images import Images
from gpufleet.errors import UsageError
from gpufleet.units import GIB

VISION, TEXT = shipped_architecture("llama-3.2-11b-vision"), shipped_architecture("llama-3.1-8b")


def test_its_weights_take_what_vllm_logged():
    """Loading weights took 19.86 GiB on an H100 (vllm-project/vllm pull/12126); 10,670,220,835 in its checkpoint."""
    assert num_parameters(VISION) == 10_670_220_835
    assert weights_bytes(VISION, VISION.weights) / GIB == pytest.approx(19.86, rel=0.002)


def test_a_prompt_of_text_takes_the_cache_of_the_language_model_alone():
    own, plain = (float(kv_bytes_per_sequence(arch, 2, 65_536)) for arch in (VISION, TEXT))
    assert own == pytest.approx(plain, rel=1e-4)


def test_images_are_refused_and_not_counted_as_tokens_of_the_prompt():
    with pytest.raises(UsageError, match="cross-attention"):
        with_images(VISION, Images(1, 1024, 1024))
