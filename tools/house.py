"""How large the house is, and what a question costs in it; counted from the source alone, but for one traced plan.

    python -m tools.house           the counts, beside those of tools/house.toml
    python -m tools.house --write   put the counts of today in its place

Lines are those that ruff writes (CI holds them to it); `# fmt: skip` is counted, for it hides lines.

The files of a question are found by imports. A question begins at a function of a verb (`cli.plan:serve`): in its
module it enters the functions that it names, and theirs; what those import, at the top of the module or inside them, is
reached, and from there on whatever a module imports anywhere. A name that a folder only offers (`from gpufleet.api
import fit`) leads to its home. A file above `optimize` is the question's own if no other question reaches it; if only
questions of its verb do, it is the verb's. What two verbs reach is the house's. So a file that serves one question
under a general name counts, and a file that is named after it and serves all does not. A question with a folder in
`ask` is all that is in there and what that reaches; to others its door is shut. It may take MOST_FILES and MOST_LINES.

The trace is of `plan serve llama-3.1-8b --rate 5/s --in 1000 --out 200` in an interpreter of its own. A file is entered
when one of its functions is: what runs only while it is imported does not count. A path climbs when a function is
called by one of a lower floor; floors are the layers of the import contract in pyproject.toml.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import resolve_name
from pathlib import Path
from types import FrameType
from typing import Any, TypeGuard

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE, PACKAGE = REPOSITORY / "src", "gpufleet"
RECORD = Path(__file__).with_suffix(".toml")
ABOVE = (
    "api",
    "ask",
    "answers",
    "results",
    "questions",
    "inputs",
    "report",
    "write",
    "cli",
    "web",
    "mcp",
    "deploy",
    "monitor",
)
"""The rooms whose lines a question costs: above `optimize`, and the shapes of answers."""
ASK, MOST_FILES, MOST_LINES = "ask", 8, 1_300
OLDER = ("spot",)
"""Folders of questions that were there before the budget of new ones."""
"""Where new questions are, and what each may take of the rooms above."""
SKIP = "# fmt: skip"
TRACED = ("plan", "serve", "llama-3.1-8b", "--rate", "5/s", "--in", "1000", "--out", "200")
DAY = "2026-11-28"
IS_FUNCTION = 0x1  # CO_OPTIMIZED: bodies of modules and classes are not
QUESTIONS = {
    "plan serve": "cli.plan:serve",
    "plan batch": "cli.plan:batch",
    "plan train": "cli.plan:training",
    "mix": "cli.mix:mix",
    "regions service": "cli.regions:regions",
    "regions job": "cli.regions:show_job",
    "autoscale": "cli.autoscale:autoscale",
    "spot job": "cli.spot:show_job",
    "spot service": "cli.spot:show_service",
    "spot fleet": "cli.spot:show_fleet",
    "spot audit": "cli.spot:show_audit",
    "schedule": "cli.schedule:schedule",
    "deploy": "cli.deploy:deploy",
    "alerts": "cli.alerts:alerts",
    "compare": "cli.compare:compare",
    "explain": "cli.explain:explain",
    "fit": "cli.fit:fit",
    "estimate": "cli.estimate:estimate",
    "simulate": "cli.simulate:simulate",
    "encode": "cli.encode:encode",
    "rules": "cli.rules:",
    "catalog": "cli.catalog:",
    "accuracy": "cli.accuracy:accuracy",
}
"""Where each question begins; its verb is the first word, and no function stands for all of the module."""


@dataclass(frozen=True)
class Own:
    """The files above `optimize` that serve one question or one verb alone."""

    files: tuple[str, ...]
    lines: int


class Source:
    """A package as its files say it: modules, their lines and what they import."""

    def __init__(self, folder: Path):
        self.folder, self.name = folder, folder.name
        self.parsed: dict[str, ast.Module] = {}
        self.paths = {self.dotted(path): path for path in sorted(folder.rglob("*.py"))}

    def dotted(self, path: Path) -> str:
        """A module as it is imported, a folder by its own name; within the package, so `cli.app`."""
        return ".".join(path.relative_to(self.folder).with_suffix("").parts).removesuffix("__init__").rstrip(".")

    @cached_property
    def texts(self) -> dict[str, str]:
        return {module: path.read_text(encoding="utf-8") for module, path in self.paths.items()}

    def tree(self, module: str) -> ast.Module:
        """A module as it is parsed, once."""
        if module not in self.parsed:
            self.parsed[module] = ast.parse(self.texts[module])
        return self.parsed[module]

    @cached_property
    def lines(self) -> dict[str, int]:
        return {module: len(text.splitlines()) for module, text in self.texts.items()}

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """What each module imports of the package, inside functions and for types too."""
        return {module: set(self.imported(module, self.tree(module))) for module in self.paths}

    def imported(self, module: str, tree: ast.AST) -> Iterator[str]:
        """The modules that a piece of a module imports."""
        for node in ast.walk(tree):
            if is_import(node):
                for name, of in self.named_by(module, node).items():
                    yield from self.behind(module, name, of)

    def behind(self, module: str, name: str, of: str) -> set[str]:
        """Behind a name for a folder that offers names of others: where those are that the module takes from it."""
        offered = self.fronts.get(of)
        if not offered:
            return {of}
        taken = (each for each in ast.walk(self.tree(module)) if isinstance(each, ast.Attribute))
        return {offered[each.attr] for each in taken if ast.unparse(each.value) == name and each.attr in offered}

    def named_by(self, module: str, node: ast.Import | ast.ImportFrom) -> dict[str, str]:
        """The names that an import binds, each with the module of the package that it comes from."""
        if isinstance(node, ast.Import):
            full = {alias.asname or alias.name: alias.name for alias in node.names}
        else:
            is_folder = self.paths[module].name == "__init__.py"
            here = f"{self.name}.{module}".rstrip(".") if is_folder else f"{self.name}.{module}".rpartition(".")[0]
            origin = resolve_name("." * node.level + (node.module or ""), here)
            full = {alias.asname or alias.name: f"{origin}.{alias.name}" for alias in node.names}
        found = {name: self.module_of(dotted) for name, dotted in full.items()}
        return {name: within for name, within in found.items() if within}

    def module_of(self, dotted: str) -> str | None:
        """The module of the package that a dotted name is, or is in."""
        if not dotted.startswith(f"{self.name}."):
            return None
        within = dotted.removeprefix(f"{self.name}.")
        front, _, name = within.rpartition(".")
        return within if within in self.paths else self.fronts.get(front, {}).get(name, front) or None

    @cached_property
    def fronts(self) -> dict[str, dict[str, str]]:
        """What folders offer under their own names, each with the module that it comes from."""
        found: dict[str, dict[str, str]] = {}
        self.__dict__["fronts"] = found
        for module in sorted((each for each in self.paths if self.paths[each].name == "__init__.py"), reverse=True):
            tree = self.tree(module)
            named = (self.named_by(module, node) for node in ast.walk(tree) if is_import(node))
            found[module] = {name: of for each in named for name, of in each.items()}
        return found

    def entered(self, start: str) -> set[str]:
        """The modules that a question reaches which begins at `module:function`, or in a folder of `ask`."""
        module, _, function = start.partition(":")
        if module.startswith(f"{ASK}."):
            found: set[str] = set()
            ahead = set(self.in_folders[module])
        else:
            found = {module}
            ahead = self.first_steps(module, function) if function else set(self.imports[module])
        shut = {each for folder, modules in self.in_folders.items() if folder != module for each in modules}
        while ahead:
            each = ahead.pop()
            if each not in found | shut:
                found.add(each)
                ahead |= self.imports[each]
        return found

    @cached_property
    def in_folders(self) -> dict[str, list[str]]:
        """The modules of each question that has a folder in `ask`."""
        found: dict[str, list[str]] = {}
        for module in self.paths:
            room, _, within = module.partition(".")
            if room == ASK and within:
                found.setdefault(f"{ASK}.{within.partition('.')[0]}", []).append(module)
        return found

    def first_steps(self, module: str, function: str) -> set[str]:
        """The modules that a function needs, with those functions of its module that it names."""
        tree = self.tree(module)
        tops, outer = {name: node for node in tree.body for name in names_defined(node)}, outer_imports(tree)
        bound = {
            name: self.behind(module, name, of)
            for node in ast.walk(tree)
            if is_import(node) and node in outer
            for name, of in self.named_by(module, node).items()
        }
        if function not in tops:
            raise LookupError(f"{module} has no {function}")
        found: set[str] = set()
        done, ahead = set(), [function]
        while ahead:
            name = ahead.pop()
            if name in done:
                continue
            done.add(name)
            found |= bound.get(name, set())
            if name in tops:
                found |= set(self.imported(module, tops[name]))
                ahead += [each.id for each in ast.walk(tops[name]) if isinstance(each, ast.Name)]
        return found - {module}


def is_import(node: ast.AST) -> TypeGuard[ast.Import | ast.ImportFrom]:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def names_defined(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def outer_imports(tree: ast.Module) -> set[ast.AST]:
    """The imports outside of functions, those for types too."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {inner for node in tree.body if not isinstance(node, functions) for inner in ast.walk(node)}


def owned(source: Source, starts: Mapping[str, str], above: Collection[str] = ABOVE) -> dict[str, Own]:
    """What each question has alone; `VERB (shared)` is what only questions of that verb share."""
    every = {**starts, **{folder.replace(".", " "): folder for folder in source.in_folders}}
    reached = {question: source.entered(start) for question, start in every.items()}
    verb_of = {question: question.split()[0] if " " in question else question for question in every}
    owners: dict[str, list[str]] = {}
    for module in sorted({each for modules in reached.values() for each in modules}):
        if module.partition(".")[0] in above:
            asking = [question for question, modules in reached.items() if module in modules]
            verbs = {verb_of[question] for question in asking}
            owner = asking[0] if len(asking) == 1 else f"{verbs.pop()} (shared)" if len(verbs) == 1 else None
            owners.setdefault(owner or "", []).append(module)
    return {
        owner: Own(tuple(modules), sum(source.lines[module] for module in modules))
        for owner, modules in sorted(owners.items())
        if owner
    }


def floors(project: str) -> dict[str, int]:
    """The floor of each room, the lowest 0, as the import contract lists them from above."""
    contracts = tomllib.loads(project)["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["type"] == "layers")
    return {room.strip(" ()"): floor for floor, rooms in enumerate(reversed(layers)) for room in rooms.split("|")}


class Trace:
    """Which functions of a package are entered, and how often a lower floor calls a higher one."""

    def __init__(self, folder: Path, floor_of: Mapping[str, int]):
        self.folder, self.floor_of = f"{folder}{os.sep}", floor_of
        self.files: set[str] = set()
        self.climbs: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """What sys.setprofile calls."""
        code = frame.f_code
        if event != "call" or not code.co_flags & IS_FUNCTION or code.co_name.startswith("<"):
            return
        room = self.room(frame)
        if room is None:
            return
        self.files.add(code.co_filename.removeprefix(self.folder).replace(os.sep, "/"))
        caller = next((each for each in callers(frame) if self.room(each)), None)
        below = self.room(caller) if caller else None
        if below is not None and self.floor_of.get(below, 0) < self.floor_of.get(room, 0):
            self.climbs[f"{below} -> {room}"] += 1

    def room(self, frame: FrameType) -> str | None:
        """The room of a function; None outside of the package."""
        name = frame.f_code.co_filename
        within = name.removeprefix(self.folder).partition(os.sep)[0].removesuffix(".py")
        return within if name.startswith(self.folder) else None


def callers(frame: FrameType) -> Iterator[FrameType]:
    """The frames above one, from the nearest."""
    above = frame.f_back
    while above is not None:
        yield above
        above = above.f_back


def traced(words: Iterable[str], ask: Callable[[list[str]], int], trace: Trace) -> Trace:
    """A question that is asked under the trace."""
    sys.setprofile(trace)
    try:
        code = ask(list(words))
    finally:
        sys.setprofile(None)
    if code:
        raise SystemExit(f"the traced question ended in exit code {code}")
    return trace


def trace_here() -> None:
    """Ask the traced question in this interpreter, and print what was entered as JSON."""
    from gpufleet.cli import main

    trace = Trace(SOURCE / PACKAGE, floors((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")))
    with tempfile.TemporaryDirectory() as folder:
        traced([*TRACED, "--out-file", str(Path(folder) / "plan.txt")], main, trace)
    print(json.dumps({"files": sorted(trace.files), "climbs": trace.climbs}))


def trace_apart() -> dict[str, Any]:
    """What the traced question enters in a fresh interpreter, at nobody's home."""
    with tempfile.TemporaryDirectory() as home:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUFLEET_", "XDG_"))}
        own = {"HOME": home, "GPUFLEET_DATE": DAY, "GPUFLEET_CONFIG": "", "PYTHONPATH": str(SOURCE)}
        done = subprocess.run(
            [sys.executable, "-m", "tools.house", "--trace"],
            cwd=REPOSITORY,
            env={**kept, **own},
            capture_output=True,
            text=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def is_above(file: str) -> bool:
    """Whether a file is in one of the rooms that are counted."""
    return file.partition("/")[0] in ABOVE


def lines_of_rooms(source: Source) -> Counter[str]:
    """The lines of each room."""
    rooms: Counter[str] = Counter()
    for module, lines in source.lines.items():
        rooms[module.partition(".")[0] or "__init__"] += lines
    return rooms


def lines_above(rooms: Mapping[str, int]) -> int:
    """The lines of the rooms above `optimize`."""
    return sum(lines for room, lines in rooms.items() if room in ABOVE)


def counts(source: Source, starts: Mapping[str, str]) -> dict[str, Any]:
    """What stands in the source."""
    rooms = lines_of_rooms(source)
    functions = sum(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for module in source.paths
        for node in ast.walk(source.tree(module))
    )
    return {
        "lines_above_optimize": lines_above(rooms),
        "files_above_optimize": sum(module.partition(".")[0] in ABOVE for module in source.paths),
        "lines": rooms.total(),
        "functions_per_1000_lines": round(1000 * functions / rooms.total(), 1),
        "fmt_skip": sum(text.count(SKIP) for text in source.texts.values()),
        "lines_of_rooms": dict(sorted(rooms.items())),
        "questions": {
            name: {"files": len(own.files), "lines": own.lines} for name, own in owned(source, starts).items()
        },
    }


def counts_of_trace(found: Mapping[str, Any]) -> dict[str, int]:
    """What the traced question enters."""
    above = [file for file in found["files"] if is_above(file)]
    return {
        "traced_files_above_optimize": len(above),
        "traced_files": len(found["files"]),
        "traced_rooms": len({file.partition("/")[0] for file in found["files"]}),
        "traced_climbs": sum(found["climbs"].values()),
        "traced_kinds_of_climb": len(found["climbs"]),
    }


def recorded() -> dict[str, Any]:
    """The counts of the last time that they were written."""
    return tomllib.loads(RECORD.read_text(encoding="utf-8"))


def as_toml(found: Mapping[str, Any]) -> str:
    """Counts as a table; questions one a line."""
    plain = [f"{name} = {json.dumps(value)}" for name, value in found.items() if not isinstance(value, dict)]
    rooms = [f"{name} = {lines}" for name, lines in found["lines_of_rooms"].items()]
    questions = [
        f'"{name}" = {{ files = {own["files"]}, lines = {own["lines"]} }}' for name, own in found["questions"].items()
    ]
    comment = "# Written by `python -m tools.house --write`; a test holds the house to what is above optimize.\n"
    return comment + "\n".join([*plain, "", "[lines_of_rooms]", *rooms, "", "[questions]", *questions, ""])


def told(found: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """Lines that say each count, and what it was where it changed."""
    for name, value in found.items():
        if isinstance(value, dict) and name != "questions":
            yield f"{name}:"
            yield from (f"  {line}" for line in told(value, before.get(name, {})))
        elif isinstance(value, dict):
            yield "questions, files and lines above optimize that no other question has:"
            yield from (f"  {line}" for line in told_of_questions(value, before.get(name, {})))
        else:
            yield f"{name}: {value:,}{was(value, before.get(name))}" if name != "date" else f"date: {value}"


def beyond_budget(source: Source, starts: Mapping[str, str]) -> list[str]:
    """Questions in folders of `ask` that take more than a new one may, and what of."""
    own = owned(source, starts)
    below = owned(source, starts, above=("optimize",))
    found = []
    older = [f"{ASK} {name}" for name in OLDER]
    for question in (q for folder in source.in_folders if (q := folder.replace(".", " ")) not in older):
        files, lines = own[question].files, own[question].lines
        skips = sum(source.texts[module].count(SKIP) for module in files)
        found += [f"{question}: {len(files)} files"] if len(files) > MOST_FILES else []
        found += [f"{question}: {lines} lines"] if lines > MOST_LINES else []
        found += [f"{question}: {skips}x {SKIP}"] if skips else []
        found += [f"{question}: {module} is of it alone" for module in below.get(question, Own((), 0)).files]
    return found


def told_of_questions(found: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    for name, own in found.items():
        earlier = before.get(name, {})
        yield (
            f"{name}: {own['files']} files{was(own['files'], earlier.get('files'))}, "
            f"{own['lines']:,} lines{was(own['lines'], earlier.get('lines'))}"
        )


def was(value: object, earlier: object) -> str:
    return "" if earlier is None or earlier == value else f" (was {earlier})"


def main() -> int:
    if "--trace" in sys.argv:
        trace_here()
        return 0
    from datetime import date

    before = recorded() if RECORD.exists() else {}
    day = os.environ.get("GPUFLEET_DATE") or date.today().isoformat()
    found = {"date": day, **counts_of_trace(trace_apart()), **counts(Source(SOURCE / PACKAGE), QUESTIONS)}
    if "--write" in sys.argv:
        RECORD.write_text(as_toml(found), encoding="utf-8")
    print(*told(found, before), sep="\n")
    beyond = beyond_budget(Source(SOURCE / PACKAGE), QUESTIONS)
    print(*(f"beyond the budget of a new question: {each}" for each in beyond), sep="\n")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
