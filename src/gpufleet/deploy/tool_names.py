"""Names of a schedule as another tool takes them: valid there, and different where they were different."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable

MOST_OF_A_NAME, MOST_OF_A_LABEL, DIGITS = 63, 57, 6
"""A label of Kubernetes has 63 characters, less what an indexed job adds for its pods: a dash and the node's number."""


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

    >>> label_name("Train_8B.v2")
    'train-8b-v2'
    """
    return re.sub(r"[^a-z0-9]", "-", name.lower())


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
