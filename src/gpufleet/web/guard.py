"""Who may ask: only this server's own pages and names, and whoever has its token; and what every answer forbids."""

from __future__ import annotations

import hashlib
import hmac
import re
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpufleet.records import dataclass
from gpufleet.web.problems import Problem
from gpufleet.web.replies import POLICY, problem_reply, reads_pages

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
TOKEN_BYTES, SHORTEST_TOKEN = 16, 22
COOKIE, BEARER = "gpufleet", "bearer "
OPEN = ("/healthz", "/sign-in")
"""Addresses that need no token."""
OURS = ("same-origin", "none")
ALWAYS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True)
class Rights:
    """The names under which this server may be spoken to, and the token that it wants, if any."""

    names: frozenset[str]
    token: str | None = None

    @property
    def cookie(self) -> str:
        """What a signed-in page shows in place of the token."""
        return hmac.new((self.token or "").encode(), b"page", hashlib.sha256).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether a text is the token, in the same time whatever it is."""
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def has_token(self, headers: Headers) -> bool:
        """Whether a request may be answered: by the token, or by the cookie of a page that signed in."""
        said = headers.get("authorization", "")
        if self.token is None or (said.lower().startswith(BEARER) and self.is_token(said[len(BEARER) :].strip())):
            return True
        try:
            shown = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return shown is not None and hmac.compare_digest(shown.value.encode(), self.cookie.encode())

    def refusal(self, path: str, headers: Headers) -> Problem | None:
        """Why a request is not answered."""
        hosts, origin, site = headers.getlist("host"), headers.get("origin"), headers.get("sec-fetch-site")
        if len(hosts) != 1 or re.sub(r":\d+$", "", hosts[0]).lower() not in self.names:
            return Problem("foreign", "the host is none of this server's names", expected=", ".join(sorted(self.names)))
        is_own_page = origin == "null" and site == "same-origin"  # what forms say where no referrer is told
        if origin is not None and not is_own_page and origin.partition("://")[2].lower() != hosts[0].lower():
            return Problem("foreign", "another site asks", expected="pages of this server alone")
        if site is not None and site not in OURS:
            return Problem("foreign", "another site asks", expected="pages of this server, or an address that is typed")
        if path not in OPEN and not self.has_token(headers):
            return Problem("no_token", "the token is missing or wrong", expected="Authorization: Bearer TOKEN")
        return None


class Guard:
    """Refuses before anything is read, and adds to every reply what a browser must not do with it."""

    def __init__(self, app: ASGIApp, rights: Rights):
        self.app, self.rights = app, rights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {**ALWAYS, "content-security-policy": POLICY}.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        refusal = self.rights.refusal(scope["path"], headers)
        if refusal is None:
            await self.app(scope, receive, guarded)
        elif refusal.code == "no_token" and reads_pages(headers):
            await RedirectResponse("/sign-in", status_code=303)(scope, receive, guarded)
        else:
            await problem_reply(refusal)(scope, receive, guarded)
