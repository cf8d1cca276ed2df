"""Tools that change something. They are offered only if the person allowed it when the server was started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kajitori.client.models import RunState
from kajitori.errors import InvalidInput
from kajitori.mcp import answers, arguments
from kajitori.mcp.session import Session


async def start_run(session: Session, asked: arguments.StartRun) -> answers.Changed:
    """Start a run and return at once. Every fault is named, and then nothing was made. Ask what_if first."""
    options = asked.options()
    if asked.code is not None:
        if not Path(asked.code).is_absolute():
            hint = "an assistant's tools have no folder of their own"
            raise InvalidInput.one("code", "must be an absolute path", value=asked.code, hint=hint)
        options["code"] = asked.code
    run = await session.client.run(asked.image, asked.command, **options)
    return _changed("started", run.state)


async def stop_run(session: Session, asked: arguments.Stop) -> answers.Changed:
    """Stop a run; its checkpoint is kept, and resume_run starts it again. Needs its whole name."""
    if asked.now and asked.grace is not None:
        raise InvalidInput.one("grace", "excludes now", value=asked.grace, hint="leave one of them out")
    name = await _whole_name(session, asked.run)
    found = await (session.client.kill(name) if asked.now else session.client.stop(name, asked.grace))
    return _changed("stopping", found.state)


async def resume_run(session: Session, asked: arguments.OfRun) -> answers.Changed:
    """Start an ended run again from its checkpoint. Needs its whole name."""
    name = await _whole_name(session, asked.run)
    return _changed("resumed", (await session.client.resume(name)).state)


async def delete_run(session: Session, asked: arguments.Delete) -> answers.Changed:
    """Delete a run that has ended; `force` kills another one, `checkpoint` deletes its files too. Needs its whole
    name."""
    name = await _whole_name(session, asked.run)
    run = await session.client.get(name)
    await run.remove(force=asked.force, checkpoint=asked.checkpoint)
    return _changed("deleted", run.state)


async def _whole_name(session: Session, run: str) -> str:
    view = await session.view_to_change(run)
    return f"{view['namespace']}/{view['name']}"


def _changed(done: str, state: RunState) -> answers.Changed:
    view: dict[str, Any] = msgspec.to_builtins(state)
    findings = state.status.get("findings") or []
    return answers.Changed(done=done, run=answers.RunLine.of_view(view), findings=findings)
