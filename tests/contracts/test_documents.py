"""Documents name things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpufleet.domain.slo import METRICS, STATISTICS
from gpufleet.inputs.preferences import KEYS, parse_preferences
from gpufleet.inputs.workload import KEYS as WORKLOAD_KEYS
from gpufleet.inputs.workload import parse_workload

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
NAMED_PATH = re.compile(r"`((?:src|tests|tools|docs|measurements|examples|benchmarks)/[^`\s]*)`")


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_that_are_named_exist(page: Path) -> None:
    named = NAMED_PATH.findall(page.read_text(encoding="utf-8"))
    patterns = {path: re.sub(r"<[^>]*>", "*", path).rstrip("/") for path in named}
    assert [path for path, pattern in patterns.items() if not list(REPOSITORY.glob(pattern))] == []


def test_the_index_leads_to_every_page() -> None:
    index = REPOSITORY / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text(encoding="utf-8"))}
    pages = [page for page in (REPOSITORY / "docs").glob("*.md") if page != index]
    assert [page.name for page in pages if page.resolve() not in linked] == []


def test_the_manual_lists_every_key_of_a_workload_file() -> None:
    manual = (REPOSITORY / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert [key for key in WORKLOAD_KEYS if f"`{key}`" not in manual] == []


def test_the_manual_lists_every_metric_and_statistic() -> None:
    manual = (REPOSITORY / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert [name for name in (*METRICS, *STATISTICS) if f"`{name}`" not in manual] == []


def test_the_workloads_shown_in_the_manual_can_be_read() -> None:
    manual = (REPOSITORY / "docs" / "workloads.md").read_text(encoding="utf-8")
    one, of_classes, of_models = map(parse_workload, re.findall(r"```yaml\n(.*?)```", manual, re.DOTALL))
    assert one.model == "llama-3.3-70b"
    assert [kind.name for kind in of_classes.classes or ()] == ["chat", "reports"]
    assert [item.model for item in of_models.models or ()] == ["llama-3.1-8b", "qwen3-32b"]


def test_decisions_are_numbered_without_gaps_and_say_what_they_cost() -> None:
    records = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert [part for part in ("**Decision.**", "**Why.**", "**Cost.**") if part not in text] == [], record.name


def test_the_manual_lists_every_key_that_may_be_preferred() -> None:
    manual = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert [key for key in KEYS if f"`{key}`" not in manual] == []
    [shown] = re.findall(r"```toml\n(.*?)```", manual, re.DOTALL)
    assert set(parse_preferences(shown, Path("gpufleet.toml"))) <= set(KEYS)
