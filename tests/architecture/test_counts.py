"""The house does not grow unseen: lines above `optimize` and files that a plan enters stay within tools/house.toml."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tools.house import (
    PACKAGE,
    QUESTIONS,
    REPOSITORY,
    SOURCE,
    Own,
    Source,
    Trace,
    as_toml,
    beyond_budget,
    counts,
    counts_of_trace,
    floors,
    lines_above,
    lines_of_rooms,
    owned,
    recorded,
    trace_apart,
    traced,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = {
    "__init__.py": "",
    "cli/__init__.py": "",
    "cli/ask.py": "from house.api import cost\nimport house.api.size as size\n\n\n"
    "def dear(x):\n    return told(cost(x))\n\n\ndef told(x):\n    from house.report.dear import page\n\n"
    "    return page(x)\n\n\n"
    "def large(x):\n    return size.size(x)\n\n\nother = large\n",
    "cli/lend.py": "from house.results import shapes\n\n\ndef lend(x):\n    return shapes.Shape(x)\n",
    "api/__init__.py": "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from house.api.cost import cost\n"
    "    from house.api.size import size\n",
    "api/cost.py": "from ..results.shapes import Shape\nfrom . import wares\n\n\n"
    "def cost(x):\n    return Shape(wares.of(x))\n",
    "api/size.py": "from house.api.wares import of\n\n\ndef size(x):\n    return of(x)\n",
    "api/wares.py": "def of(x):\n    return x\n",
    "report/__init__.py": "",
    "report/dear.py": "def page(x):\n    return deep(x)\n\n\ndef deep(x):\n    return x\n",
    "results/__init__.py": "",
    "results/shapes.py": "class Shape:\n    def __init__(self, x):\n        self.x = x\n",
    "optimize/__init__.py": "",
}
STARTS = {"ask dear": "cli.ask:dear", "ask large": "cli.ask:large", "lend": "cli.lend:lend"}
LAYERS = '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["cli | (web)", "api", "report", "results"]\n'


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Source:
    folder = tmp_path_factory.mktemp("made-up") / "house"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Source(folder)


def test_the_house_grows_no_further_unseen() -> None:
    """Whoever needs more lines writes them down, `python -m tools.house --write`, and says why."""
    assert lines_above(lines_of_rooms(Source(SOURCE / PACKAGE))) <= recorded()["lines_above_optimize"]


def test_new_questions_keep_their_budget() -> None:
    """In a folder of `ask`: 8 files, 1,300 lines, none of them hidden, and nothing in `optimize` for one alone."""
    assert beyond_budget(Source(SOURCE / PACKAGE), QUESTIONS) == []


def test_a_plan_enters_no_more_files_than_it_did() -> None:
    assert counts_of_trace(trace_apart())["traced_files_above_optimize"] <= recorded()["traced_files_above_optimize"]


def test_every_question_begins_somewhere_and_has_its_verb() -> None:
    source = Source(SOURCE / PACKAGE)
    assert [
        start for start in QUESTIONS.values() if start[-1] != ":" and not source.first_steps(*start.split(":"))
    ] == []
    verbs = source.texts["table"]
    assert [question for question in QUESTIONS if f'Verb("{question.split()[0]}"' not in verbs] == []


def test_a_question_has_the_files_that_it_alone_reaches(house: Source) -> None:
    """`api/__init__` only offers names: `cost` is at home in `api.cost`. `wares` is the verb's, `shapes` is shared."""
    assert house.entered("cli.ask:dear") == {"cli.ask", "api.cost", "api.wares", "report.dear", "results.shapes"}
    assert house.entered("cli.ask:large") == {"cli.ask", "api.size", "api.wares"}
    assert owned(house, STARTS) == {
        "ask (shared)": Own(("api.wares", "cli.ask"), 21),
        "ask dear": Own(("api.cost", "report.dear"), 12),
        "ask large": Own(("api.size",), 5),
        "lend": Own(("cli.lend",), 5),
    }


ASKED = {
    "ask/__init__.py": "",
    "ask/odd/__init__.py": "",
    "ask/odd/find.py": "from house.api.wares import of\nfrom house.optimize.odds import odds\n\n\n"
    "def odd(x):\n    return odds(of(x))\n",
    "ask/odd/page.py": "from house.report.odd import page  # fmt: skip\n",
    "report/odd.py": "def page(x):\n    return x\n",
    "optimize/odds.py": "def odds(x):\n    return x\n",
    "cli/odd.py": "from house.ask.odd.find import odd\nfrom house.report.dear import page\n\n\n"
    "def show(x):\n    return page(odd(x))\n",
}


def test_a_question_in_a_folder_owns_it_and_what_others_reach_through_it_alone(tmp_path: Path) -> None:
    for name, text in {**FILES, **ASKED}.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    source = Source(tmp_path / "house")
    starts = {**STARTS, "odd": "cli.odd:show"}
    found = owned(source, starts)
    assert found["ask odd"] == Own(("ask.odd", "ask.odd.find", "ask.odd.page", "report.odd"), 9)
    assert found["odd"] == Own(("cli.odd",), 6)
    assert beyond_budget(source, starts) == ["ask odd: 1x # fmt: skip", "ask odd: optimize.odds is of it alone"]


def test_a_file_that_a_second_question_reaches_is_no_ones(house: Source) -> None:
    more = {**STARTS, "other": "report.dear:page"}
    assert "report.dear" not in owned(house, more)["ask dear"].files
    assert owned(house, more, above=("api",))["ask dear"] == Own(("api.cost",), 6)


def test_a_question_without_a_beginning_is_refused(house: Source) -> None:
    with pytest.raises(LookupError, match=r"cli\.ask has no cheap"):
        house.entered("cli.ask:cheap")


def test_floors_are_the_layers_of_the_import_contract() -> None:
    assert floors(LAYERS) == {"cli": 3, "web": 3, "api": 2, "report": 1, "results": 0}
    of_house = floors((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert of_house["cli"] > of_house["api"] > of_house["answers"] > of_house["optimize"] > of_house["errors"] == 0


def test_a_trace_counts_files_that_are_entered_and_calls_that_climb(tmp_path: Path) -> None:
    low, high = (compiled(tmp_path / name, text) for name, text in MADE_UP.items())
    trace = Trace(tmp_path, {"results": 0, "api": 2})
    traced([], lambda _: high["ask"](low["each"]), trace)
    assert trace.files == {"results/low.py", "api/high.py"}
    assert trace.climbs == {"results -> api": 3}


MADE_UP = {
    "results/low.py": "def each(f):\n    return [x for x in map(f, (1, 2, 3))]\n\n\nclass Unused:\n    pass\n",
    "api/high.py": "def ask(each):\n    each(told)\n    return 0\n\n\ndef told(x):\n    return inner(x)\n\n\n"
    "def inner(x):\n    return x\n",
}


def compiled(path: Path, text: str) -> dict[str, object]:
    """The names of a module that was never imported from there."""
    names: dict[str, object] = {}
    exec(compile(text, str(path), "exec"), names)
    return names


def test_counts_are_written_as_they_are_read(house: Source) -> None:
    found = {"date": "2026-11-29", "traced_rooms": 3, **counts(house, STARTS)} | {
        "questions": {"a b": {"files": 1, "lines": 2}}
    }
    assert tomllib.loads(as_toml(found)) == found
    assert found["lines_of_rooms"]["report"] == 6
