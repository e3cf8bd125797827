"""Pages of HTML in a browser: nothing leaves the screen of a phone or a desk, and a plan prints on two sheets."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from tools.browser import chromium, num_sheets, what_leaves

from gpufleet.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.skipif(chromium() is None, reason="Chromium is not installed")]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOAD = ("--rate", "5/s", "--in", "1000", "--out", "200", "--slo", "tpot.p95<60ms")
SERVED, HOSTILE = "a plan", "a hostile name"
ASKED = {
    SERVED: ("plan", "serve", "--workload", str(EXAMPLES / "llama-3.3-70b-chat.yaml")),
    "all of a plan": ("plan", "serve", "llama-3.1-8b", *LOAD, "--gpus", "L40S,H100", "--today", "3 aws:p5.48xlarge",
                      "--why-not", "L40S:4", "--currency", "EUR@0.92"),
    "no plan": ("plan", "serve", "llama-3.3-70b", "--rate", "50/s", "--in", "1000", "--out", "300",
                "--slo", "ttft.p95<5ms", "--gpus", "H100"),
    "an encoder": ("plan", "serve", "bge-base-en-v1.5", "--rate", "500/s", "--in", "200", "--slo", "latency.p95<50ms"),
    "a job": ("plan", "batch", "llama-3.1-8b", "--requests", "1M", "--in", "1000", "--out", "200", "--deadline", "8h"),
    "several models": ("plan", "serve", "--workload", str(EXAMPLES / "three-models.yaml")),
    "an estimate": ("estimate", "llama-3.1-8b", "--gpus", "H100:1", "--in", "1000", "--out", "200", "--rate", "5/s",
                    "--explain", "--roofline"),
    "a fit": ("fit", "llama-3.1-8b", "--gpus", "L40S:1"),
    "a fit of training": ("fit", "llama-3.3-70b", "--gpus", "H100:8", "--method", "full"),
    "a run of training": ("plan", "finetune", "llama-3.1-8b", "--tokens", "50M"),
    "a comparison": ("compare", "L40S", "H100", "--model", "llama-3.1-8b", *LOAD),
    "GPUs": ("catalog", "gpus"),
    "prices": ("catalog", "prices", "--gpu", "H100"),
}  # fmt: skip
WIDTHS_PX = (390, 1000, 1600)
TOO_WIDE = '<!doctype html><div class="gpufleet"><p style="width:2000px">wide</p></div>'


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every kind of answer as a page, one of them of a model with a name that is long and markup."""
    folder = tmp_path_factory.mktemp("pages")
    config = resources.files("gpufleet").joinpath("data", "architectures", "llama-3.1-8b.json").read_text()
    named = folder / f"<script>alert(1)<script>{'m' * 180}.json"
    named.write_text(config, encoding="utf-8")
    asked = ASKED | {HOSTILE: ("plan", "serve", str(named), *LOAD, "--gpus", "L40S")}
    for name, words in asked.items():
        assert main((*words, "-o", "html", "--out-file", str(folder / f"{name}.html"))) in (0, 3), name
    return {name: (folder / f"{name}.html").read_text(encoding="utf-8") for name in asked}


def test_nothing_leaves_the_screen_of_a_phone_or_a_desk(pages: dict[str, str]) -> None:
    found = what_leaves({**pages, "too wide": TOO_WIDE}, WIDTHS_PX)
    assert {name for name in found if name.startswith("too wide")} == {f"too wide at {width}" for width in WIDTHS_PX}
    assert {name: leaves for name, leaves in found.items() if not name.startswith("too wide")} == {}


def test_a_plan_prints_on_two_sheets(pages: dict[str, str], tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    page.write_text(pages[SERVED], encoding="utf-8")
    assert num_sheets(page) == 2
