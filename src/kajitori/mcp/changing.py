"""Tools that change something. They are offered only with `kaji mcp --allow-changes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kajitori.client.models import RunState
from kajitori.client.signals import signal_name
from kajitori.core.formats.node_lists import compress_ranks
from kajitori.errors import InvalidInput
from kajitori.mcp import answers, arguments
from kajitori.mcp.session import Session


async def start_run(session: Session, asked: arguments.StartRun) -> answers.Changed:
    """Start a run, and return without waiting for it. If an option is wrong, nothing is created, and the answer lists
    every error. Use what_if first."""
    options = asked.options()
    if asked.code is not None:
        if not Path(asked.code).is_absolute():
            hint = "kaji mcp may run in any folder, so it cannot resolve a relative path"
            raise InvalidInput.one("code", "must be an absolute path", value=asked.code, hint=hint)
        options["code"] = asked.code
    run = await session.client.run(asked.image, asked.command, **options)
    return _answer_of_change("started", run.state)


async def stop_run(session: Session, asked: arguments.Stop) -> answers.Changed:
    """Stop a run. Its checkpoint is kept, and resume_run can start it again. The whole name of the run is needed."""
    if asked.now and asked.grace is not None:
        raise InvalidInput.one("grace", "cannot be combined with now", value=asked.grace, hint="leave one of them out")
    name = await _whole_name(session, asked.run)
    found = await (session.client.kill(name) if asked.now else session.client.stop(name, asked.grace))
    return _answer_of_change("stopping", found.state)


async def signal_run(session: Session, asked: arguments.Signal) -> answers.Signalled:
    """Send the programs of a run's members a signal, for example USR1 for a checkpoint. The run goes on; a program that
    ends by the signal has failed. To end a run use stop_run. The whole name of the run is needed."""
    name = await _whole_name(session, asked.run)
    programs = await session.client.signal(name, asked.signal, ranks=asked.members())
    return answers.Signalled(
        done="signalled",
        run=name,
        signal=signal_name(asked.signal),
        ranks=compress_ranks(program.rank for program in programs if not program.ignored),
        ignored_by=compress_ranks(program.rank for program in programs if program.ignored),
    )


async def resume_run(session: Session, asked: arguments.OfRun) -> answers.Changed:
    """Start an ended run again from its checkpoint. The whole name of the run is needed."""
    name = await _whole_name(session, asked.run)
    return _answer_of_change("resumed", (await session.client.resume(name)).state)


async def update_run(session: Session, asked: arguments.Update) -> answers.Changed:
    """Change the time limit, priority, restarts or array of a run without starting it again, or what happens after its
    end. Changes of an ended run apply when it is resumed. The whole name of the run is needed."""
    name = await _whole_name(session, asked.run)
    return _answer_of_change("changed", (await session.client.update(name, **asked.changes())).state)


async def delete_run(session: Session, asked: arguments.Delete) -> answers.Changed:
    """Delete a run that has ended. `force` also deletes a run that has not ended, and `checkpoint` also deletes its
    checkpoint files. The whole name of the run is needed."""
    name = await _whole_name(session, asked.run)
    run = await session.client.get(name)
    await run.remove(force=asked.force, checkpoint=asked.checkpoint)
    return _answer_of_change("deleted", run.state)


async def _whole_name(session: Session, run: str) -> str:
    view = await session.view_to_change(run)
    return f"{view['namespace']}/{view['name']}"


def _answer_of_change(done: str, state: RunState) -> answers.Changed:
    view: dict[str, Any] = msgspec.to_builtins(state)
    findings = state.status.get("findings") or []
    return answers.Changed(done=done, run=answers.RunLine.of_view(view), findings=findings)
