"""`gpufleet mcp` as an assistant meets it: a client of the protocol's package over standard input and output."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from tests.corpus.asked import of_command
from tests.corpus.commands import commands

from gpufleet.cli.answered import answered
from gpufleet.mcp import desk, verb
from gpufleet.mcp.short_answer import COLUMNS, MOST_LINES, shortened
from gpufleet.mcp.tool_words import TOOLS, input_schema, question, words_of_tool

pytest.importorskip("mcp")
from mcp import ClientSession
from tests.corpus.faces import ASSISTANT, LINE, Outcome, assistant, by_assistant, typed

SERVED = {"model": "llama-3.1-8b", "rate": "5/s", "in": 500, "out": "100", "gpus": ["L4", "L40S"]}
CONFIG = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
    "intermediate_size": 1024, "vocab_size": 1000, "max_position_embeddings": 2048,
}  # fmt: skip
GOOD: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "serve": ("plan_serve", SERVED),
    "batch": ("plan_batch", {**SERVED, "rate": None, "requests": "1M", "deadline": "24h"}),
    "estimate": ("estimate", {"model": "llama-3.1-8b", "gpus": "L40S:1", "in": 1000, "out": 200, "rate": "1/s"}),
    "fit": ("fit", {"model": "llama-3.3-70b", "gpus": "L40S:4"}),
    "unfit": ("fit", {"model": "llama-3.3-70b", "gpus": "L4:1"}),
    "config": ("fit", {"model": CONFIG, "gpus": "L4:1"}),
    "config as text": ("fit", {"model": json.dumps(CONFIG), "gpus": "L4:1"}),
    "compare": (
        "compare",
        {"sides": ["H100:8", "L40S:8"], "model": "llama-3.1-8b", "rate": "5/s", "in": 1000, "out": 300},
    ),
    "catalog": ("catalog_search", {"table": "gpus", "gpu": "H100", "limit": 5}),
    "prices": ("catalog_search", {"table": "prices", "gpu": ["H100"]}),
    "none": ("plan_serve", {**SERVED, "slo": "ttft.p95<1ms"}),
}
AS_TYPED = (
    "fit", "fit-no-room", "estimate-batch", "catalog-gpus", "encoder-serve", "wrong-model", "wrong-gpu", "wrong-rate",
    "wrong-missing-in", "wrong-key",
)  # fmt: skip
"""Commands of the corpus that a tool says too."""
ABOUT_A_PLAN = ("explain", "what_would_change", "compare")
BAD: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "unknown word": ("fit", {"model": "llama-3.1-8b", "gpu": "L4:1"}),
    "no such table": ("catalog_search", {"table": "passwords"}),
    "wrong type": ("fit", {"model": "llama-3.1-8b", "gpus": {"L4": 1}}),
    "no flag": ("plan_serve", {**SERVED, "fractions": "yes"}),
    "missing": ("estimate", {"gpus": "L4:1"}),
    "unit": ("plan_serve", {**SERVED, "rate": "fast"}),
    "an option in a place": ("fit", {"model": "--out-file=x", "gpus": "L4:1"}),
    "output": ("fit", {"model": "llama-3.1-8b", "gpus": "L4:1", "out_file": "/tmp/x"}),
    "folder": ("plan_serve", {**SERVED, "catalog": "/etc"}),
    "path of a model": ("fit", {"model": "/etc/passwd", "gpus": "L4:1"}),
    "path of a plan": ("explain", {"plan": "/etc/passwd"}),
    "path of a workload": ("plan_serve", {"workload": "/etc/passwd"}),
    "path in a value": ("plan_serve", {**SERVED, "in": "/etc/passwd"}),
    "2 MB": ("explain", {"plan": '{"a": "' + "x" * 2_000_000 + '"}'}),
    "2 MB of a name": ("fit", {"model": "x" * 2_000_000, "gpus": "L4:1"}),
    "depth": ("fit", {"model": '{"a":' * 10_000 + "1" + "}" * 10_000, "gpus": "L4:1"}),
    "script": ("fit", {"model": "<script>alert(1)</script>", "gpus": "L4:1"}),
    "NUL": ("fit", {"model": "a\0b", "gpus": "L4:1"}),
    "empty": ("fit", {"model": "", "gpus": "L4:1"}),
}


async def asked() -> dict[str, Any]:
    """Everything that is asked of one server."""
    found: dict[str, Any] = {}
    async with assistant() as session:
        found["tools"] = (await session.list_tools()).tools
        for name, (tool, words) in {**GOOD, **BAD}.items():
            found[name] = await session.call_tool(tool, dict(words))
        plan = found["serve"].structured_content["plan"]
        for tool in ABOUT_A_PLAN:
            words = {"sides": [plan, plan]} if tool == "compare" else {"plan": plan}
            found[f"{tool} of a plan"] = await session.call_tool(tool, words)
        for name in AS_TYPED:
            command = of_command(commands()[name])
            found[f"typed {name}"] = await by_assistant(session, command, command.body)
        found["order"] = await ping_while_a_question_runs(session, plan)
        found["withdrawn after s"] = await withdrawn(session, plan)
        found["after"] = await session.call_tool(*GOOD["fit"])
    return found


async def ping_while_a_question_runs(session: ClientSession, plan: str) -> list[str]:
    """What is answered first."""
    order: list[str] = []

    async def ask() -> None:
        await session.call_tool("what_would_change", {"plan": plan})
        order.append("question")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.sleep(0.05)
        await session.send_ping()
        order.append("ping")
    return order


async def withdrawn(session: ClientSession, plan: str) -> float:
    """A question that its caller no longer waits for, and how long the next one then takes."""
    with anyio.move_on_after(0.1):
        await session.call_tool("what_would_change", {"plan": plan})
    started = time.monotonic()
    await session.send_ping()
    return time.monotonic() - started


@pytest.fixture(scope="module")
def replies() -> dict[str, Any]:
    """One session serves all tests."""
    return anyio.run(asked)


def test_eight_tools_take_the_words_of_their_verbs(replies: dict[str, Any]) -> None:
    listed = {tool.name: tool.input_schema for tool in replies["tools"]}
    assert {name: schema["required"] for name, schema in listed.items()} == {
        "plan_serve": [],
        "plan_batch": [],
        "estimate": ["model", "in", "out"],
        "fit": [],
        "compare": ["sides"],
        "catalog_search": ["table"],
        "explain": ["plan"],
        "what_would_change": ["plan"],
    }
    assert all(tool.annotations.read_only_hint for tool in replies["tools"])
    serve = listed["plan_serve"]["properties"]
    assert list(serve)[:5] == ["model", "rate", "in", "out", "slo"]
    assert serve["fractions"]["type"] == "boolean"
    assert serve["rows"]["type"] == "integer"
    assert serve["clouds"]["type"] == "array"
    assert not {"out_file", "output", "catalog", "picture", "seed_config", "trace"} & set(serve)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_words_that_are_named_first_are_words_of_the_verb(tool: Any) -> None:
    assert set(tool.first) <= set(words_of_tool(tool))
    assert all(part["description"] for part in input_schema(tool)["properties"].values())


@pytest.mark.parametrize("name", [*GOOD, *(f"{tool} of a plan" for tool in ABOUT_A_PLAN), "after"])
def test_an_answer_has_forty_lines_and_begins_with_the_verdict(name: str, replies: dict[str, Any]) -> None:
    reply = replies[name]
    lines = reply.content[0].text.splitlines()
    assert not reply.is_error, lines
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= COLUMNS
    assert lines[0].startswith("Verdict: ")
    assert any(line.startswith("Grade: ") for line in lines[:7])
    assert any(line.startswith("Prices: ") for line in lines[:7])
    assert len(json.dumps(reply.structured_content)) < 20_000


@pytest.mark.parametrize(("name", "words"), [(name, BAD[name]) for name in BAD], ids=list(BAD))
def test_what_is_wrong_is_said_by_its_parts(name: str, words: object, replies: dict[str, Any]) -> None:
    reply = replies[name]
    assert reply.is_error
    assert reply.structured_content["exit_code"] == 2
    assert reply.structured_content["problem"]
    assert "root:" not in reply.content[0].text
    assert len(reply.content[0].text) < 4_000


@pytest.mark.parametrize("name", AS_TYPED)
def test_an_assistant_is_told_as_the_command_line_says(name: str, replies: dict[str, Any]) -> None:
    asked = of_command(commands()[name])
    told = Outcome.of(asked, {LINE: typed(asked, asked.body), ASSISTANT: replies[f"typed {name}"]})
    assert told.differences == []
    assert set(told.told) == {LINE, ASSISTANT}


def test_that_nothing_will_do_is_an_answer(replies: dict[str, Any]) -> None:
    none, unfit = replies["none"].structured_content, replies["unfit"].structured_content
    assert (none["verdict"], none["exit_code"]) == ("infeasible", 3)
    assert (unfit["verdict"], unfit["exit_code"]) == ("does not fit", 3)


def test_the_figure_of_a_plan_comes_with_range_grade_and_age_of_prices(replies: dict[str, Any]) -> None:
    facts = replies["serve"].structured_content
    assert 0 < facts["low"] <= facts["usd_per_hour"] <= facts["high"]
    assert facts["grade"]
    assert facts["oldest_price_days"] > 0
    assert {row["quantity"] for row in replies["what_would_change of a plan"].structured_content["flips"]} > {"price"}


def test_a_ping_is_answered_while_a_question_runs(replies: dict[str, Any]) -> None:
    assert replies["order"] == ["ping", "question"]
    assert replies["withdrawn after s"] < 1


def test_standard_output_carries_the_protocol_alone() -> None:
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    calls = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "fit", "arguments": '
        + "[" * 10_000 + "]" * 10_000 + "}}",
        "no JSON \0 at all",
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "no_tool", "arguments": {}}}',
        '{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "fit", "arguments": {"x": NaN}}}',
        '{"jsonrpc": "2.0", "id": 5, "method": "ping"}',
    ]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "gpufleet", "mcp"], stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write("\n".join(calls) + "\n")
        server.stdin.flush()
        frames = []
        while not any(frame.get("id") == 5 for frame in frames):
            frames.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        frames += map(json.loads, server.stdout)
    assert all(frame["jsonrpc"] == "2.0" for frame in frames)
    assert next(frame for frame in frames if frame.get("id") == 3)["error"]["code"] == -32602
    assert server.returncode == 0


def test_a_question_without_end_is_ended_and_the_next_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both() -> tuple[Any, Any]:
        table = {tool.name: tool for tool in TOOLS}
        mine = desk.Desk()
        try:
            monkeypatch.setattr(desk, "LONGEST_S", 0.01)
            late = await mine.ask(question(table["plan_serve"], SERVED, {}))
            monkeypatch.setattr(desk, "LONGEST_S", 60.0)
            return late, await mine.ask(question(table["fit"], GOOD["fit"][1], {}))
        finally:
            mine.close()

    late, following = anyio.run(both)
    assert (late.is_error, following.is_error, following.facts["verdict"]) == (True, False, "fits")


def test_a_page_that_is_too_long_keeps_its_beginning_and_its_last_paragraph() -> None:
    page = [*(f"row {n}" for n in range(100)), "", "note", "ask on"]
    kept = shortened(["Verdict: feasible", ""], page)
    assert len(kept) == MOST_LINES
    assert (kept[2], kept[-2:]) == ("row 0", ["note", "ask on"])


def test_without_the_package_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "find_spec", lambda name: None)
    got = answered(["mcp"])
    assert (got.code, "[mcp]" in str(got.error and got.error.hint)) == (2, True)
