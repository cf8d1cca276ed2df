"""The words of messages."""

from __future__ import annotations

from kajitori.core.formats.quantities import format_duration
from kajitori.core.messages.channels import Recipient
from kajitori.core.messages.idle_question import describe_gpus
from kajitori.core.messages.notices import ENDS_AT, RESTARTS
from kajitori.core.messages.outbox import Message
from kajitori.core.spec.notify import Kind
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.notices import Notice

_BODY_LIMIT = 3000
_TITLE_LIMIT = 180
_ENDS = {Phase.STOPPED: "was stopped", Phase.SUCCEEDED: "has succeeded"}
"""How a run has ended, by its phase. It has another phase if it was resumed before its message was written."""


def composed(
    notice: Notice,
    *,
    namespace: str,
    run: str,
    uid: str,
    status: RunStatus,
    channels: tuple[str, ...],
    last_lines: str = "",
) -> Message:
    """Return the message about a notice. `last_lines` is the end of a failed member's output."""
    title, lines = _title_and_lines(notice, f"{namespace}/{run}", status)
    if notice.kind == Kind.FAILED and last_lines:
        lines += ["", "Last lines of output:", last_lines[-(_BODY_LIMIT // 2) :]]
    lines += ["", f"kaji describe {run} -N {namespace}"]
    return Message(
        id=f"{uid}.{notice.id}",
        kind=notice.kind,
        at=notice.at,
        namespace=namespace,
        run=run,
        title=title[:_TITLE_LIMIT],
        body="\n".join(lines).strip()[:_BODY_LIMIT],
        channels=channels,
    )


def test_message(recipient: Recipient, channel: str, token: str, at: str) -> Message:
    """Return the message that `kaji notify test` asks for."""
    return Message(
        id=f"test.{token}",
        kind="test",
        at=at,
        namespace="",
        run="",
        title=f"A test of channel {channel} of {recipient.kind} {recipient.name}",
        body="If you can read this, messages about runs arrive here.",
        channels=(channel,),
    )


def _title_and_lines(notice: Notice, run: str, status: RunStatus) -> tuple[str, list[str]]:
    """Return the title, and the lines below it."""
    match notice.kind:
        case Kind.STARTED:
            waited = _round_duration(int(notice.text or 0))
            return f"{run} has started after {waited} in the queue", []
        case Kind.FAILED:
            reason = f" ({status.reason.value})" if status.reason and status.phase is Phase.FAILED else ""
            return f"{run} has failed{reason}", [notice.text, *_describe_counts(status)]
        case Kind.ENDED if notice.text == RESTARTS:
            return f"{run} restarts, because somebody asked for it", ["It is queued again."]
        case Kind.ENDED:
            how = _ENDS.get(status.phase, "has ended")
            how = "was parked" if status.reason is Reason.PARKED else how
            return f"{run} {how}{_after_how_long(status)}", [notice.text, *_describe_counts(status)]
        case Kind.PREEMPTED if notice.text.startswith(ENDS_AT):
            lines = ["Save your work: what is only in memory is lost.", "It starts again when it gets nodes."]
            return f"{run} is preempted, and its program is stopped {notice.text}", lines
        case Kind.PREEMPTED:
            return f"{run} was preempted {notice.text}", ["It goes on from its checkpoint when it gets nodes again."]
        case Kind.STUCK:
            return f"{run} makes no progress", [notice.text]
        case Kind.DRAINED:
            return f"{run} leaves a node that an operator drains", [notice.text]
        case Kind.IDLE:
            return _idle_words(notice, run, status)
        case Kind.TIME_LIMIT:
            left = f" in {_round_duration(int(notice.text))}" if notice.text else ""
            namespace, _, name = run.partition("/")
            return f"{run} reaches its time limit{left}", [
                "The run then ends. All progress since its last checkpoint is lost.",
                f"More time, if policy allows it: kaji update {name} -N {namespace} --time-limit TIME",
            ]
    return f"{run}: {notice.kind}", [notice.text]


def _idle_words(notice: Notice, run: str, status: RunStatus) -> tuple[str, list[str]]:
    """Return the question about idle GPUs, or the warning, with the commands that answer it."""
    namespace, _, name = run.partition("/")
    answers = [
        f"Still needed: kaji keep {name} -N {namespace} --until 18:00",
        f"Free the GPUs: kaji park {name} -N {namespace}",
        "Parking stops it after its checkpoint and keeps its folders. kaji resume starts it again.",
    ]
    idle = status.idle
    if idle is None:
        return f"{run} had idle GPUs", [notice.text]
    if idle.warned_at and idle.park_at:
        return f"{run} will be parked at {idle.park_at}: {describe_gpus(idle)} idle", [notice.text, "", *answers]
    return f"{run} holds {describe_gpus(idle)} that nothing uses", [notice.text, "", *answers]


def _round_duration(seconds: int) -> str:
    """Return a duration as text, from a minute on in whole minutes."""
    return format_duration(60 * round(seconds / 60) if seconds >= 60 else seconds)


def _after_how_long(status: RunStatus) -> str:
    if status.ran is None or not status.ran.seconds:
        return ""
    return f" after {format_duration(status.ran.seconds)}"


def _describe_counts(status: RunStatus) -> list[str]:
    """Return the counts of a sweep's members, of restarts, and of interruptions that were not the program's fault."""
    found = []
    if status.sweep is not None:
        members = status.members
        found.append(f"{members.total} members: {members.succeeded} succeeded, {members.failed} failed")
    setbacks = [
        f"{count} {word}" + ("" if count == 1 else "s")
        for count, word in ((status.restarts, "restart"), (status.interruptions, "interruption"))
        if count
    ]
    return [*found, ", ".join(setbacks)] if setbacks else found
