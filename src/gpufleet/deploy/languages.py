"""How a text stands in a file that a tool runs: one rule for each language, whatever the text is.

Names come from users' files: a line end in one would begin a line of the tool's own, a `$(` a command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

import yaml

from gpufleet.errors import UsageError

LINE_CHARACTERS = 120
NAMED_IN_HCL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
OF_HCL = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029]|[$%](?=\{)')
UNREADABLE = "�"


def comment(text: str) -> str:
    r"""One line of a comment in shell, HCL or YAML: nothing in it ends the line.

    >>> comment("8b\n\nresource {}")
    '# 8b resource {}'
    """
    return f"# {' '.join(''.join(c if c.isprintable() else ' ' for c in text).split())}"


def shell_command(words: Iterable[str]) -> str:
    """Words as a POSIX shell reads them back; no word of a command can hold a NUL.

    >>> shell_command(["echo", "$(id)"])
    "echo '$(id)'"
    """
    return shlex.join(map(held_by_shell, words))


def held_by_shell(word: str) -> str:
    """The word itself, refused where no command line holds it."""
    if "\0" in word:
        raise UsageError("a word of a command cannot hold a NUL", found=word)
    return whole_characters(word)


def hcl_string(text: str) -> str:
    r"""A string of HCL (Terraform), in its quotes: neither `${` nor `%{` begins a template in it.

    >>> print(hcl_string('a "b" ${c}\n'))
    "a \"b\" \u0024{c}\n"
    """
    return f'"{OF_HCL.sub(hcl_character, whole_characters(text).replace(chr(0), UNREADABLE))}"'


def hcl_character(found: re.Match[str]) -> str:
    """One character that HCL would not take for itself: by its name, else by its number."""
    character = found[0]
    if character in NAMED_IN_HCL:
        return NAMED_IN_HCL[character]
    return f"\\u{ord(character):04x}"


def yaml_document(content: object) -> str:
    """Plain values as a YAML document that reads back the same."""
    return yaml.safe_dump(whole(content), sort_keys=False, width=LINE_CHARACTERS)


def whole(content: object) -> object:
    """The same values, their texts without halves of characters, which no file holds."""
    if isinstance(content, dict):
        return {whole(key): whole(value) for key, value in content.items()}
    if isinstance(content, list):
        return [whole(item) for item in content]
    return whole_characters(content) if isinstance(content, str) else content


def whole_characters(text: str) -> str:
    """A text whose lone surrogates are replaced: UTF-8 has none."""
    return re.sub("[\ud800-\udfff]", UNREADABLE, text)
