"""YAML without its traps: no anchors, no tags, no repeated keys, every scalar is the text that was typed.

A YAML reader that guesses types reads `no` as False, `1:30` as 90 and `1e3` as text; here the units parser decides.
"""

from __future__ import annotations

from typing import Any

import yaml

from gpufleet.errors import UsageError

DEEPEST = 8
MOST_NODES = 10_000
LONG_TEXT = 200_000
ENDS_EARLY = ("unexpected end of stream", "'<stream end>'")
Value = str | list["Value"] | dict[str, "Value"]


def parse_yaml_mapping(text: str, what: str, most_nodes: int = MOST_NODES) -> dict[str, Value]:
    """The mapping that a YAML document holds; `what` names it in errors, such as 'a workload'."""
    try:
        refuse_traps(text, what, most_nodes)
        node = yaml.compose(text, Loader=loader_of(text))
    except yaml.YAMLError as error:
        raise not_yaml(error, what) from error
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"cannot read {what}", found=instead_of_mapping(node), expected="lines of 'key: value'")
    return mapping_value(node, what)


def loader_of(text: str) -> Any:
    """The reader in C for long texts, where it is there: it is ten times as quick, and says less of what is wrong."""
    return getattr(yaml, "CBaseLoader", yaml.BaseLoader) if len(text) > LONG_TEXT else yaml.BaseLoader


def instead_of_mapping(node: yaml.Node | None) -> str:
    """What a document holds that is no mapping."""
    if node is None:
        return "no key and value"
    return "a list" if isinstance(node, yaml.SequenceNode) else "bare words"


def refuse_traps(text: str, what: str, most_nodes: int) -> None:
    """Anchors multiply (the YAML bomb), depth exhausts the stack, and size the patience: stop before composing."""
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=loader_of(text))):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise UsageError(f"{what} may not use YAML anchors or aliases", hint="Write the value out.")
        if tag := getattr(event, "tag", None):
            raise UsageError(f"{what} may not use YAML tags", found=tag)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise UsageError(f"{what} is nested deeper than {DEEPEST} levels")
        if number > most_nodes:
            raise UsageError(f"{what} has more than {most_nodes} values")


def mapping_value(node: yaml.MappingNode, what: str) -> dict[str, Value]:
    """Keys and values of one mapping; a key twice is refused, not silently replaced."""
    result: dict[str, Value] = {}
    for key_node, value_node in node.value:
        key = node_value(key_node, what)
        if not isinstance(key, str):
            raise UsageError(f"{what} has a key that is not a word, line {key_node.start_mark.line + 1}")
        if key in result:
            raise UsageError(f"{what} gives {key!r} twice, line {key_node.start_mark.line + 1}")
        result[key] = node_value(value_node, what)
    return result


def node_value(node: yaml.Node, what: str) -> Value:
    """A node as text, list or dict."""
    if isinstance(node, yaml.MappingNode):
        return mapping_value(node, what)
    if isinstance(node, yaml.SequenceNode):
        return [node_value(item, what) for item in node.value]
    return str(node.value)


def not_yaml(error: yaml.YAMLError, what: str) -> UsageError:
    """The error of a text that the YAML reader stumbles over, with its line; a text that ends too early may be cut."""
    mark, problem = getattr(error, "problem_mark", None), str(getattr(error, "problem", None) or "")
    where = f", line {mark.line + 1}" if mark else ""
    if any(words in problem for words in ENDS_EARLY):
        found, hint = "the end within a quote, a list or a mapping", "Was the file cut off?"
        return UsageError(
            f"cannot read {what}: not whole", found=found + where, expected="all of them closed", hint=hint
        )
    found = problem.removeprefix("found ") or "unreadable characters"
    return UsageError(f"cannot read {what}: not YAML", found=found + where)
