"""What a target of `deploy` is: the files of all copies of a plan, and the commands in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gpufleet.deploy.serving_copies import ServingCopies
from gpufleet.records import dataclass

Copies = Sequence[ServingCopies]


class Written(NamedTuple):
    """A file by its path in the folder, and what it is."""

    name: str
    text: str
    what: str


class Step(NamedTuple):
    """A command, and what it is for or has to show."""

    command: str
    purpose: str


@dataclass(frozen=True, eq=False)
class Target:
    """Where copies are started: the files of all groups of them, commands in their order, and why not, where not.

    `title` is its name in a sentence. `rents` are the price kinds at which its files rent machines, none where machines
    have to be there before; `deals_out`: its files share the requests of a model among groups of copies;
    `in_cluster`: a cluster of Kubernetes holds its secrets and volumes; `has_ports`: equal copies have no one address
    without a router.
    """

    name: str
    title: str
    files: Callable[[Copies], Sequence[Written]]
    steps: Callable[[Copies], Sequence[Step]]
    refusal: Callable[[Copies], str | None] = lambda _: None
    rents: Sequence[str] = ()
    deals_out: bool = False
    in_cluster: bool = False
    has_ports: bool = False


def by_pool(copies: Copies) -> list[list[ServingCopies]]:
    """Groups that stand on the same machines."""
    pools: dict[int, list[ServingCopies]] = {}
    for one in copies:
        pools.setdefault(one.pool, []).append(one)
    return list(pools.values())


def in_folders(copies: Copies, files: Callable[[ServingCopies], Iterable[Written]]) -> list[Written]:
    """The files of each group: as they are where there is one, else in a folder for each."""
    names = (lambda _, name: name) if len(copies) == 1 else of_several
    return [Written(names(one.name, file.name), file.text, file.what) for one in copies for file in files(one)]


def of_several(group: str, name: str) -> str:
    """The path of a file of one group among several: below its name, in the folder of all.

    >>> of_several("llama", "manifests/service.yaml"), of_several("llama", "compose.yaml")
    ('manifests/llama/service.yaml', 'llama/compose.yaml')
    """
    folder, _, file = name.rpartition("/")
    return f"{folder}/{group}/{file}" if folder else f"{group}/{file}"
