"""Channels: the recipients of each kind of message, no URL in any output; and the words of messages."""

from __future__ import annotations

import pytest

from kajitori.core.messages.channels import Channel, chosen, person, recipients_of, redacted, team
from kajitori.core.messages.composing import composed
from kajitori.core.spec.notify import Notify
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.members import MemberCounts, SweepState
from kajitori.core.spec.status_parts.notices import Notice

MINE = {"slack": Channel(url="slack://a/b/c"), "mail": Channel(url="mailtos://x", kinds=("failed",))}
OURS = {"alerts": Channel(url="slack://d/e/f", kinds=("failed",))}
CASES: dict[str, tuple[Notify | None, str, tuple[str, ...], tuple[str, ...]]] = {
    "by the channels' own settings": (None, "failed", ("slack", "mail"), ("alerts",)),
    "another kind": (None, "ended", ("slack",), ()),
    "one channel": (Notify(channels=["slack"]), "failed", ("slack",), ("alerts",)),
    "one channel and other kinds": (Notify(channels=["mail"], kinds=["ended"]), "ended", ("mail",), ()),
    "all channels for one kind": (Notify(kinds=["ended"]), "ended", ("slack", "mail"), ()),
    "none": (Notify(kinds=[]), "failed", (), ("alerts",)),
    "the team's too": (Notify(channels=["alerts"], kinds=["ended"]), "ended", (), ("alerts",)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_chooses_channels_and_kinds(case: str) -> None:
    notify, kind, mine, ours = CASES[case]
    assert chosen(person("ada"), MINE, kind, notify) == mine
    assert chosen(team("vision"), OURS, kind, notify) == ours


def test_the_secret_of_a_person_has_a_valid_name_whatever_the_person_is_called() -> None:
    name = person("oidc:Ada Lovelace <ada@example.org>/x").secret
    assert name.startswith("person-") and len(name) == 47 and name != person("ada").secret
    assert team("vision").secret == "team-vision"
    assert recipients_of("", "vision") == (team("vision"),)


def test_nothing_of_a_url_is_in_an_error() -> None:
    text = "POST https://hooks.example.org/services/T1JJ3T3L2/TIiajkdnlazk failed: token TIiajkdnlazk is revoked"
    shown = redacted(text, ["slack://T1JJ3T3L2/TIiajkdnlazk/?x=hooks.example.org"])
    assert "TIiajkdnlazk" not in shown and "T1JJ3T3L2" not in shown and "revoked" in shown


def test_a_failure_is_told_with_reason_counts_and_last_lines() -> None:
    """Secrets of the run's own output are its owner's: policy's `logLines: 0` leaves the output out."""
    status = RunStatus(
        phase=Phase.FAILED,
        reason=Reason.PROGRAM_FAILED,
        restarts=2,
        interruptions=1,
        sweep=SweepState(),
        members=MemberCounts(total=1000, succeeded=0, failed=1000),
    )
    notice = Notice(id="failed.x", kind="failed", at="2026-11-23T12:00:00Z", text="1000 members failed")
    made = composed(
        notice, namespace="vision", run="grid", uid="u", status=status, channels=("slack",), last_lines="a\nboom"
    )
    assert (made.id, made.title) == ("u.failed.x", "vision/grid has failed (ProgramFailed)")
    for part in (
        "1000 members failed",
        "0 succeeded, 1000 failed",
        "2 restarts, 1 interruption\n",
        "a\nboom",
        "kaji describe grid",
    ):
        assert part in made.body


@pytest.mark.parametrize(
    ("kind", "text", "title"),
    [
        ("started", "7260", "has started after 2h1m in the queue"),
        ("ended", "", "has succeeded"),
        ("ended", "restarts", "restarts, because somebody asked for it"),
        ("preempted", "for nlp/gpt", "was preempted for nlp/gpt"),
        ("preempted", "at 12:40 for nlp/gpt", "is preempted, and its program is stopped at 12:40 for nlp/gpt"),
        ("drained", "", "leaves a node that an operator drains"),
        ("time-limit", "290", "reaches its time limit in 5m"),
        ("of-a-later-version", "", ": of-a-later-version"),
    ],
)
def test_each_kind_has_words(kind: str, text: str, title: str) -> None:
    notice = Notice(id="x", kind=kind, at="2026-11-23T12:00:00Z", text=text)
    status = RunStatus(phase=Phase.SUCCEEDED)
    made = composed(notice, namespace="vision", run="bert", uid="u", status=status, channels=("slack",))
    assert made.title.startswith("vision/bert") and made.title.endswith(title)


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("ended", "vision/bert has ended"),
        ("failed", "vision/bert has failed"),
    ],
)
def test_a_run_that_was_resumed_before_its_message_was_written_has_not_succeeded(kind: str, title: str) -> None:
    """The reason why it waits now is not shown as the reason of its end."""
    notice = Notice(id="x", kind=kind, at="2026-11-23T12:00:00Z", text="")
    status = RunStatus(phase=Phase.QUEUED, reason=Reason.WAITING_FOR_GPU)
    made = composed(notice, namespace="vision", run="bert", uid="u", status=status, channels=("slack",))
    assert made.title == title
