"""Words that a shell offers on TAB: verbs and options by Typer, names of models, GPUs and clouds by the catalog."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import typer

from gpufleet.cli.options import PLAIN, is_group
from gpufleet.errors import UsageError
from gpufleet.table import VERBS, Verb

MOST_OFFERED = 200
VARIABLE = "_GPUFLEET_COMPLETE"
ACTIONS, SHELLS = ("complete", "source"), ("bash", "zsh", "fish", "powershell", "pwsh")


class Offered(NamedTuple):
    """A word that may come next, as Typer's shells take it."""

    value: str
    type: str = "plain"
    help: str | None = None


def complete(arguments: Sequence[str] = ()) -> int:
    """Answer the shell, or install completion, by Typer's own means."""
    refuse_strange_question(os.environ)
    command: Any = typer.main.get_command(all_verbs())
    offer_names(command)
    command(list(arguments), prog_name="gpufleet", standalone_mode=False, complete_var=VARIABLE)
    return 0


def refuse_strange_question(environment: Mapping[str, str]) -> None:
    """Refuse what no shell asks: Typer answers it with a traceback or with the exit code of our bugs."""
    asked = environment.get(VARIABLE)
    if asked is None:
        return
    action, _, shell = asked.partition("_")
    if action not in ACTIONS or shell not in SHELLS:
        expected = f"{' or '.join(ACTIONS)}, then _ and one of {', '.join(SHELLS)}"
        raise UsageError(f"{VARIABLE} cannot be read", found=asked, expected=expected)
    number = environment.get("COMP_CWORD", "")
    if asked == "complete_bash" and not ("COMP_WORDS" in environment and re.fullmatch("[0-9]{1,6}", number)):
        expected = "the words in COMP_WORDS, and in COMP_CWORD the number of the one that is typed"
        raise UsageError("what bash completes cannot be read", found=number, expected=expected)


def all_verbs() -> typer.Typer:
    """Every verb in one application; a verb that is not being typed keeps its name alone."""
    root = typer.Typer(**{**PLAIN, "add_completion": True})
    for verb in VERBS:
        add_verb(root, verb)
    return root


def add_verb(root: typer.Typer, verb: Verb) -> None:
    """A verb as a command, or as a group of commands."""
    app = import_module(verb.module).app
    if is_group(app):
        root.add_typer(app, name=verb.name, help=verb.purpose)
        return
    command = app.registered_commands[0]
    command.name = verb.name
    root.registered_commands.append(command)


def offer_names(command: Any) -> None:
    """Give every option and argument that takes a name of the catalog the names to offer."""
    for below in getattr(command, "commands", {}).values():
        offer_names(below)
    for parameter in command.params:
        names = next((NAMES[key] for key in (*parameter.opts, parameter.metavar) if key in NAMES), None)
        if names is not None:
            parameter.shell_complete = completer(names)


def completer(names: Callable[[], Iterable[str]]) -> Callable[[object, str], list[Offered]]:
    """Names that go on from what was typed; of a list, from its last word."""

    def offered(_: object, incomplete: str) -> list[Offered]:
        before, comma, typed = incomplete.rpartition(",")
        return [Offered(f"{before}{comma}{name}") for name in names() if begins(name, typed) and name.isprintable()][
            :MOST_OFFERED
        ]

    return offered


def begins(name: str, typed: str) -> bool:
    """Whether a name goes on from what was typed, in any case."""
    return name.casefold().startswith(typed.casefold())


def model_names() -> list[str]:
    """Shipped models, and what people call them."""
    from gpufleet.catalog import models

    return sorted({*models.model_names(), *models.model_aliases()})


def gpu_names() -> list[str]:
    """Accelerators, and what people call them."""
    from gpufleet.catalog.load import load_catalog

    catalog = load_catalog()
    return sorted({*catalog.accelerators, *catalog.gpu_aliases})


def compared_names() -> list[str]:
    """What stands beside each other: models, and accelerators."""
    return [*model_names(), *gpu_names()]


def cloud_names() -> list[str]:
    """Clouds."""
    from gpufleet.catalog.load import load_catalog

    return list(load_catalog().clouds)


def provider_words() -> list[str]:
    """Classes of providers, and clouds."""
    from gpufleet.catalog.provider_classes import easily_had_gpus

    return [*easily_had_gpus(), *cloud_names()]


def machine_names() -> list[str]:
    """Machine types of every cloud, as 'cloud:name'."""
    from gpufleet.catalog.load import load_catalog

    return ["all", *sorted(f"{cloud}:{name}" for cloud, name in load_catalog().instances)]


def region_names() -> list[str]:
    """Areas and countries with a region of any cloud, and regions of all clouds."""
    from gpufleet.catalog.areas import located_area_words
    from gpufleet.catalog.load import load_catalog

    catalog = load_catalog()
    regions = {region for regions in catalog.regions.values() for region in regions}
    return list(dict.fromkeys([*located_area_words(catalog), *sorted(regions)]))


def engine_names() -> list[str]:
    """Engines."""
    from gpufleet.catalog.engine_eras import load_eras

    return sorted(load_eras())


def route_names() -> list[str]:
    """How requests are dealt out to replicas."""
    from gpufleet.domain.routing import ROUTINGS

    return list(ROUTINGS)


def arrival_names() -> list[str]:
    """Ways in which requests arrive."""
    from gpufleet.questions.simulation import ARRIVALS

    return list(ARRIVALS)


def stack_names() -> list[str]:
    """Software that trains."""
    from gpufleet.domain.training import Stack

    return [stack.value for stack in Stack]


def price_kinds() -> list[str]:
    """Kinds of prices."""
    from gpufleet.domain.offer import PriceKind

    return [kind.value for kind in PriceKind]


NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "MODEL": model_names,
    "A B": compared_names,
    "--gpus": gpu_names,
    "--gpu": gpu_names,
    "--cloud": cloud_names,
    "--clouds": cloud_names,
    "--providers": provider_words,
    "--region": region_names,
    "--regions": region_names,
    "--engine": engine_names,
    "--stack": stack_names,
    "--pricing": price_kinds,
    "--kind": price_kinds,
    "--accept": machine_names,
    "--route": route_names,
    "--arrival": arrival_names,
}
