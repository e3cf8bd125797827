"""What README.md and docs/ show is what gpufleet prints; of worked examples `test_worked_examples` asks it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from tools.docs_examples import PAGES, WORKED, Example, agrees, examples_of, problem_of, rewritten, run_example

EXAMPLES = [example for page in PAGES if page not in WORKED for example in examples_of(page)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.label)
def test_an_example_prints_what_the_page_shows(example: Example) -> None:
    assert problem_of(example) is None


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a\n", "a\nb\n", False),
        ("a\nb\n", "a\n", False),
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("a\n...\nc\n", "a\nc\n", True),
        ("a\n...\nc\n", "a\nb\n", False),
        ("a\n...\n", "a\nb\nc\n", True),
        ("$12.29/h (x)\n", "$12.29/h (x)\n", True),
        ("answered in 0.84 s\n", "answered in 1.2 s\n", True),
        ("1 day old\n", "1,324 days old\n", False),
        ("TTFT 420 ms\n", "TTFT 421 ms\n", False),
        ("", "anything\n", True),
    ],
)
def test_shown_and_printed_are_compared_honestly(shown: str, printed: str, same: bool) -> None:
    assert agrees(shown, printed) is same


def test_commands_are_found_with_continuation_exit_code_and_output(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```console\n$ gpufleet fit x \\\n    --gpus L4  # exit 3\nno\n$ make plan\nlong\n$ gpufleet\n```\n"
        "```yaml\n$ gpufleet no\n```\n",
        encoding="utf-8",
    )
    first, second = examples_of(page)
    assert (first.command.split(), first.exit_code, first.shown) == (
        ["gpufleet", "fit", "x", "--gpus", "L4"],
        3,
        "no\n",
    )
    assert (second.command, second.line, second.shown) == ("gpufleet", 9, "")


def test_rewriting_replaces_stale_output_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown = "$ gpufleet --version\nold\n$ gpufleet nonsense\nkept\n$ gpufleet --help\nold\n...\n"
    stale = f"text\n```console\n{shown}```\nmore\n"
    page.write_text(stale, encoding="utf-8")
    fresh = rewritten(page)
    assert fresh == stale.replace("--version\nold", f"--version\ngpufleet {version('gpu-fleet-optimizer')}")


def test_a_command_may_be_piped_and_prefer_something(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ GPUFLEET_ENGINE=sglang gpufleet config | grep engine\n```\n", encoding="utf-8")
    [example] = examples_of(page)
    code, printed = run_example(example)
    assert code == 0
    assert printed.split()[:4] == ["Set", "by", "you:", "engine."]
    assert "GPUFLEET_ENGINE" in printed
