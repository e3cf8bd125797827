"""Every code has a sentence, every sentence a code, and no page reads a sentence to find out what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpufleet
from gpufleet.domain.reason import Reason, Rejection
from gpufleet.layout.training import RULES as RULES_OF_TRAINING
from gpufleet.report.words import SENTENCES, nearest_miss, sentence

PACKAGE = Path(gpufleet.__file__).parent
GIVEN = re.compile(r'\bReason(?:\.of)?\(\s*"(\w+)"|"(at_best\w*)"')
OF_TWO_KINDS = {f"{what}_{rule}" for what in ("width", "expert_width") for rule in ("not_divisible", "breaks_block")}


def test_every_code_that_a_rule_gives_has_a_sentence_and_the_other_way_round() -> None:
    found = {
        code
        for path in PACKAGE.rglob("*.py")
        if "report" not in path.parts
        for match in GIVEN.finditer(path.read_text(encoding="utf-8"))
        for code in match.groups()
        if code
    }
    assert found | OF_TWO_KINDS | set(RULES_OF_TRAINING) == set(SENTENCES)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason.of("over_limit", limit="ttft.p95", limit_s=0.5), "ttft.p95 above 500 ms at any load"),
        (Reason.of("at_best", least_s=0.5001), "501 ms at best"),
        (Reason.of("short_by", missing_bytes=1.5 * 2**30), "short by 1.5 GiB per GPU"),
        (Reason.of("short_by", missing_bytes=60 * 2**20), "short by 60 MiB per GPU"),
        (Reason.of("needs_tokens", longest_tokens=128_000.0), "128,000 tokens"),
        (
            Reason.of("over_budget", budget_usd_per_hour=5.0, budget_usd_per_month=3650.0),
            "over the budget of $5.00/h ($3,650/mo)",
        ),
        (Reason.of("to_be_had", to_be_had=0), "none available"),
        (
            Reason.of("to_be_had_at", to_be_had=2, needed=1200, usd_per_hour=31_200.0),
            "2 available; 1,200 would cost $31,200.00/h",
        ),
        (Reason.of("late_with_cap", cap_machines=1), "not done by the deadline with the cap of 1 machine"),
        (
            Reason.of("soonest", hours_s=5400.0, to_be_had=3, confidence=0.8, enough_machines=7),
            "90.0 min with the headroom or at 80% confidence, 3 available; 7 machines would be enough",
        ),
        (
            Reason.of("soonest", hours_s=None, to_be_had=0, confidence=0.5, enough_machines=None),
            "none available",
        ),
    ],
)
def test_figures_are_written_in_the_unit_of_their_name(reason: Reason, said: str) -> None:
    assert sentence(reason) == said


def test_a_miss_stands_behind_what_it_is_about() -> None:
    short = Rejection(Reason("too_large"), "1x L4 TP1 bf16", Reason.of("short_by", missing_bytes=2**30))
    assert nearest_miss(short) == "1x L4 TP1 bf16: short by 1.0 GiB per GPU"


def test_no_page_reads_a_sentence() -> None:
    reads = re.compile(r"\.(reason|detail|best)\.(startswith|endswith|split|partition)\(")
    assert [
        p.name
        for part in ("report", "api", "answers", "cli")
        for p in (PACKAGE / part).glob("*.py")
        if reads.search(p.read_text(encoding="utf-8"))
    ] == []
