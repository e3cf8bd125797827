"""How a text or a name stands in a file that a tool runs: one rule for each language and tool, whatever it is.

Names come from users' files: a line end in one would begin a line of the tool's own, a `$(` a command.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count

import yaml

from gpufleet.errors import UsageError

LINE_CHARACTERS = 120
NAMED_IN_HCL = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
OF_HCL = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029]|[$%](?=\{)')
OF_PROMQL = re.compile(r'["\\\x00-\x1f\x7f]')
UNREADABLE = "�"
NAMELESS, IN_FRONT_OF_DIGITS = "unnamed", "model-"
MOST_OF_A_NAME, MOST_OF_A_LABEL, DIGITS = 63, 57, 6
"""A label of Kubernetes has 63 characters, less what an indexed job adds for its pods: a dash and the node's number."""


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


def without_variables(words: Iterable[str]) -> list[str]:
    """Words in which neither Kubernetes nor Compose fills in a variable: a dollar stands twice.

    Kubernetes puts the container's environment in place of `$(NAME)` (kubernetes.io/docs/tasks/inject-data-application,
    "Define dependent environment variables"), Compose its own in place of `$NAME`.

    >>> without_variables(["serve", "$(HF_TOKEN)"])
    ['serve', '$$(HF_TOKEN)']
    """
    return [word.replace("$", "$$") for word in words]


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


def promql_string(text: str) -> str:
    r"""A string of PromQL, in its quotes (prometheus.io/docs/prometheus/latest/querying/basics: as in Go).

    >>> print(promql_string('a"b\\n'))
    "a\"b\\n"
    """
    return f'"{OF_PROMQL.sub(promql_character, whole_characters(text))}"'


def promql_character(found: re.Match[str]) -> str:
    """One character that a string of PromQL would not take for itself."""
    return NAMED_IN_HCL.get(found[0]) or f"\\u{ord(found[0]):04x}"


def alert_text(text: str) -> str:
    """A text in an annotation of Prometheus or a message of Alertmanager: no template of Go begins in it.

    >>> alert_text("{{ .Labels }}")
    '{{"{{"}} .Labels }}'
    """
    return whole_characters(text).replace("{{", '{{"{{"}}')


def yaml_document(content: object) -> str:
    """Plain values as a YAML document that reads back the same; a text of several lines stands in its lines."""
    return yaml.dump(whole(content), Dumper=InLines, sort_keys=False, width=LINE_CHARACTERS)


class InLines(yaml.SafeDumper):
    """Texts of several lines as they are, where YAML can hold them so."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """A block where there are lines; the emitter quotes what no block can hold."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


InLines.add_representer(str, InLines.represent_str)


def yaml_documents(contents: Iterable[object]) -> str:
    """Plain values as documents of one file."""
    return "---\n".join(map(yaml_document, contents))


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


def distinct_names(names: Iterable[str], written: Callable[[str], str], most: int) -> dict[str, str]:
    """By name: as it is written for a tool, which tells no upper from lower case, in so many characters at most.

    Names that would be one name there, or are too long, end in digits of their own, whatever stands beside them; one
    that is valid as it is keeps it.

    >>> distinct_names(["train", "a.b", "a-b"], partition_name, 20)
    {'train': 'train', 'a.b': 'a-b-2e7336', 'a-b': 'a-b'}
    """
    known = list(dict.fromkeys(names))
    counts = Counter(written(name).lower() for name in known)
    kept = {name for name in known if written(name) == name and len(name) <= most and not others_of(name, known)}
    kept |= {n for n in known if counts[written(n).lower()] == 1 and len(written(n)) <= most}
    taken, found = {written(name).lower() for name in kept}, {name: written(name) for name in kept}
    for name in sorted(set(known) - kept):
        found[name] = with_digits(name, written(name), most, taken)
        taken.add(found[name].lower())
    return {name: found[name] for name in known}


def others_of(name: str, known: Iterable[str]) -> bool:
    """Whether another name is this one but for upper and lower case, and comes after it."""
    return any(other.lower() == name.lower() and other > name for other in known)


def with_digits(name: str, written: str, most: int, taken: set[str]) -> str:
    """A name with digits that follow from it alone, more of them where they are taken."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    for digits in range(DIGITS, len(digest) + 1):
        found = f"{written[: most - digits - 1].rstrip('-._')}-{digest[:digits]}"
        if found.lower() not in taken:
            return found
    raise AssertionError(name)


def label_name(name: str) -> str:
    """A label of Kubernetes (RFC 1123), which pods of an indexed job need for their host names.

    It begins and ends in a letter or a digit.

    >>> label_name("Train_8B.v2"), label_name("${x}"), label_name("..")
    ('train-8b-v2', 'x', 'unnamed')
    """
    return re.sub(r"[^a-z0-9]", "-", name.lower()).strip("-") or NAMELESS


def service_name(name: str) -> str:
    """A service of Kubernetes (RFC 1035), which no digit begins, and so all that is called as it is.

    >>> service_name("llama-3.1-8b"), service_name("3d")
    ('llama-3-1-8b', 'model-3d')
    """
    found = label_name(name)
    return f"{IN_FRONT_OF_DIGITS}{found}" if found[0].isdigit() else found


def unlike(name: str, taken: Iterable[str]) -> str:
    """A name that none of the others has: as it is, else with the first number behind it that makes it one.

    >>> unlike("a-front", ["a"]), unlike("a-front", ["a", "a-front"])
    ('a-front', 'a-front-2')
    """
    others = set(taken)
    return next(found for number in count(1) if (found := name if number == 1 else f"{name}-{number}") not in others)


def partition_name(name: str) -> str:
    """A partition of Slurm.

    >>> partition_name("a.b")
    'a-b'
    """
    return re.sub(r"[^A-Za-z0-9_-]", "-", name)


def task_name(name: str) -> str:
    """A task of SkyPilot: no three of '.', '_' and '-' in a row.

    >>> task_name("a-._b")
    'a-.b'
    """
    return re.sub(r"([._-]{2})[._-]+", r"\1", name)
