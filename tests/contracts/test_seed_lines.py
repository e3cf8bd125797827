"""docs/seeds.md has one line for everything that the five seed documents say, and names nothing that is not there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from tests.contracts.test_seed_figures import FIGURES, FOLLOWS
from tools import seed_index
from tools.seed_index import (
    DOCUMENTS,
    PAGE,
    REPOSITORY,
    SEEDS,
    TEST,
    all_blocks,
    all_elements,
    commands_in,
    elements_of,
    entries_of,
    exists,
    has_test,
    lines_of,
    problems_of,
    quotation_of,
    readable,
    rewritten,
    summary_of,
)

RunGpufleet = Callable[..., "subprocess.CompletedProcess[str]"]
TEXT = PAGE.read_text(encoding="utf-8")
ELEMENTS = all_elements()


def test_every_line_of_the_seeds_has_its_line_and_every_line_holds_together() -> None:
    assert problems_of(TEXT) == []


def test_the_counts_at_the_top_are_those_of_the_lines_below() -> None:
    assert summary_of(entries_of(TEXT)) in TEXT
    assert len(entries_of(TEXT)) == len(ELEMENTS)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_heading_table_row_or_code_block_is_missed_by_the_index(document: str) -> None:
    """Counted here by other means than those of the index."""
    text = (SEEDS / f"{document}.md").read_text(encoding="utf-8")
    outside = re.sub(r"^\s*```.*?(^\s*```\s*?$|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    kinds = [element.kind for element in elements_of(document)]
    assert kinds.count("heading") == len(re.findall(r"^#+ ", outside, re.MULTILINE))
    rows = re.findall(r"^\|.*\|$", outside, re.MULTILINE)
    rules = [row for row in rows if set(row) <= set("|-: ")]
    assert kinds.count("table") == len(rules)
    assert kinds.count("row") == len(rows) - 2 * len(rules)
    assert kinds.count("block") == (len(re.findall(r"^\s*```", text, re.MULTILINE)) + 1) // 2


def test_no_line_with_a_figure_is_missed_outside_code() -> None:
    known = {element.id for element in ELEMENTS}
    inside = {
        f"{block.document}:{line}"
        for block in all_blocks()
        for line in range(block.fence_line, block.first_line + block.code.count("\n") + 1)
    }
    numbered = {
        f"{document}:{number}"
        for document in DOCUMENTS
        for number, line in enumerate(lines_of(document), start=1)
        if re.search(r"\d", line)
    }
    assert numbered - known - inside == set()


def test_a_figure_that_does_not_follow_is_a_line_that_differs() -> None:
    states = {entry.id: entry.state for entry in entries_of(TEXT)}
    wrong = {figure.where for figure in FIGURES if figure.verdict != FOLLOWS}
    assert {where for where in wrong if states[where] != "differs"} == set()


def test_the_page_is_fresh() -> None:
    assert rewritten(TEXT) == TEXT


def faulty(old: str, new: str, of: str = "guide:79") -> list[str]:
    """What is found wrong where one line of the page is changed."""
    [line] = [line for line in TEXT.splitlines() if line.startswith(f"| {of} |")]
    assert old in line
    return problems_of(TEXT.replace(line, line.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("test_seed_blocks.py::", "test_seed_blocks.py::test_of_nothing_", "names a test that does not exist"),
        ("contracts/test_seed_blocks.py", "contracts/test_no_file.py", "names a test that does not exist"),
        ("gpufleet.domain.precision", "gpufleet.domain.precisely", "names what does not exist"),
        ("`gpufleet.domain.precision`", "`gpufleet divine`", "names what does not exist"),
        ("model_config.json", "model_confid.json", "names what does not exist"),
        ("| holds |", "| perhaps |", "has no state"),
        ("| holds |", "| differs |", "does not say why"),
        ("guide:79", "guide:80", "no line for guide:79"),
        ("guide:79", "guide:84", "guide:84 is nothing that the seeds say"),
        ("FP32", "FP33", "stale"),
    ],
)
def test_a_planted_fault_is_found(old: str, new: str, found: str) -> None:
    assert any(found in problem for problem in faulty(old, new))


def test_a_line_that_is_left_out_is_found() -> None:
    without = re.sub(r"^\| guide:185 \|.*\n", "", TEXT, flags=re.MULTILINE)
    assert any("no line for guide:185 (heading)" in problem for problem in problems_of(without))


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("gpufleet.compat.rules", True),
        ("gpufleet.compat.rules.memory", True),
        ("gpufleet.compat.rules.calculate_memory_requirements", True),
        ("gpufleet.pricing.unit_cost", True),
        ("gpufleet.pricing.no_cost", False),
        ("gpufleet.nothing.at_all", False),
        ("gpufleet plan serve", True),
        ("gpufleet teleport", False),
        ("tests/contracts/seeds", True),
        ("docs/nowhere.md", False),
    ],
)
def test_names_are_looked_up(name: str, is_there: bool) -> None:
    assert exists(name) is is_there


VERBS_WITH_VERBS = ("plan", "catalog", "rules")
COMMANDS = sorted(
    {
        " ".join(command.split()[1 : 3 if command.split()[1] in VERBS_WITH_VERBS else 2])
        for entry in entries_of(TEXT)
        for command in re.findall(r"`(gpufleet [a-z][^`]*)`", f"{entry.where} {entry.reason}")
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_the_page_names_can_be_asked_for_help(command: str, ask_gpufleet: RunGpufleet) -> None:
    assert ask_gpufleet(*command.split(), "--help").returncode == 0


def test_a_test_is_looked_up_by_its_whole_name() -> None:
    assert has_test("contracts/test_seed_lines.py", "test_the_page_is_fresh")
    assert not has_test("contracts/test_seed_lines.py", "test_the_page")


def test_what_pytest_would_not_collect_is_no_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_index, "REPOSITORY", tmp_path)
    (tmp_path / "tests").mkdir()
    for name in ("test_new.py", "helpers_new.py"):
        text = "def test_there(): ...\ndef outer():\n    def test_inside(): ...\n# def test_once(): ...\n"
        (tmp_path / "tests" / name).write_text(text, encoding="utf-8")
    names = ("test_there", "test_inside", "test_once")
    assert [has_test("test_new.py", name) for name in names] == [True, False, False]
    assert not has_test("helpers_new.py", "test_there")


def test_every_test_that_holds_a_line_is_collected(request: pytest.FixtureRequest) -> None:
    """By pytest itself, so that a file that cannot be imported is found too: here, or anew where few are asked for."""
    held = {f"tests/{file}::{test}" for entry in entries_of(TEXT) for file, test in TEST.findall(entry.reason)}
    assert len(held) > 100
    collected = {item.nodeid.partition("[")[0] for item in request.session.items}
    files = sorted({test.partition("::")[0] for test in held - collected})
    if not files:
        return
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=--import-mode=importlib", *files]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout
    collected |= {line.partition("[")[0] for line in shown.splitlines()}
    assert held - collected == set()


def test_a_setting_inside_a_block_has_its_line() -> None:
    settings = {element.text for element in ELEMENTS if element.kind == "setting"}
    assert {'"routing_strategy": "least_busy"', 'auto_scaling: "Based on queue depth"'} <= settings
    assert {"- Dynamic batching", '"t4-whisper-base.aws.com:50051",      // Cheap, fast'} <= settings
    assert 'allocation_strategy      = "lowestPrice"' in settings


def test_commands_keep_their_continued_lines_and_quoted_programs() -> None:
    code = '# comment\ncd there\npython3 -c "\nprint(1)\n"\naws ecs \\\n  --all\n\ndone\n'
    assert list(commands_in(code)) == [(1, "cd there"), (2, 'python3 -c " print(1) "'), (5, "aws ecs --all")]


def test_text_that_was_read_in_the_wrong_code_page_is_made_readable() -> None:
    texts = {element.id: element for element in ELEMENTS}
    assert readable("guide", texts["guide:376"].text).startswith("1. **Over-provisioned inference**: P5/P4d → G6e/G6")
    assert quotation_of(texts["selection:387"]) == "Savings: $382/month → $115/month (g4dn.xlarge)"
    assert quotation_of(texts["guide:371"]).startswith("Training overhead: Model size × 1.5")


def test_the_seeds_are_the_documents_as_they_were_found() -> None:
    digests = {document: sha256((SEEDS / f"{document}.md").read_bytes()).hexdigest()[:16] for document in DOCUMENTS}
    assert digests == {
        "assessment": "90f8655985a5ff84",
        "lesson": "0f5d74c57dc1ad7a",
        "computation": "30159568d0364806",
        "guide": "90500c1b387953e2",
        "selection": "5ba86fdfcf1f6410",
    }
