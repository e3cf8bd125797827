"""The small changes that a test should notice, as rewritings of a module's syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
REVERSED = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
CALCULATED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
CALLED = {
    "min": "max", "minimum": "maximum", "floor": "ceil", "any": "all", "argmin": "argmax", "zeros": "ones",
}  # fmt: skip
OTHER_CALL = {**CALLED, **{other: name for name, other in CALLED.items()}}
NOT_BEHAVIOUR = ("annotation", "returns", "decorator_list", "bases", "type_params")
TYPE_NAMES = ("TypeAlias", "TYPE_CHECKING")


@dataclass(frozen=True)
class Place:
    """An expression or statement that may be changed, where it hangs, and the outermost function around it.

    `names` are what a statement outside of functions defines.
    """

    node: ast.AST
    put: Callable[[ast.AST], None]
    function: str
    names: tuple[str, ...]


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one module: the position of its place among the places, and which of its changes."""

    path: str
    line: int
    place: int
    variant: int
    change: str
    function: str
    names: tuple[str, ...] = ()


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every change of a module, in the order of its tree."""
    return [
        Mutant(path, at.node.lineno, number, variant, in_words(at.node, changed), at.function, at.names)
        for number, at in enumerate(places(ast.parse(source)))
        for variant, changed in enumerate(changes(at.node))
    ]


def planted(source: str, mutant: Mutant) -> ast.Module:
    """The tree of a module with one change in it."""
    tree = ast.parse(source)
    at = next(at for number, at in enumerate(places(tree)) if number == mutant.place)
    at.put(ast.copy_location(list(changes(at.node))[mutant.variant], at.node))
    return ast.fix_missing_locations(tree)


def places(node: ast.AST, function: str = "", owner: str = "", names: tuple[str, ...] = ()) -> Iterator[Place]:
    """What a behaviour hangs on: no types, no decorators, no words and no errors."""
    for field, value in ast.iter_fields(node):
        for key, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or field in NOT_BEHAVIOUR or is_words(child):
                continue
            defined = () if function else names or names_defined_by(child)
            yield Place(child, _replacer(node, field, value, key), function, defined)
            inside = f"{owner}{child.name}" if isinstance(child, Function) else ""
            yield from places(child, function or inside, owner_in(child, owner), defined)


def owner_in(node: ast.AST, owner: str) -> str:
    """What stands before the names of functions in a node: its own name where it is a class."""
    return f"{owner}{node.name}." if isinstance(node, ast.ClassDef) else owner


def names_defined_by(node: ast.AST) -> tuple[str, ...]:
    """The names that an assignment gives a value to."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return ()
    return tuple(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def _replacer(holder: ast.AST, name: str, value: object, key: int | None) -> Callable[[ast.AST], None]:
    if isinstance(value, list) and key is not None:
        return lambda node: value.__setitem__(key, node)
    return lambda node: setattr(holder, name, node)


def is_words(node: ast.AST) -> bool:
    """Whether a node says something to a reader, a type checker or a programmer: not what answers hang on."""
    if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Assert)):
        return True
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    named = node.annotation if isinstance(node, ast.AnnAssign) else getattr(node, "test", None)
    return isinstance(named, ast.Name) and named.id in TYPE_NAMES


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of a node."""
    if isinstance(node, ast.Constant):
        yield from (ast.Constant(value) for value in other_numbers(node.value))
    elif isinstance(node, ast.Compare):
        for operators in (COMPARED, REVERSED):
            if type(node.ops[0]) in operators:
                yield with_fields(node, ops=[operators[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in CALCULATED:
        yield with_fields(node, op=CALCULATED[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield with_fields(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield node.operand
    elif isinstance(node, ast.Call) and name_of(node.func) in OTHER_CALL:
        yield with_fields(node, func=renamed(node.func))
    elif isinstance(node, (ast.If, ast.IfExp)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
        yield with_fields(node, test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield ast.Return(ast.Constant(None))


def other_numbers(value: object) -> tuple[float, ...]:
    """What a number may be changed to: twice and half, or one more and one less where it counts; True and False."""
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, value - 1) if value else (1,)
    if isinstance(value, float):
        return (2 * value, value / 2) if value else (1.0,)
    return ()


def name_of(function: ast.expr) -> str:
    """The last name of what is called."""
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def renamed(function: ast.expr) -> ast.expr:
    """The same call by the name of its opposite."""
    other = copy.copy(function)
    setattr(other, "id" if isinstance(function, ast.Name) else "attr", OTHER_CALL[name_of(function)])
    return other


def with_fields(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of a node with some of its fields changed."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def in_words(node: ast.AST, changed: ast.AST) -> str:
    """A change as a reader sees it: of a statement with a body, its first line."""
    before, after = (ast.unparse(ast.fix_missing_locations(x)).partition("\n")[0] for x in (node, changed))
    return f"{before} -> {after}"


def marked(source: str, path: str) -> ast.Module:
    """The tree of a module in which every outermost function tells `__entered__` that it is called."""
    tree = ast.parse(source)
    for name, function in outermost_functions(tree):
        entry = ast.parse(f"__entered__(({path!r}, {name!r}))").body[0]
        function.body.insert(int(ast.get_docstring(function) is not None), entry)
    return tree


def outermost_functions(node: ast.AST, owner: str = "") -> Iterator[tuple[str, Function]]:
    """Functions and methods that stand in no other function, each with its name and that of its class."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield f"{owner}{child.name}", child
        else:
            yield from outermost_functions(child, owner_in(child, owner))


def functions_that_name(tree: ast.AST, names: Collection[str]) -> set[str]:
    """The outermost functions in which one of these names stands."""
    return {
        name
        for name, function in outermost_functions(tree)
        for node in ast.walk(function)
        if getattr(node, "id", None) in names or getattr(node, "attr", None) in names
    }
