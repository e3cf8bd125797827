"""Prefill and decode apart as they are typed: `estimate --prefill --decode` and `plan serve --disagg`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import RunGpufleet as Run

LOAD = ("--in", "4000", "--out", "500", "--concurrency", "64")
POOLS = ("--prefill", "2x H100:4 TP4", "--decode", "H200:8")
PLAN = ("plan", "serve", "llama-3.3-70b", "--rate", "10/s", "--in", "4000", "--out", "500", "--clouds", "aws")


def test_both_pools_are_on_the_page_and_in_the_json(ask_gpufleet: Run) -> None:
    page = ask_gpufleet("estimate", "llama-3.3-70b", *POOLS, *LOAD)
    assert page.returncode == 0, page.stderr
    assert "prefill on 2x H100-SXM:4 (TP4), decode on 1x H200-SXM:8" in " ".join(page.stdout.split())
    answer = json.loads(ask_gpufleet("estimate", "llama-3.3-70b", *POOLS, *LOAD, "-o", "json").stdout)
    assert answer["pools"]["binds"] == "prefill"


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        (("--prefill", "0x H100:4", "--decode", "H100:4"), 2, "cannot read the prefill pool"),
        (("--prefill", "H100:4"), 2, "prefill and decode come together"),
        (("--gpus", "H100:8", *POOLS), 2, "GPUs and pools are two questions"),
        ((), 2, "the GPUs are missing"),
        (("--prefill", "H999:4", "--decode", "H100:4"), 2, "prefill pool: unknown GPU"),
        ((*POOLS, "--roofline"), 2, "only one copy is explained"),
        (("--prefill", "4x H100 TP4", "--decode", "H100:4"), 2, "A copy on 4 of them is 'NAME:4'"),
        (("--prefill", "H100:4", "--decode", "L4:1"), 3, "decode pool: llama-3.3-70b does not fit 1x L4"),
    ],
)
def test_what_cannot_be_answered_is_one_clear_line(
    ask_gpufleet: Run, typed: tuple[str, ...], code: int, words: str
) -> None:
    done = ask_gpufleet("estimate", "llama-3.3-70b", *typed, *LOAD)
    assert done.returncode == code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_plan_shows_its_cheapest_pools_where_they_are_asked_for(ask_gpufleet: Run) -> None:
    asked = ask_gpufleet(*PLAN, "--slo", "ttft.p95<2s,tpot.p95<18ms", "--disagg")
    assert asked.returncode == 0, asked.stderr
    assert "Prefill and decode apart" in asked.stdout
    assert "less than copies that do both" in asked.stdout


def test_pools_are_planned_for_one_decoder(ask_gpufleet: Run, tmp_path: Path) -> None:
    several = tmp_path / "two.yaml"
    entries = "".join(f"  - {{model: {m}, rate: 1/s, in: 1000, out: 100}}\n" for m in ("llama-3.1-8b", "qwen3-32b"))
    several.write_text(f"models:\n{entries}")
    together = ask_gpufleet("plan", "serve", "--workload", str(several), "--disagg")
    assert (together.returncode, "several models have one answer together" in together.stderr) == (2, True)
    encoder = ask_gpufleet("plan", "serve", "bert-base-uncased", "--rate", "5/s", "--in", "128", "--disagg")
    assert (encoder.returncode, "--disagg" in encoder.stderr) == (2, True)
