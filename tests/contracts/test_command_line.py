"""What the command line promises to everybody who types or scripts it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

from gpufleet.cli.options import is_group, sub_verbs
from gpufleet.table import EXAMPLES, SUCH_AS, VERBS, Verb

REPOSITORY = Path(__file__).resolve().parents[2]
Run = Callable[..., "subprocess.CompletedProcess[str]"]
HEAVY = ("numpy", "pydantic", "yaml", "jinja2", "rich", "json.decoder", "importlib.metadata")
HELP_BUDGET_S = 0.2


def loaded_by(*words: str) -> set[str]:
    """Heavy modules that a command line loads."""
    code = (
        "import sys\nfrom gpufleet.cli import main\n"
        f"code = main({list(words)!r})\n"
        f"sys.stderr.write(' '.join(m for m in {HEAVY!r} if m in sys.modules))\nsys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


SUB_VERBS = [("plan", "serve"), ("catalog", "gpus"), ("catalog", "prices")]
HELP_LINES = [("--help",), (), *((verb.name, "--help") for verb in VERBS), *((*words, "--help") for words in SUB_VERBS)]


@pytest.mark.parametrize("words", HELP_LINES, ids=" ".join)
def test_help_answers_at_once_and_loads_nothing_heavy(
    words: tuple[str, ...], processor_s: Callable[..., float]
) -> None:
    assert loaded_by(*words) & {"numpy", "pydantic", "yaml", "jinja2", "rich"} == set()
    assert processor_s(*words) < HELP_BUDGET_S


@pytest.mark.parametrize("typed", [("--rate", "5x"), ("--in", "long"), ("--headroom", "much")], ids=" ".join)
def test_a_mistyped_plan_is_refused_before_the_search_is_loaded(typed: tuple[str, str]) -> None:
    words = ["plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "300", *typed]
    code = (
        "import sys\nfrom gpufleet.cli import main\n"
        f"assert main({words!r}) == 2\nprint(*(m for m in sys.modules if m.startswith('gpufleet.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {module.split(".")[1] for module in done.stdout.split()}
    assert packages & {"optimize", "layout", "results"} == set()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_listed_verb_works(verb: object, ask_gpufleet: Run) -> None:
    name, module, purpose = verb  # type: ignore[misc]
    assert import_module(module).app
    assert purpose.endswith(".") is False
    done = ask_gpufleet(name, "--help")
    assert done.returncode == 0
    assert f"Usage: gpufleet {name}" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_overview_lists_every_verb_once(ask_gpufleet: Run) -> None:
    done = ask_gpufleet("--help")
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert listed == [verb.name for verb in VERBS]
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_bare_command_orients_with_three_examples(run_gpufleet: Run) -> None:
    done = run_gpufleet()
    assert done.returncode == 0
    assert len(EXAMPLES) == 3
    assert all(f"  {example}\n" in done.stdout for example in EXAMPLES)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.split()[1] in {verb.name for verb in VERBS}])
def test_an_example_of_the_bare_command_can_be_typed(example: str, run_gpufleet: Run) -> None:
    done = run_gpufleet(*example.split()[1:])
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 80


GROUPS = [verb for verb in VERBS if is_group(import_module(verb.module).app)]


@pytest.mark.parametrize("verb", GROUPS, ids=lambda verb: verb.name)
def test_a_bare_group_lists_its_verbs_with_what_each_is_for(verb: Verb, ask_gpufleet: Run) -> None:
    done = ask_gpufleet(verb.name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ask_gpufleet(verb.name, "--help").stdout
    listed = [line.split() for line in done.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
    assert [words[0] for words in listed] == list(sub_verbs(import_module(verb.module).app))
    assert min(map(len, listed)) > 2
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", SUCH_AS)
def test_the_example_of_a_verb_that_lacks_a_word_can_be_typed(name: str, ask_gpufleet: Run) -> None:
    words = shlex.split(SUCH_AS[name])
    words = [f"{REPOSITORY}/{w}" if w.startswith(("measurements/", "examples/")) else w for w in words]
    done = ask_gpufleet(*words[1:])
    assert " ".join(words[1:]).startswith(name)
    assert done.returncode in (0, 3), done.stderr


def test_help_on_a_verb_of_a_group_can_be_asked_either_way_round(ask_gpufleet: Run) -> None:
    assert ask_gpufleet("help", "plan", "serve").stdout == ask_gpufleet("plan", "serve", "--help").stdout
    assert "Did you mean serve?" in ask_gpufleet("help", "plan", "sevre").stderr


@pytest.mark.parametrize("flag", ["--version", "-V", "version"])
def test_the_version_is_that_of_the_installed_package(flag: str, run_gpufleet: Run) -> None:
    assert run_gpufleet(flag).stdout == f"gpufleet {version('gpu-fleet-optimizer')}\n"


def test_help_on_a_verb_can_be_asked_either_way_round(ask_gpufleet: Run) -> None:
    for verb in VERBS:
        assert ask_gpufleet("help", verb.name).stdout == ask_gpufleet(verb.name, "--help").stdout
