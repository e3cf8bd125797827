"""Pages of HTML in a browser: all can be read on a phone and at a desk, and a plan prints on two sheets."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from tools.browser import chromium, num_sheets, what_is_wrong

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
    "several machine types": ("mix", "llama-3.1-8b", "--rate", "60/s", "--in", "1000", "--out", "200",
                              "--slo", "ttft.p95<1s,tpot.p95<50ms", "--clouds", "aws", "--gpus", "H100,L40S"),
    "regions": ("regions", "llama-3.1-8b", "--rate", "20/s", "--in", "1000", "--out", "200", "--slo", "ttft.p95<600ms",
                "--clouds", "aws", "--gpus", "L40S", "--users", "berlin=30%,us=70%"),
    "jobs with deadlines": ("schedule", str(EXAMPLES / "jobs" / "lab-week.yaml"), "--at-once"),
    "GPUs": ("catalog", "gpus"),
    "prices": ("catalog", "prices", "--gpu", "H100"),
}  # fmt: skip
WIDTHS_PX = (390, 1000, 1600)
TOLD = {
    "too wide": '<p style="width:2000px">wide</p>',
    "text over text": '<p>one text</p><p style="margin-top:-1.2em">another</p>',
    "two titles": '<h1>The same</h1><section><h2>The same</h2></section>',
    "a card of the title": '<h1>For $9,900 a month</h1><dl><div class="fact"><dd>$9,900</dd></div></dl>',
    "rows apart": '<table class="cards"><tr><td>a</td></tr><tr style="float:right"><td>a</td></tr></table>',
    "a mark of nothing": '<figure><svg><text class="label" y="20">A: a name</text></svg></figure>',
    "a name under a line": '<svg><text y="20">a name</text><path class="range" d="M0 15H90"/></svg>',
}  # fmt: skip
WRONG = {name: f'<!doctype html><div class="gpufleet">{body}</div>' for name, body in TOLD.items()}


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


def test_all_can_be_read_on_a_phone_and_at_a_desk(pages: dict[str, str]) -> None:
    found = what_is_wrong({**pages, **WRONG}, WIDTHS_PX)
    assert {name for name in found if name.partition(" at ")[0] in WRONG} == {
        f"{name} at {width}" for name in WRONG for width in WIDTHS_PX
    }
    assert {name: wrong for name, wrong in found.items() if name.partition(" at ")[0] not in WRONG} == {}


@pytest.mark.parametrize("name", ["a job", "several machine types", "regions", "jobs with deadlines"])
def test_an_answer_has_one_picture_a_next_step_and_no_drawing_in_characters(pages: dict[str, str], name: str) -> None:
    page = pages[name]
    assert page.count('<figure class="on-screens">') == page.count('<figure class="on-phones">') == 1
    assert page.count("<strong>Next:</strong>") == page.count("<h1>") == 1
    assert "\N{FULL BLOCK}" not in page


@pytest.mark.parametrize("name", [SERVED, "all of a plan", "several models"])
def test_a_verdict_names_what_breaks_at_the_high_end_where_a_row_of_latency_says_so(
    pages: dict[str, str], name: str
) -> None:
    assert (">breaks</td>" in pages[name]) == ('<div class="fact tight">' in pages[name])


def test_a_plan_prints_on_two_sheets(pages: dict[str, str], tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    page.write_text(pages[SERVED], encoding="utf-8")
    assert num_sheets(page) == 2
