"""Serves the tools by the Model Context Protocol, with its official SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as OfferedTool
from pydantic import ValidationError

from kajitori import __version__
from kajitori.core.documents.faults import faults_of
from kajitori.errors import InvalidInput, KajitoriError
from kajitori.mcp.bounds import bounded
from kajitori.mcp.session import Session
from kajitori.mcp.tools import CHANGING, Tool, instructions, tools_of

_IN_TOOLS = {
    "see them all: kaji ps -a --all-users; removed ones: kaji history --all-users": (
        "list_runs lists them; with an empty owner those of all users"
    ),
    "see them all: kaji ps -a": "list_runs lists them",
    "remove it with force=True": "delete it with force",
    "stop it first": "stop it first with stop_run",
    "start it again: kaji resume": "start it again with resume_run:",
}
"""Hints of the client and of the server, each with the hint that an assistant gets instead."""

Context = ServerRequestContext[dict[str, Any]]


def mcp_server(session: Session, report_bug: Callable[[Exception], str]) -> Server[dict[str, Any]]:
    """Return a server that offers the tools. `report_bug` saves an unexpected error and returns where it is saved."""
    tools = {tool.name: tool for tool in tools_of(session)}

    async def list_tools(_: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_as_offered(tool) for tool in tools.values()])

    async def call_tool(_: Context, params: CallToolRequestParams) -> CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, _no_such_tool(params.name))
        try:
            answer = await _call_tool(session, tool, params.arguments or {})
        except KajitoriError as error:
            session.failed(error)
            return _result(bounded(_in_tools(error.document()), session.secrets)[0], is_error=True)
        except Exception as error:
            where = report_bug(error)
            bug = {"code": "Internal", "message": f"this is a bug in kaji ({type(error).__name__}); {where}"}
            return _result({"error": bug}, is_error=True)
        return _result(answer)

    return Server(
        "kajitori",
        version=__version__,
        title="Kajitori: machine-learning runs on a Kubernetes cluster",
        instructions=instructions(session),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(session: Session, report_bug: Callable[[Exception], str]) -> None:
    """Serve on standard input and output until the input ends."""
    server = mcp_server(session, report_bug)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        session.close()


async def _call_tool(session: Session, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        asked = tool.asks.model_validate(dict(given))
    except ValidationError as error:
        raise InvalidInput(list(faults_of(error, tool.asks, ""))) from None
    answer = await tool.do(session, asked)
    document, cut = bounded(answer.model_dump(mode="json"), session.secrets)
    return {**document, "cut": [*answer.cut, *cut]}


def _in_tools(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of an error with hints that name tools in place of commands."""

    def told(hint: str) -> str:
        for command, tool in _IN_TOOLS.items():
            hint = hint.replace(command, tool)
        return hint

    error = document["error"]
    faults = [{**fault, "hint": told(fault["hint"])} for fault in error["faults"]]
    return {"error": {**error, "hint": told(error["hint"]), "faults": faults}}


def _as_offered(tool: Tool) -> OfferedTool:
    return OfferedTool(
        name=tool.name,
        title=tool.title,
        description=tool.text,
        input_schema=compact_schema(tool.asks.model_json_schema(), ("title",)),
        output_schema=compact_schema(tool.answer.model_json_schema(mode="serialization"), ("title", "default")),
        annotations=ToolAnnotations(
            read_only_hint=not tool.changes,
            destructive_hint=tool.destroys,
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
    )


def compact_schema(schema: Any, without: Sequence[str]) -> Any:
    """Return a schema without the keywords `without`. An assistant reads all schemas at once, so they have to be
    short."""
    if isinstance(schema, list):
        return [compact_schema(part, without) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        word: {name: compact_schema(inner, without) for name, inner in part.items()}
        if word in ("properties", "$defs")
        else compact_schema(part, without)
        for word, part in schema.items()
        if word not in without
    }


def _result(document: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    text = TextContent(type="text", text=json.dumps(document, ensure_ascii=False))
    return CallToolResult(content=[text], structured_content=None if is_error else document, is_error=is_error)


def _no_such_tool(name: str) -> str:
    if any(tool.name == name for tool in CHANGING):
        return f"{name} changes something, which this server does not allow. Start it with `kaji mcp --allow-changes`"
    return f"there is no tool {name[:80]!r}. Ask for the list of tools"
