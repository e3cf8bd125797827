"""`python -m tools.engine_flags SOURCE_DIR --engine vllm --version 0.19.1`: flags of an engine's command, as a table.

SOURCE_DIR is an unpacked source tree or wheel; it is read, never run. Rows have the columns of
`src/gpufleet/data/engine_flags/`; `--compare` says instead what differs from the rows of that version there.
"""

from __future__ import annotations

import argparse
import ast
import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from gpufleet.catalog.engine_flags import COLUMNS, flags_by_version
from gpufleet.domain.engine_flags import EngineFlag, EngineFlags
from gpufleet.errors import DataMissing

SWITCHES = re.compile(r"store_?(true|false|const)|help|version|noop|BooleanOptional", re.IGNORECASE)
MAYBE = ("?", "*")
WORDS_OF = {True: "yes", False: "no", None: "maybe"}
CLAP = re.compile(
    r"#\[(?:clap|arg)\((?P<said>[^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub )?(?P<name>\w+): (?P<type>[^\n]+),\n"
)


@dataclass(frozen=True)
class Sources:
    """Python files of an engine: those that say flags, and those that say the types and names which these use."""

    saying: list[ast.Module]
    defining: list[ast.Module]

    @classmethod
    def of(cls, root: Path, saying: Iterable[str], defining: Iterable[str]) -> Sources:
        """The files of these patterns below a folder."""
        read = [
            [ast.parse(path.read_text(encoding="utf-8")) for pattern in patterns for path in sorted(root.glob(pattern))]
            for patterns in (saying, defining)
        ]
        if not read[0]:
            raise DataMissing(f"no file that says flags in {root}", hint=f"Looked for: {', '.join(saying)}.")
        return cls(*read)

    @cached_property
    def classes(self) -> Mapping[str, ast.ClassDef]:
        """Classes by name."""
        trees = [*self.defining, *self.saying]
        return {node.name: node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}

    @cached_property
    def values(self) -> Mapping[str, ast.expr]:
        """What names stand for, of modules, functions and classes alike."""
        found: dict[str, ast.expr] = {}
        for node in (node for tree in [*self.defining, *self.saying] for node in ast.walk(tree)):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                found.setdefault(node.target.id, node.value)
            elif isinstance(node, ast.FunctionDef) and isinstance(last := node.body[-1], ast.Return) and last.value:
                found.setdefault(node.name, last.value)
        return found

    def fields_of(self, name: str) -> Mapping[str, ast.expr]:
        """The annotations of a class and of those that it is made of, by field."""
        made = self.classes.get(name)
        if made is None:
            return {}
        bases = {field: said for base in made.bases for field, said in self.fields_of(ast.unparse(base)).items()}
        own = (each for each in made.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name))
        return {**bases, **{each.target.id: each.annotation for each in own if isinstance(each.target, ast.Name)}}

    def texts(self, node: ast.expr | None, depth: int = 0) -> tuple[str, ...]:
        """The texts that an expression lists; none where a part of it cannot be read without running it."""
        match node:
            case ast.Constant(value=str() | int() as said) if not isinstance(said, bool):
                return (str(said),)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return self.all_texts(parts, depth)
            case ast.Dict(keys=keys):
                return self.all_texts(keys, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.all_texts([left, right], depth)
            case ast.Subscript(value=ast.Name(id="Literal" | "Optional"), slice=inner):
                return self.texts(inner, depth)
            case ast.Call(func=ast.Name(id="list" | "sorted" | "get_args"), args=[inner]):
                return self.texts(inner, depth)
            case ast.Call(func=ast.Attribute(value=inner, attr="keys")) | ast.Call(func=ast.Name() as inner, args=[]):
                return self.texts(inner, depth)
            case ast.Name(id=name) | ast.Attribute(attr=name) if depth < 5 and name in self.values:
                return self.texts(self.values[name], depth + 1)
        return ()

    def all_texts(self, parts: Iterable[ast.expr | None], depth: int) -> tuple[str, ...]:
        """The texts of all parts, none where one has none."""
        read = [self.texts(part, depth) for part in parts]
        return tuple(text for texts in read for text in texts) if all(read) else ()

    def kinds(self, annotation: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """The kinds that an annotation allows, aliases followed, without None and what is told beside a kind."""
        match annotation:
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                yield from [*self.kinds(left, depth), *self.kinds(right, depth)]
            case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
                yield from self.kinds(inner, depth)
            case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=parts)):
                for part in parts:
                    yield from self.kinds(part, depth)
            case ast.Subscript(value=ast.Name(id="A" | "Annotated"), slice=ast.Tuple(elts=[inner, *_])):
                yield from self.kinds(inner, depth)
            case ast.Name(id=name) if depth < 5 and isinstance(self.values.get(name), ast.Subscript | ast.BinOp):
                yield from self.kinds(self.values[name], depth + 1)
            case ast.Constant(value=None):
                return
            case _:
                yield annotation

    def of_kind(self, flag: EngineFlag, annotation: ast.expr) -> EngineFlag:
        """A flag that is made of a field: a bool is a switch, a Literal without str beside it lists its choices."""
        kinds = list(self.kinds(annotation))
        names = {ast.unparse(kind) for kind in kinds}
        literal = [text for kind in kinds if ast.unparse(kind).startswith("Literal[") for text in self.texts(kind)]
        choices = () if "str" in names else tuple(literal)
        return replace(flag, takes_value="bool" not in names, choices=choices)

    def of_call(self, flag: EngineFlag, call: ast.Call) -> EngineFlag:
        """A flag as the keywords of its call say it."""
        said = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        takes_value: bool | None = flag.takes_value
        if "action" in said:
            takes_value = not SWITCHES.search(ast.unparse(said["action"]))
        elif "is_flag" in said or self.texts(said.get("nargs")) == ("0",):
            takes_value = False
        elif any(text in MAYBE for text in self.texts(said.get("nargs"))):
            takes_value = None
        elif "type" in said:
            takes_value = True
        kind = said.get("type")
        offered = said.get("choices") or (kind.args[0] if isinstance(kind, ast.Call) and is_choice(kind) else None)
        return replace(flag, takes_value=takes_value, choices=self.texts(offered) or flag.choices)


def is_choice(node: ast.expr) -> bool:
    """Whether an expression is click's type of choices."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "click.Choice" and bool(node.args)


def spelled(names: Iterable[str]) -> EngineFlag | None:
    """A flag of its spellings, the first long one its name; None of what stands without dashes."""
    dashed = [name for name in names if name.startswith("-")]
    long = [name for name in dashed if name.startswith("--")]
    return EngineFlag(long[0], tuple(name for name in dashed if name != long[0])) if long else None


def argparse_flags(sources: Sources) -> Iterator[EngineFlag]:
    """Flags of `add_argument`, with the fields that their keywords are made of."""
    for tree in sources.saying:
        made_of = dict(kwargs_of_classes(tree))
        for call in calls_of(tree, "add_argument"):
            flag = spelled(text for name in call.args for text in sources.texts(name))
            if flag is None:
                continue
            for of_class, name in taken_over(call, made_of):
                annotation = sources.fields_of(of_class).get(name)
                if annotation is not None:
                    flag = sources.of_kind(flag, annotation)
            yield sources.of_call(flag, call)


def kwargs_of_classes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names that hold the keywords of a class's fields: `model_kwargs = get_kwargs(ModelConfig)`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="get_kwargs"), args=[made])):
                yield name, ast.unparse(made)


def taken_over(call: ast.Call, made_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Class and field of each `**model_kwargs["runner"]` of a call, changed or not."""
    spread = (keyword.value for keyword in call.keywords if keyword.arg is None)
    for node in (node for value in spread for node in ast.walk(value)):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(said))) if name in made_of:
                yield made_of[name], said


def calls_of(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls of a method of this name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name:
            yield node


def looped_flags(sources: Sources) -> Iterator[EngineFlag]:
    """Flags of classes that add each of their fields in a loop: `add_argument(f"--{name}", ...)`."""
    looping = {
        name
        for name, made in sources.classes.items()
        for call in calls_of(made, "add_argument")
        if any(isinstance(each, ast.JoinedStr) for each in call.args)
    }
    heirs = {n for n, made in sources.classes.items() if {ast.unparse(base) for base in made.bases} & looping}
    for name in sorted(looping | heirs):
        for said, annotation in sources.fields_of(name).items():
            yield sources.of_kind(EngineFlag(f"--{said.replace('_', '-')}"), annotation)


def annotated_flags(sources: Sources) -> Iterator[EngineFlag]:
    """Flags of fields with what is said of them beside their type: `host: A[str, Arg(help=..., aliases=[...])]`."""
    for tree in sources.saying:
        for node in ast.walk(tree):
            match node:
                case ast.AnnAssign(
                    target=ast.Name(id=name),
                    annotation=ast.Subscript(value=ast.Name(id="A" | "Annotated"), slice=ast.Tuple(elts=[_, *told])),
                ):
                    flag = annotated(sources, name, node.annotation, told)
                    if flag is not None:
                        yield flag


def annotated(sources: Sources, name: str, annotation: ast.expr, told: list[ast.expr]) -> EngineFlag | None:
    """One flag of a field; None where the field is none, or not to be typed."""
    flag = EngineFlag(f"--{name.replace('_', '-')}")
    argument = next((each for each in told if isinstance(each, ast.Call) and ast.unparse(each.func) == "Arg"), None)
    if argument is None:
        has_help = any(isinstance(each, ast.Constant | ast.JoinedStr | ast.BinOp) for each in told)
        return sources.of_kind(flag, annotation) if has_help else None
    said = {keyword.arg: keyword.value for keyword in argument.keywords}
    if "no_cli" in said and ast.unparse(said["no_cli"]) == "True":
        return None
    named = sources.texts(said.get("cli_name")) or (flag.name,)
    flag = replace(flag, name=named[0], aliases=sources.texts(said.get("aliases")))
    return sources.of_call(sources.of_kind(flag, annotation), argument)


def vllm_flags(root: Path) -> Iterator[EngineFlag]:
    """`vllm serve`: arguments of the engine by its config classes, those of the server by their own."""
    sources = Sources.of(
        root,
        ["vllm/engine/arg_utils.py", "vllm/entrypoints/openai/cli_args.py", "vllm/entrypoints/common/cli_args.py"],
        ["vllm/config.py", "vllm/config/**/*.py", "vllm/entrypoints/chat_utils.py", "vllm/**/tool_parsers/**/*.py",
         "vllm/reasoning/**/*.py", "vllm/v1/attention/backends/registry.py"],
    )  # fmt: skip
    parsers = {
        "--tool-call-parser": registered(sources, "ToolParserManager", "_TOOL_PARSERS_TO_REGISTER"),
        "--reasoning-parser": registered(sources, "ReasoningParserManager", "_REASONING_PARSERS_TO_REGISTER"),
    }
    for flag in [*argparse_flags(sources), *looped_flags(sources)]:
        yield replace(flag, choices=parsers.get(flag.name, flag.choices))


def registered(sources: Sources, manager: str, table: str) -> tuple[str, ...]:
    """Names of parsers: those of a table, or those that decorators register."""
    listed = sources.texts(sources.values.get(table))
    calls = (call for tree in sources.defining for call in calls_of(tree, "register_module"))
    named = {
        text
        for call in calls
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == manager
        for part in [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
        for text in sources.texts(part)
    }
    return listed or tuple(sorted(named))


def sglang_flags(root: Path) -> Iterator[EngineFlag]:
    """`sglang.launch_server`: calls of `add_argument`, and fields that say theirs beside their type."""
    sources = Sources.of(
        root,
        ["**/sglang/srt/server_args.py", "**/sglang/srt/arg_groups/fields/*.py"],
        ["**/sglang/srt/arg_groups/*.py", "**/sglang/srt/function_call/function_call_parser.py",
         "**/sglang/srt/function_call/parser_names.py", "**/sglang/srt/parser/reasoning_parser*.py",
         "**/sglang/srt/reasoning_parser.py"],
    )  # fmt: skip
    yield from [*annotated_flags(sources), *argparse_flags(sources)]


def tensorrt_llm_flags(root: Path) -> Iterator[EngineFlag]:
    """`trtllm-serve`: options of the command that serves, as click's decorators say them."""
    sources = Sources.of(root, ["tensorrt_llm/commands/serve.py"], ["tensorrt_llm/commands/utils.py"])
    for node in (node for tree in sources.saying for node in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef) and node.name == "serve":
            for call in (each for each in node.decorator_list if isinstance(each, ast.Call)):
                flag = spelled(text for name in call.args for text in sources.texts(name))
                if flag is not None and ast.unparse(call.func).endswith("option"):
                    yield sources.of_call(flag, call)


def text_embeddings_flags(root: Path) -> Iterator[EngineFlag]:
    """`text-embeddings-router`: fields of clap in its main file, in Rust."""
    main = root / "router" / "src" / "main.rs"
    if not main.is_file():
        raise DataMissing(f"no file that says flags in {root}", hint="Looked for: router/src/main.rs.")
    for found in CLAP.finditer(main.read_text(encoding="utf-8")):
        said, named = found["said"], re.search(r'\blong\s*=\s*"([^"]+)"', found["said"])
        if re.search(r"\blong\b", said):
            short = [f"-{found['name'][0]}"] if re.search(r"\bshort\b(?!\s*=)", said) else []
            aliases = (*short, *(f"--{name}" for name in re.findall(r'\balias\s*=\s*"([^"]+)"', said)))
            name = named[1] if named else found["name"].replace("_", "-")
            yield EngineFlag(f"--{name}", aliases, None if found["type"] == "Option<bool>" else found["type"] != "bool")


READERS: Mapping[str, Callable[[Path], Iterator[EngineFlag]]] = {
    "vllm": vllm_flags,
    "sglang": sglang_flags,
    "tensorrt-llm": tensorrt_llm_flags,
    "text-embeddings-inference": text_embeddings_flags,
}


def flags_in(root: Path, engine: str) -> list[EngineFlag]:
    """The flags of an engine's source tree, each once: what is said last counts."""
    return list({flag.name: flag for flag in READERS[engine](root)}.values())


def rows(flags: Iterable[EngineFlag], version: str, source: str) -> Iterator[tuple[str, ...]]:
    """Rows of the table."""
    for flag in flags:
        yield version, flag.name, " ".join(flag.aliases), WORDS_OF[flag.takes_value], " ".join(flag.choices), source


@dataclass(frozen=True)
class Comparison:
    """Flags of a source tree beside those of our table: in both, in one alone, and those that are told otherwise."""

    both: list[str]
    ours_alone: list[str]
    theirs_alone: list[str]
    otherwise: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, ours: Iterable[EngineFlag], theirs: Iterable[EngineFlag]) -> Comparison:
        """Flags are the same by any of their spellings."""
        known, found = (EngineFlags.of("", "", flags).by_spelling for flags in (ours, theirs))
        both = [name for name in known if name in found]
        told = [
            n for n in both
            if None not in (known[n].takes_value, found[n].takes_value) and known[n].takes_value != found[n].takes_value
        ]  # fmt: skip
        return cls(both, [n for n in known if n not in found], [n for n in found if n not in known], told)

    @property
    def lines(self) -> list[str]:
        """The comparison in words."""
        recall = len(self.both) / max(len(self.both) + len(self.ours_alone), 1)
        precision = len(self.both) / max(len(self.both) + len(self.theirs_alone), 1)
        return [
            f"spellings in both: {len(self.both)}, recall {recall:.1%}, precision {precision:.1%}",
            f"in our table alone: {' '.join(self.ours_alone) or 'none'}",
            f"in the source alone: {' '.join(self.theirs_alone) or 'none'}",
            f"take a value in one alone: {' '.join(self.otherwise) or 'none'}",
        ]


def main(words: list[str] | None = None) -> None:
    """Write the table of a source tree, or what differs from ours."""
    asked = argparse.ArgumentParser(prog="python -m tools.engine_flags", description=(__doc__ or "").splitlines()[0])
    asked.add_argument("source_dir", type=Path)
    asked.add_argument("--engine", choices=list(READERS), required=True)
    asked.add_argument("--version", required=True)
    asked.add_argument("--source", default=None, help="what the rows name as their source")
    asked.add_argument("--compare", action="store_true")
    said = asked.parse_args(words)
    flags = flags_in(said.source_dir, said.engine)
    if said.compare:
        print(*Comparison.of(flags_by_version(said.engine)[said.version], flags).lines, sep="\n")
        return
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(rows(flags, said.version, said.source or f"source of {said.engine} {said.version}"))


if __name__ == "__main__":
    main()
