"""The documentation as a site: every page is reached, every link leads somewhere, every equation is shown."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import yaml
from tools.equations_page import equations_page
from tools.site import (
    LINK,
    decisions_page,
    generated_pages,
    pages_from_outside,
    place_of,
    source_of,
    with_links_of_the_site,
)

REPOSITORY = Path(__file__).resolve().parents[2]
SITE = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
OWN_PAGES = [str(path.relative_to(REPOSITORY / "docs")) for path in sorted((REPOSITORY / "docs").rglob("*.md"))]
GENERATED = generated_pages()
PLACES = [*OWN_PAGES, *pages_from_outside().values(), *GENERATED]


def leaves(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [leaf for child in children for leaf in leaves(child)]  # type: ignore[union-attr]


def test_the_menu_leads_to_every_page_once() -> None:
    assert sorted(leaves(SITE["nav"])) == sorted(place for place in PLACES if not place.startswith("decisions/0"))


def test_the_menu_and_the_index_name_pages_in_the_same_order() -> None:
    """The menu has pages beside those of the index: its home, each example, what is generated."""
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    linked = [link[3] for link in LINK.finditer(with_links_of_the_site(index, "index.md"))]
    named = [f"{target}index.md" if target.endswith("/") else target for target in linked]
    assert len(named) > 20
    assert [place for place in leaves(SITE["nav"]) if place in named] == named


def test_the_site_loads_nothing_from_elsewhere() -> None:
    assert SITE["theme"]["font"] is False


@pytest.mark.parametrize("place", [place for place in PLACES if place not in GENERATED])
def test_links_of_a_page_lead_to_pages_of_the_site(place: str) -> None:
    text = (REPOSITORY / source_of(place)).read_text(encoding="utf-8")
    targets = [link[3] for link in LINK.finditer(with_links_of_the_site(text, place))]
    found = [(Path("docs") / place).parent / target for target in targets]
    outside = {f"docs/{there}" for there in [*pages_from_outside().values(), *GENERATED]}
    lost = [
        str(path) for path in found if str(normal(path)) not in outside and not (REPOSITORY / normal(path)).is_file()
    ]
    assert lost == []


def normal(path: Path) -> Path:
    return (REPOSITORY / path).resolve().relative_to(REPOSITORY)


def test_a_link_to_what_is_not_in_the_site_keeps_its_words() -> None:
    text = "see [the code](../src/gpufleet/units.py), [the first page](../README.md#more) and [data](data.md)"
    shown = with_links_of_the_site(text, "plan.md")
    assert shown == "see the code, [the first page](readme.md#more) and [data](data.md)"
    assert with_links_of_the_site("[plans](../docs/plan.md)", "examples/README.md") == "[plans](../plan.md)"
    assert place_of("src/gpufleet/units.py") is None


def test_decisions_are_listed_by_their_titles() -> None:
    assert decisions_page().count("\n- [") == len(list((REPOSITORY / "docs" / "decisions").glob("*.md")))


def test_every_equation_shows_its_formula_and_a_number_that_a_test_recomputes() -> None:
    page = equations_page()
    shown = re.findall(r"^#### (\w+)$", page, re.MULTILINE)
    assert len(shown) >= 60
    assert "W = rho / (1 - rho) * (1 + c^2) / 2 * S" in page
    assert "max(flop / peak, bytes / bandwidth)" in page


@pytest.mark.parametrize(
    ("module", "name"),
    [("performance.queueing", "mean_wait_s"), ("memory.kv", "kv_bytes_per_sequence_per_device"),
     ("pricing.unit_cost", "usd_per_million_tokens"), ("architecture.kv_cache", "kv_elements_per_token")],
)  # fmt: skip
def test_an_equation_of_the_page_is_a_function_of_the_package(module: str, name: str) -> None:
    sentence = (getattr(importlib.import_module(f"gpufleet.{module}"), name).__doc__ or "").partition("\n\n")[0]
    assert f"#### {name}\n\n{' '.join(sentence.split())}\n" in equations_page()
