"""Answers and problems as replies of HTTP, in the format that was asked for."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from gpufleet.cli.verb_words import Question
from gpufleet.web.problems import Problem

TABLE, BESIDE, EXIT_CODE = "table", "further_files", "x-exit-code"
MEDIA = {
    "json": "application/json",
    "html": "text/html",
    "csv": "text/csv",
    "md": "text/markdown",
    "svg": "image/svg+xml",
    TABLE: "text/plain",
}
SUFFIX = {TABLE: "txt"}
POLICY = "default-src 'none'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"
STYLE = re.compile("<style>(.*?)</style>", re.DOTALL)


def format_of(request: Request, question: Question) -> tuple[str, bool]:
    """The format of the answer, and whether it is packed with its further files: by ?format=, else by Accept."""
    said = request.query_params.get("format")
    accepted = [part.partition(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    known = {**{name: name for name in question.formats}, "text": TABLE}
    by_media = {media: name for name, media in MEDIA.items()}
    found = known.get(said) if said else next((by_media[a] for a in accepted if a in by_media), "json")
    if found is None:
        raise Problem("no_format", "no such format", field="format", found=said, expected=", ".join(known))
    return found, "application/zip" in accepted


def answer_reply(told: Mapping[str, Any], output: str, *, is_packed: bool) -> Response:
    """An answer as it is printed; further files stand beside a JSON answer, else all of it is packed."""
    headers = {EXIT_CODE: str(told["exit_code"])}
    text, files = told["text"], told["files"]
    if is_packed or (files and output != "json"):
        return Response(
            packed({f"answer.{SUFFIX.get(output, output)}": text, **files}), 200, headers, "application/zip"
        )
    if files:
        text = json.dumps({**json.loads(text), BESIDE: files}, indent=2, ensure_ascii=False) + "\n"
    policy = {"content-security-policy": policy_with(styles_in(text))}
    return Response(text.encode("utf-8", "replace"), 200, headers | policy, MEDIA.get(output, MEDIA[TABLE]))


def packed(files: Mapping[str, str]) -> bytes:
    """Files as a zip."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text.encode("utf-8", "replace"))
    return stream.getvalue()


def problem_reply(problem: Problem) -> Response:
    """A problem as JSON."""
    content = json.dumps(problem.document, allow_nan=False).encode()
    headers = {"retry-after": "5"} if problem.code in ("too_many", "took_too_long") else {}
    headers |= {"www-authenticate": "Bearer"} if problem.code == "no_token" else {}
    return Response(content, problem.status, headers, "application/problem+json")


def reads_pages(headers: Headers) -> bool:
    """Whether a person asks with a browser."""
    return "text/html" in headers.get("accept", "")


def policy_with(styles: Iterable[str]) -> str:
    """The policy of a page: nothing but these styles, each by its hash."""
    hashes = {base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in styles}
    said = " ".join(f"'sha256-{digest}'" for digest in sorted(hashes))
    return f"{POLICY}; style-src {said}" if said else POLICY


def styles_in(text: str) -> list[str]:
    """The styles that stand in a page or a picture; what users said is escaped there, and is none of them."""
    return STYLE.findall(text)
