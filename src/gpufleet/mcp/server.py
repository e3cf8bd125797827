"""The server of the protocol: lists the tools, hands each call to the desk, and keeps this session's plans."""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp.types import Tool as OfferedTool

from gpufleet.cli.concerned import word_concerned
from gpufleet.cli.verb_words import Takes, Word
from gpufleet.errors import GpufleetError
from gpufleet.mcp.desk import Desk
from gpufleet.mcp.short_answer import Reply, refusal
from gpufleet.mcp.tool_words import TOOLS, Tool, description, input_schema, question, words_of_tool

MOST_PLANS = 16
INSTRUCTIONS = (
    "Plans GPU fleets: machines, layout, latency, throughput and cost, with a range and a grade on every figure. "
    "Say the verdict, range, grade and age of prices when you pass an answer on. Words are those of the command line: "
    "where an answer says --flips or --slo, the word is flips or slo. Amounts are texts with units: 50/s, 24h, 80GiB. "
    "Paths are not read; send content."
)


def serve() -> None:
    """Serve until the assistant hangs up; standard output carries the protocol alone."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    anyio.run(session)


async def session() -> None:
    """One assistant's session."""
    async with stdio_server() as (incoming, outgoing):
        desk = Desk()
        try:
            server = server_at(desk)
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            desk.close()


def server_at(desk: Desk) -> Server[Any]:
    """A server whose calls are answered at a desk."""
    kept: OrderedDict[str, str] = OrderedDict()
    by_name = {tool.name: tool for tool in TOOLS}

    async def on_list_tools(_: object, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[offered(tool) for tool in TOOLS])

    async def on_call_tool(_: object, call: CallToolRequestParams) -> CallToolResult:
        if call.name not in by_name:
            raise MCPError(INVALID_PARAMS, f"unknown tool; known: {', '.join(by_name)}")
        reply = await answer(desk, by_name[call.name], call.arguments or {}, kept)
        if reply.plan is not None:
            keep(kept, reply.facts["plan"], reply.plan)
        content = TextContent(type="text", text=reply.text)
        return CallToolResult(content=[content], structured_content=reply.facts, is_error=reply.is_error)

    return Server(
        "gpufleet",
        version=version("gpu-fleet-optimizer"),
        instructions=INSTRUCTIONS,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )


async def answer(desk: Desk, tool: Tool, arguments: Mapping[str, Any], kept: Mapping[str, str]) -> Reply:
    """The reply to a call; what is wrong with its words is said before anybody works on it."""
    try:
        asked = question(tool, arguments, kept)
    except GpufleetError as error:
        return concerning(refusal(error), tool, arguments)
    return concerning(await desk.ask(asked), tool, arguments)


def concerning(reply: Reply, tool: Tool, arguments: Mapping[str, Any]) -> Reply:
    """A reply that tells what is wrong, with the word that it is about."""
    if "problem" not in reply.facts:
        return reply
    words = words_of_tool(tool)
    said = {words[n].name if n in words else n: as_file(words.get(n), value) for n, value in arguments.items()}
    field = word_concerned(words.values(), said, reply.facts["problem"], reply.facts.get("found"))
    return replace(reply, facts={**reply.facts, "field": field and field.replace("-", "_")})


def as_file(word: Word | None, value: Any) -> Any:
    """What a word says; content under the name that an error calls it by."""
    if isinstance(value, list):
        return [as_file(word, each) for each in value]
    if word is None or not (word.may_be_file or word.takes is Takes.READ):
        return value
    return {"name": f"{word.name}.{word.suffix or 'json'}", "content": value}


def keep(kept: OrderedDict[str, str], name: str, plan: str) -> None:
    """Keep a plan under its id, the latest few."""
    kept[name] = plan
    kept.move_to_end(name)
    while len(kept) > MOST_PLANS:
        kept.popitem(last=False)


def offered(tool: Tool) -> OfferedTool:
    """A tool as the protocol describes it: it reads, and changes nothing."""
    return OfferedTool(
        name=tool.name,
        description=description(tool),
        input_schema=input_schema(tool),
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )
