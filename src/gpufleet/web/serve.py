"""`gpufleet serve`: the questions of all verbs over HTTP, for this machine alone unless a host is named."""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Optional

import typer

from gpufleet.cli.options import verb, words
from gpufleet.errors import UsageError
from gpufleet.questions.words import FileUse
from gpufleet.units import HOUR

LOCAL = "127.0.0.1"
NEEDED = ("fastapi", "uvicorn", "jinja2", "prometheus_client", "python_multipart")
TOKEN_VARIABLE, TOKEN_BYTES, SHORTEST_TOKEN = "GPUFLEET_TOKEN", 16, 22
SUCH_A_TOKEN = "Such as: openssl rand -hex 16."
LAST_PORT = 65_535

app = verb()


PortOption = Annotated[
    int, typer.Option("--port", metavar="N", help="Port; 0: any that is free.", min=0, max=LAST_PORT)
]
HostOption = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="Where to listen; beyond this machine a token is needed.")
]
NameOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--name", metavar="HOST,...", help="Further names of this server, such as its proxy's."),
]
TokenOption = Annotated[
    str | None,
    typer.Option("--token-file", metavar="FILE", help="File of the token; else GPUFLEET_TOKEN, else one is made."),
    FileUse.READ,
]
SecondsOption = Annotated[
    int, typer.Option("--seconds", metavar="N", help="No answer takes longer.", min=1, max=int(HOUR))
]
OwnOption = Annotated[bool, typer.Option("--with-preferences", help="Answer by your preferences, prices and tables.")]


@app.command()
def serve(
    port: PortOption = 8080,
    host: HostOption = LOCAL,
    name: NameOption = None,
    token_file: TokenOption = None,
    seconds: SecondsOption = 30,
    with_preferences: OwnOption = False,
) -> int:
    """Forms for people at /, JSON for programs under /api/v1; ends with Ctrl-C."""
    refuse_missing()
    from gpufleet.report.output_stream import remark
    from gpufleet.web.guard import LOOPBACK, Rights
    from gpufleet.web.run import run
    from gpufleet.web.workers import Limits, environment_of_workers

    host = host.strip("[]")
    is_local = bracketed(host) in LOOPBACK
    token, is_made = token_of(token_file, is_wanted=not is_local)
    environment = environment_of_workers(os.environ, Path(), with_preferences=with_preferences)
    rights = Rights(frozenset({*LOOPBACK, bracketed(host), *map(str.lower, words(name or ()))}), token)
    if is_made:
        remark(f"The token, said once: {token}")
    if not is_local:
        remark("What is said goes over the network as it is: encryption (TLS) is the proxy's.")
    return run(host, port, rights, Limits(answer_s=seconds), environment)


def refuse_missing() -> None:
    """Say how to install what is missing."""
    missing = [module for module in NEEDED if find_spec(module) is None]
    if missing:
        hint = "Install it: pip install 'gpu-fleet-optimizer[web]'."
        raise UsageError("the extra 'web' is not installed", found=f"no {', '.join(missing)}", hint=hint)


def token_of(file: str | None, *, is_wanted: bool) -> tuple[str | None, bool]:
    """The token of a file or a variable; where there is none and one is wanted it is made."""
    from gpufleet.files import named_path, read_text_file

    given = read_text_file(named_path(file), "a token") if file else os.environ.get(TOKEN_VARIABLE, "")
    token = given.strip()
    if not token and file is None:
        return (secrets.token_urlsafe(TOKEN_BYTES), True) if is_wanted else (None, False)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        expected = f"at least {SHORTEST_TOKEN} letters, digits and signs"
        raise UsageError("the token is too short or cannot be typed", expected=expected, hint=SUCH_A_TOKEN)
    return token, False


def bracketed(host: str) -> str:
    """A host as requests name it.

    >>> bracketed("::"), bracketed("Lab.example")
    ('[::]', 'lab.example')
    """
    return f"[{host}]" if ":" in host else host.lower()
