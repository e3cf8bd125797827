"""The routes: one a question under /api/v1, jobs, a description, health and counts; pages stand in `pages`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gpufleet.cli.verb_words import Question, questions
from gpufleet.web.asked import Server
from gpufleet.web.bodies import JSON, body_of, json_object
from gpufleet.web.guard import Guard, Rights
from gpufleet.web.jobs import Job
from gpufleet.web.pages import Pages
from gpufleet.web.problems import PROBLEM_SCHEMA, Problem
from gpufleet.web.replies import MEDIA, answer_reply, format_of, problem_reply
from gpufleet.web.words import schema_of
from gpufleet.web.workers import Limits

API = "/api/v1"
VERSION = "1"
Reply = Callable[[Request], Awaitable[Response]]
OF_STATUS = {404: "not_found", 405: "no_method"}
JOB_SCHEMA: dict[str, object] = {
    "type": "object",
    "required": ["id", "status", "question", "answer"],
    "properties": {
        **{name: {"type": "string"} for name in ("id", "question", "answer")},
        "status": {"enum": ["running", "done", "failed", "canceled"]},
    },
}


def application(rights: Rights, limits: Limits, environment: Mapping[str, str]) -> FastAPI:
    """The whole server."""
    server = Server(rights, limits, environment)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await server.pool.end()

    app = FastAPI(
        title="gpufleet",
        version=VERSION,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        exception_handlers={Problem: told_problem, HTTPException: told_http},
    )
    app.add_middleware(Guard, rights=rights)
    add_questions(app, server)
    add_jobs(app, server)
    Pages(server).add_to(app)
    add(app, "GET", "/healthz", healthy, summary="Whether the server is there")
    add(app, "GET", "/metrics", counted(server), summary="Counts for Prometheus")
    return app


def add(app: FastAPI, method: str, path: str, reply: Reply, **described: Any) -> None:
    """A route whose function makes the whole reply."""
    app.add_api_route(path, reply, methods=[method], response_model=None, name=f"{method} {path}", **described)


def add_questions(app: FastAPI, server: Server) -> None:
    """A route for each question."""
    for question in questions().values():
        add(
            app,
            "POST",
            f"{API}/{question.path}",
            asking(server, question),
            summary=question.purpose,
            tags=[question.verb[0]],
            operation_id=question.path.replace("/", "_"),
            responses=responses(question),
            openapi_extra=described(question),
        )


def asking(server: Server, question: Question) -> Reply:
    """What answers a question."""

    async def ask(request: Request) -> Response:
        output, is_packed = format_of(request, question)
        said = json_object(await body_of(request, JSON))
        if request.query_params.get("as") == "job":
            job = server.begin(question, said, output)
            return JSONResponse(told_job(job), 202, {"location": f"{API}/jobs/{job.name}"})
        return answer_reply(await server.answer(question, said, output), output, is_packed=is_packed)

    return ask


def add_jobs(app: FastAPI, server: Server) -> None:
    """Routes of jobs: where one stands, its answer, and its end."""

    async def status(request: Request) -> Response:
        return JSONResponse(told_job(server.jobs.job(request.path_params["name"])))

    async def answer(request: Request) -> Response:
        job = server.jobs.job(request.path_params["name"])
        packed = "application/zip" in request.headers.get("accept", "")
        return answer_reply(job.answer(), job.output, is_packed=packed)

    async def cancel(request: Request) -> Response:
        server.jobs.job(request.path_params["name"]).cancel()
        return Response(status_code=204)

    of_job = {"tags": ["jobs"], "openapi_extra": {"parameters": [JOB_NAME]}}
    failing: dict[int | str, Any] = {"default": PROBLEM_REPLY}
    seen: dict[int | str, Any] = {200: {"description": "The job", "content": {JSON: {"schema": JOB_SCHEMA}}}, **failing}
    add(app, "GET", f"{API}/jobs/{{name}}", status, summary="Where a job stands", responses=seen, **of_job)
    add(app, "GET", f"{API}/jobs/{{name}}/answer", answer, summary="The answer of a job", responses=failing, **of_job)
    ended = {"status_code": 204, "responses": failing}
    add(app, "DELETE", f"{API}/jobs/{{name}}", cancel, summary="Cancels a job", **ended, **of_job)


def told_job(job: Job) -> dict[str, str]:
    """A job as JSON."""
    answer = f"{API}/jobs/{job.name}/answer"
    return {"id": job.name, "status": job.status, "question": job.question.path, "answer": answer}


async def healthy(_: Request) -> Response:
    """The server is there."""
    return JSONResponse({"status": "ok"})


def counted(server: Server) -> Reply:
    """What was counted."""

    async def counts(_: Request) -> Response:
        return Response(server.counts.text(), media_type="text/plain; version=0.0.4")

    return counts


async def told_problem(_: Request, error: Exception) -> Response:
    """A problem of ours."""
    assert isinstance(error, Problem)
    return problem_reply(error)


async def told_http(_: Request, error: Exception) -> Response:
    """No such address, or no such method of it."""
    assert isinstance(error, HTTPException)
    code = OF_STATUS.get(error.status_code, "bad_body")
    reply = problem_reply(Problem(code, "no such address" if code == "not_found" else str(error.detail).lower()))
    reply.headers.update(error.headers or {})
    return reply


PROBLEM_REPLY: dict[str, Any] = {
    "description": "What went wrong",
    "content": {"application/problem+json": {"schema": PROBLEM_SCHEMA}},
}
JOB_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def responses(question: Question) -> dict[int | str, dict[str, Any]]:
    """What a question may be answered with."""
    media = {MEDIA.get(name, MEDIA["table"]) for name in question.formats} | {"application/zip"}
    content: dict[str, Any] = {each: {} for each in sorted(media)} | {JSON: {"schema": {"type": "object"}}}
    code = {
        "X-Exit-Code": {"description": "0; 3: nothing meets it; 4: a threshold is broken", "schema": {"type": "string"}}
    }
    return {
        200: {"description": "The answer, as the command prints it", "content": content, "headers": code},
        202: {"description": "A job", "content": {JSON: {"schema": JOB_SCHEMA}}},
        "default": PROBLEM_REPLY,
    }


def described(question: Question) -> dict[str, Any]:
    """The body and the query of a question for its description."""
    formats = [*question.formats, "text"]
    return {
        "requestBody": {"required": True, "content": {JSON: {"schema": schema_of(question)}}},
        "parameters": [
            {"name": "format", "in": "query", "schema": {"enum": formats}, "description": "Goes before Accept."},
            {"name": "as", "in": "query", "schema": {"enum": ["job"]}, "description": "Answer later: a job."},
        ],
    }
