"""Hooks of mkdocs: pages from outside of docs/, the page of equations, and links that lead where they do in a clone."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tools.equations_page import equations_page

REPOSITORY = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
DECISIONS = "decisions/index.md"
TOP_PAGES = {"README.md": "readme.md", "SCOPE.md": "scope.md", "CONTRIBUTING.md": "contributing.md"}


def pages_from_outside() -> dict[str, str]:
    """Where a page of the repository stands in the site, by its path."""
    examples = {f"examples/{path.name}": f"examples/{path.name}" for path in (REPOSITORY / "examples").glob("*.md")}
    return {**TOP_PAGES, **examples}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that docs/ does not hold."""
    from mkdocs.structure.files import File

    for path, place in pages_from_outside().items():
        text = (REPOSITORY / path).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    for place, text in generated_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def generated_pages() -> dict[str, str]:
    """Pages that no file holds."""
    return {"equations.md": equations_page(), DECISIONS: decisions_page()}


def decisions_page() -> str:
    """The records of decisions in their order, each by its title."""
    records = sorted((REPOSITORY / "docs" / "decisions").glob("*.md"))
    titles = [record.read_text(encoding="utf-8").splitlines()[0].lstrip("# ") for record in records]
    lines = [f"- [{title}]({record.name})" for title, record in zip(titles, records, strict=True)]
    return "\n".join(["# Decisions", "", *lines, ""])


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Turn links between files of the repository into links between pages."""
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, place: str) -> str:
    """The text of the page that stands at `place`, with its links as the site has them."""
    source = source_of(place)

    def led(link: re.Match[str]) -> str:
        image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
        goal = place_of(os.path.normpath(os.path.join(os.path.dirname(source), target)))
        if goal is None:
            return text
        return f"{image}[{text}]({os.path.relpath(goal, os.path.dirname(place) or '.')}{anchor})"

    return LINK.sub(led, markdown)


def source_of(place: str) -> str:
    """The file of the repository that a page of the site comes from."""
    outside = {there: path for path, there in pages_from_outside().items()}
    return outside.get(place, f"docs/{place}")


def place_of(path: str) -> str | None:
    """Where a file of the repository stands in the site; None for what is not part of it."""
    if path == "docs/decisions":
        return DECISIONS
    if path in pages_from_outside():
        return pages_from_outside()[path]
    if path.startswith("docs/") and (REPOSITORY / path).is_file():
        return path.removeprefix("docs/")
    return None
