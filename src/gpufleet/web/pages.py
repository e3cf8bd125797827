"""Plain pages: a list of questions, a form and an answer for each; they work without a script."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from gpufleet.cli.verb_words import Question, Takes, Word, questions
from gpufleet.errors import GpufleetError
from gpufleet.table import SUCH_AS
from gpufleet.web.asked import Server
from gpufleet.web.bodies import Fields, address_of, form_in, said_in, text_in
from gpufleet.web.form_style import FORM_STYLE
from gpufleet.web.guard import COOKIE
from gpufleet.web.problems import Problem, of_error, told_error
from gpufleet.web.replies import EXIT_CODE, answer_reply, format_of, policy_with, styles_in

HTML_FORMATS = ("json", "csv", "md", "table")


@cache
def templates() -> Environment:
    """Templates in which every text is text."""
    folder = Path(__file__).parent / "templates"
    made = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.tests |= {
        "yes": lambda word: word.takes in (Takes.FLAG, Takes.WRITTEN),
        "of_files": lambda word: word.takes is Takes.READ or word.may_be_file,
    }
    return made


class Pages:
    """The pages of one server."""

    def __init__(self, server: Server):
        self.server = server

    def add_to(self, app: FastAPI) -> None:
        """Their routes."""
        for method, path, reply in (
            ("GET", "/", self.index),
            ("GET", "/ask/{path:path}", self.ask),
            ("POST", "/ask/{path:path}", self.ask_with_files),
            ("GET", "/answers/{name}", self.kept),
            ("GET", "/sign-in", self.sign_in),
            ("POST", "/sign-in", self.signed_in),
        ):
            app.add_api_route(path, reply, methods=[method], include_in_schema=False, response_model=None)

    async def index(self, request: Request) -> Response:
        """Every question with its purpose, by verb."""
        groups: dict[str, list[Question]] = {}
        for question in questions().values():
            groups.setdefault(question.verb[0], []).append(question)
        return page("index.html", title="gpufleet", groups=groups)

    async def ask(self, request: Request) -> Response:
        """The form of a question; with words in the address their answer, above the form that asked it."""
        question, said = self.question(request), {}
        try:
            said = address_of(request, question)
            if not request.query_params:
                return self.form(question, said)
            output, is_packed = format_of(request, question)
            if output == "html":
                return self.answer(question, said, await self.server.answer(question, said, "html"))
            return answer_reply(await self.server.answer(question, said, output), output, is_packed=is_packed)
        except GpufleetError as error:
            return self.form(question, said, of_error(told_error(error), question, said))
        except Problem as problem:
            return self.form(question, said, problem)

    async def ask_with_files(self, request: Request) -> Response:
        """The same where files came with the form: the answer has an address of its own."""
        question, said = self.question(request), {}
        try:
            form = await form_in(request)
            self.refuse_foreign(form)
            said = said_in(form, question)
            job = self.server.begin(question, said, "html")
            await job.task
        except GpufleetError as error:
            return self.form(question, said, of_error(told_error(error), question, said))
        except Problem as problem:
            return self.form(question, said, problem)
        return RedirectResponse(f"/answers/{job.name}", 303)

    async def kept(self, request: Request) -> Response:
        """An answer that this server gave."""
        job = self.server.jobs.job(request.path_params["name"])
        if job.output != "html":
            raise Problem("not_found", "no such page")
        return self.answer(job.question, job.said, job.answer())

    async def sign_in(self, request: Request) -> Response:
        """Where the token is asked for, once."""
        return page("sign_in.html", title="Sign in", form=self.server.form, is_wrong=False)

    async def signed_in(self, request: Request) -> Response:
        """Takes the token; the cookie that stands for it is sent by pages of this server alone."""
        form = await form_in(request)
        self.refuse_foreign(form)
        if not self.server.rights.is_token(text_in(form, "token")):
            return page("sign_in.html", 401, title="Sign in", form=self.server.form, is_wrong=True)
        reply = RedirectResponse("/", 303)
        reply.set_cookie(COOKIE, self.server.rights.cookie, httponly=True, samesite="strict", path="/")
        return reply

    def refuse_foreign(self, form: Fields) -> None:
        """Refuse a form that is none of this server's."""
        if not hmac.compare_digest(text_in(form, "form").encode(), self.server.form.encode()):
            raise Problem("foreign", "the form is none of this server's", hint="Load the page again.")

    def question(self, request: Request) -> Question:
        """The question that an address names."""
        found = questions().get(request.path_params["path"])
        if found is None:
            raise Problem("not_found", "no such question", hint="/ lists them.")
        return found

    def form(self, question: Question, said: Mapping[str, Any], problem: Problem | None = None) -> Response:
        """The form of a question, and what was wrong with it."""
        return self.shown(question, said, problem.status if problem else 200, problem=problem, answer="", files={})

    def answer(self, question: Question, said: Mapping[str, Any], told: Mapping[str, Any]) -> Response:
        """The product's own page inside of ours."""
        inner = told["text"].partition("<main>")[2].rpartition("</main>")[0]
        reply = self.shown(question, said, 200, problem=None, answer=Markup(inner), files=told["files"])
        reply.headers[EXIT_CODE] = str(told["exit_code"])
        return reply

    def shown(
        self, question: Question, said: Mapping[str, Any], status: int, problem: Problem | None, **further: Any
    ) -> Response:
        """A form with what was said in it."""
        has_files = any(isinstance(each, Mapping) for value in said.values() for each in as_list(value))
        address = "" if has_files else urlencode([(n, typed(e)) for n, v in said.items() for e in as_list(v)])
        shown = {word.name: shown_text(word, said) for word in question.words}
        return page(
            "ask.html",
            status,
            title=f"gpufleet {' '.join(question.verb)}",
            question=question,
            such_as=SUCH_AS.get(" ".join(question.verb)),
            headings=by_heading(question),
            shown=shown,
            concerned=[name for name, text in shown.items() if text] + ([problem.field] if problem else []),
            form=self.server.form,
            address=address,
            formats=HTML_FORMATS,
            problem=problem,
            **further,
        )


def by_heading(question: Question) -> dict[str, list[Word]]:
    """Words under the headings of their help."""
    found: dict[str, list[Word]] = {}
    for word in question.words:
        found.setdefault(word.heading, []).append(word)
    return found


def shown_text(word: Word, said: Mapping[str, Any]) -> str:
    """What a field shows: what was said of its word in text."""
    value = next((said[name] for name in (word.name, *word.aliases) if name in said), None)
    return ",".join(typed(each) for each in as_list(value) if each and not isinstance(each, Mapping))


def as_list(value: object) -> list[Any]:
    """A value, or those of a list."""
    return list(value) if isinstance(value, list) else [value]


def typed(value: object) -> str:
    """A value as an address says it."""
    return "yes" if value is True else "no" if value is False else str(value)


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """A page with its policy: its own styles and those of the answer in it."""
    answer = str(values.get("answer", ""))
    text = templates().get_template(template).render(style=Markup(FORM_STYLE), **values)
    allowed = policy_with([FORM_STYLE, *styles_in(answer)])
    return HTMLResponse(text.encode("utf-8", "replace"), status, {"content-security-policy": allowed})
