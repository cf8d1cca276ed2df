"""The end of a run as an exit code and in words."""

from __future__ import annotations

from kajitori.client.views import View, phase_of, status_of

SIGKILL, SIGTERM = 9, 15
"""Linux' numbers, which Windows does not have."""

EXIT_CODE_BY_REASON = {
    "ProgramFailed": 1,
    "DependencyNeverSatisfied": 1,
    "Refused": 2,
    "RunsAsRoot": 2,
    "CommandNotFound": 127,
    "OutOfMemory": 128 + SIGKILL,
    "TimeLimit": 128 + SIGTERM,
}


def exit_code_of(run: View) -> int:
    """Return the exit code for an ended run: the program's own, else what a shell would give, else 125."""
    status = status_of(run)
    phase, code = phase_of(run), status.get("exitCode")
    if phase == "Succeeded":
        return 0
    if phase == "Stopped":
        return int(code) if code is not None else 128 + SIGTERM
    if code:
        return int(code)
    return EXIT_CODE_BY_REASON.get(str(status.get("reason") or ""), 125)


def end_words(run: View) -> str:
    """Return a line about the end of a run that did not succeed; empty for one that did."""
    phase, status = phase_of(run), status_of(run)
    if phase == "Succeeded":
        return ""
    if phase == "Stopped":
        return f"{run['name']} was stopped"
    if ended_by_its_user(run):
        return f"{run['name']} ended with exit code {exit_code_of(run)}"
    return ": ".join(
        str(part) for part in (f"{run['name']} failed", status.get("reason"), status.get("message")) if part
    )


def ended_by_its_user(run: View) -> bool:
    """Whether a program with a terminal ended with an exit code of its own. A shell has that of the last command that
    was typed into it, so the code tells nothing that the user has not seen."""
    return bool((run.get("spec") or {}).get("tty")) and status_of(run).get("reason") == "ProgramFailed"
