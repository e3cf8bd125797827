"""Prompts that hold images: their tokens, the tower's seconds, and what is refused."""

from __future__ import annotations

import pytest

from gpufleet.api import estimate, fit, plan_batch, plan_serve
from gpufleet.architecture.vision import with_images
from gpufleet.catalog.calibration import load_formulas
from gpufleet.catalog.load import load_catalog
from gpufleet.catalog.models import shipped_architecture
from gpufleet.domain.images import Images
from gpufleet.errors import UsageError
from gpufleet.questions.fields import parse_images

MODEL, TOKENS = "qwen2.5-vl-7b", 37 * 37  # of 1,024 x 1,024 pixels


def lone_ttft_s(input_tokens: int, images: str | None = None, gpus: str = "H100:1") -> float:
    asked = estimate(MODEL, gpus, input_tokens=input_tokens, output_tokens=20, batch=1, images=images)
    return asked.ttft_s.value


def test_an_image_costs_its_tokens_and_the_pass_of_its_tower():
    arch = with_images(shipped_architecture(MODEL), Images(1, 1024, 1024))
    peak = load_catalog().accelerators["H100-SXM"].peak_flop_per_s["bf16"]
    tower_s = arch.images.tower_flop / (load_formulas().vision.flop_ratio.value * peak)
    assert arch.images.tokens == TOKENS
    added_s = lone_ttft_s(100, "1x1024x1024") - lone_ttft_s(100 + TOKENS)
    assert 1.0 <= added_s / tower_s < 1.5  # prompts take longer than their kernels, by the constant of the engine


def test_two_images_cost_twice_one():
    one, two = (lone_ttft_s(100, f"{n}x1024x1024") - lone_ttft_s(100 + n * TOKENS) for n in (1, 2))
    assert two == pytest.approx(2 * one, rel=0.05)


def test_ranks_share_the_tower():
    alone = lone_ttft_s(100, "4x1024x1024") - lone_ttft_s(100 + 4 * TOKENS)
    shared = lone_ttft_s(100, "4x1024x1024", "H100:4") - lone_ttft_s(100 + 4 * TOKENS, gpus="H100:4")
    assert shared == pytest.approx(alone / 4, rel=0.1)


def test_a_first_token_after_an_image_is_less_certain_and_says_why():
    plain, seen = (
        estimate(MODEL, "H100:1", input_tokens=n, output_tokens=100, concurrency=4, images=images)
        for n, images in ((100 + TOKENS, None), (100, "1x1024x1024"))
    )
    assert seen.ttft_s.grade == "roofline"
    assert seen.ttft_s.high / seen.ttft_s.value > plain.ttft_s.high / plain.ttft_s.value
    assert any("1,369 tokens beside its text" in note for note in seen.notes)


def test_an_image_takes_the_cache_of_its_tokens():
    with_image, without = fit(MODEL, "L4:1", "8k", images="1x1024x1024"), fit(MODEL, "L4:1", 8192 + TOKENS)
    assert with_image.users == without.users


@pytest.mark.slow
def test_plans_carry_images_in_every_prompt():
    words = {"input_tokens": 100, "output_tokens": 100}
    plain, seen = (
        plan_serve(MODEL, rate="20/s", gpus="H100", slo="ttft.p95<2s", **words, **more)
        for more in ({}, {"images": "2x1024x1024"})
    )
    assert seen.answer.usd_per_hour >= plain.answer.usd_per_hour
    assert ("images", "2x1024x1024") in [(i.name, i.value) for i in seen.inputs]
    jobs = [plan_batch(MODEL, requests="1M", deadline="24h", **words, **m) for m in ({}, {"images": "1x1024x1024"})]
    assert jobs[1].answer.usd.value > jobs[0].answer.usd.value


@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-4-scout", "gpt2"])
def test_models_that_read_no_images_here_are_refused(model):
    with pytest.raises(UsageError, match="reads no images here") as refusal:
        estimate(model, "H100:8", input_tokens=100, output_tokens=20, batch=1, images="1x224x224")
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1", "1024x1024", "1x1024", "1x1024x1024x3", "0x10x10", "1x0x10", "1x10x0", "-1x10x10", "1.5x10x10"),
        *("1001x10x10", "1x20001x10", "1x10x99999999", "1x" + "9" * 5000 + "x1", "٣x10x10", "1x1e3x1e3", "nanxnanxnan"),
        *("1x1024x1024px", "1,1024,1024", "1x1024x1024\n1x1x1", "\x00", "1xx10"),
    ],
)
def test_what_names_no_images_is_refused_with_an_example(text):
    with pytest.raises(UsageError, match="1x1024x1024"):
        parse_images(text)


def test_spaces_and_the_sign_of_a_product_are_read():
    assert parse_images(" 2 X 1024 × 768 ") == Images(2, 1024, 768)
