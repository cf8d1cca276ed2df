"""Decoding the API server's answers object by object: an invalid object does not affect the others."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.cluster.objects import Node, Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core import gang
from kajitori.core.spec.reading.status_check import damage
from kajitori.core.spec.reasons import Phase, Reason
from kajitori.core.spec.status import RunStatus, to_document
from kajitori.core.spec.status_parts.attempts import Attempt, template_text
from kajitori.kube.decoding import EventKind, decode, decode_events, decode_page
from kajitori.kube.errors import GoneError, ServerError

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def pod(name: str, **more: Any) -> dict[str, Any]:
    """A minimal Pod."""
    return {"metadata": {"name": name, "resourceVersion": name.removeprefix("p")}, **more}


def lines(*events: tuple[str, Any]) -> bytes:
    """Events as lines of a watch."""
    return b"".join(json.dumps({"type": kind, "object": thing}).encode() + b"\n" for kind, thing in events)


def test_field_names_are_those_of_kubernetes() -> None:
    """Abbreviations keep their capitals."""
    status = {"podIP": "10.0.0.1", "hostIP": "172.16.0.1", "startTime": "t"}
    found = decode(json.dumps(pod("p1", status=status)).encode(), Pod)
    assert (found.status.pod_ip, found.status.host_ip, found.status.start_time) == ("10.0.0.1", "172.16.0.1", "t")
    where = {"addresses": [{"type": "A", "address": "b"}]}
    node = decode(json.dumps({"metadata": {"name": "n"}, "status": where}).encode(), Node)
    assert (node.address("X", "A"), node.address("X"), node.is_ready) == ("b", "", False)


def test_all_states_of_containers_are_read() -> None:
    """Waiting, running and terminated, now and before."""
    state = {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "finishedAt": "t"}}
    container = {
        "name": "main",
        "restartCount": 2,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": state,
    }
    found = decode(json.dumps(pod("p1", status={"containerStatuses": [container]})).encode(), Pod)
    told = found.status.container_statuses[0]
    assert told.state.waiting is not None
    assert told.state.waiting.reason == "CrashLoopBackOff"
    assert told.state.running is None
    assert told.last_state.terminated is not None
    assert (told.last_state.terminated.exit_code, told.last_state.terminated.reason) == (137, "OOMKilled")


def test_a_run_keeps_its_spec_as_bytes() -> None:
    """The spec is not interpreted, and the status may be missing."""
    run = decode(b'{"metadata": {"name": "r"}, "spec": {"image":  "x", "odd": [1e3]}}', RunObject)
    assert bytes(run.spec) == b'{"image":  "x", "odd": [1e3]}'
    assert run.status is None


def test_an_invalid_object_in_a_list_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The page has its other objects, version and token, and the log names what was left out."""
    items = [pod("p1"), {"metadata": {"name": 7}}, pod("p3", status=None), pod("p4", status={"phase": ["no"]})]
    document = {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": items}
    with caplog.at_level(logging.WARNING):
        page = decode_page(json.dumps(document).encode(), Pod)
    assert [found.metadata.name for found in page.items] == ["p1", "p3"]
    assert (page.resource_version, page.token) == ("9", "t")
    assert len(caplog.records) == 2


def test_an_invalid_object_in_a_watch_is_left_out() -> None:
    """The other objects are yielded, and the position moves past it."""
    block = decode_events(lines(("ADDED", pod("p1")), ("MODIFIED", pod("p2", spec=3)), ("DELETED", pod("p3"))), Pod)
    assert [(event.type, event.object.metadata.name) for event in block.events] == [
        (EventKind.ADDED, "p1"),
        (EventKind.DELETED, "p3"),
    ]
    assert block.resource_version == "3"
    last = decode_events(lines(("ADDED", pod("p1")), ("MODIFIED", pod("p2", spec=3))), Pod)
    assert last.resource_version == "2"


def test_the_deletion_of_an_invalid_object_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Its name suffices; the log names what was left out."""
    strange = {"metadata": {"name": "p2", "namespace": "a", "resourceVersion": "2"}, "spec": 3}
    block = decode_events(lines(("MODIFIED", strange), ("DELETED", strange), ("DELETED", {"metadata": {}})), Pod)
    assert [(event.type, event.object.metadata.name) for event in block.events] == [
        (EventKind.DELETED, "p2"),
        (EventKind.DELETED, ""),
    ]
    assert "a/p2" in caplog.records[0].getMessage()


def test_bookmarks_change_only_the_version() -> None:
    """A bookmark is not an object, although it looks like one."""
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "50", "creationTimestamp": None}, "spec": {}}
    whole = bookmark | {"metadata": {"name": "", "resourceVersion": "60"}}
    block = decode_events(lines(("ADDED", pod("p1")), ("BOOKMARK", bookmark)), Pod)
    assert ([event.object.metadata.name for event in block.events], block.resource_version) == (["p1"], "50")
    assert decode_events(lines(("BOOKMARK", whole)), Pod).events == []
    assert decode_events(lines(("BOOKMARK", whole)), Pod).resource_version == "60"


def test_an_error_event_ends_the_block() -> None:
    """Events before it count, and the error is typed."""
    status = {"kind": "Status", "metadata": {}, "code": 410, "reason": "Expired", "message": "too old"}
    block = decode_events(lines(("ADDED", pod("p1")), ("ERROR", status)), Pod)
    assert len(block.events) == 1
    assert isinstance(block.error, GoneError)


def test_invalid_json_is_an_error_of_the_server() -> None:
    """Bytes that are not JSON, or not an event, lead to a typed error."""
    for garbage in (b"<html>\n", b'{"type": "SOMETHING", "object": {}}\n', b"[]\n", b'{"type":"ADDED"\n'):
        with pytest.raises(ServerError):
            decode_events(garbage, Pod)
    with pytest.raises(ServerError):
        decode_page(b"<html>", Pod)


def test_a_run_keeps_its_spec_unchanged_beside_nulls() -> None:
    """A null elsewhere must not make the whole Run unreadable."""
    document = (
        b'{"metadata":{"name":"x","labels":null},"spec":{"image":"a"},"status":{"phase":"Queued","notable":null}}'
    )
    run = decode(document, RunObject)
    assert (bytes(run.spec), run.status) == (b'{"image":"a"}', RunStatus())


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["number", "nodes", "spec"]), inner),
    max_leaves=6,
)
SOUND = to_document(
    RunStatus(
        phase=Phase.RUNNING,
        attempt=Attempt(
            number=1, nodes="n[1-2]", template=template_text({"spec": {"containers": [{"name": "main"}]}}), created=True
        ),
        attempts=1,
        queued_at="2026-11-21T12:00:00Z",
    )
)


def test_a_template_that_was_stored_as_an_object_is_read() -> None:
    """The first format of templates; runs continue after an upgrade of Kajitori."""
    template = {"spec": {"containers": [{"name": "main"}]}}
    status = {**SOUND, "attempt": {**SOUND["attempt"], "template": template}}
    document = {"metadata": {"name": "x", "resourceVersion": "7"}, "spec": {}, "status": status}
    run = decode(msgspec.json.encode(document), RunObject)
    assert run.status is not None and to_document(run.status) == SOUND
    document["status"] = {**status, "restarts": -1}
    spoilt = decode(msgspec.json.encode(document), RunObject)
    assert spoilt.status is not None and spoilt.status.reason is Reason.STATUS_DAMAGED


@given(
    spoilt=st.dictionaries(st.sampled_from([*SOUND, "notBefore", "startedAt", "avoidNodes"]), JUNK),
    attempt=st.dictionaries(st.sampled_from(["number", "nodes", "ranks", "template", "port", "plannedAt"]), JUNK),
)
def test_a_run_with_any_status_can_be_read_and_has_a_next_step(spoilt: dict[str, Any], attempt: dict[str, Any]) -> None:
    """It can be shown, deleted and resumed, and does not affect other runs."""
    status = {**SOUND, **spoilt}
    if isinstance(status.get("attempt"), dict):
        status["attempt"] = {**status["attempt"], **attempt}
    document = {"metadata": {"name": "x", "resourceVersion": "7"}, "spec": {}, "status": status}
    run = decode(msgspec.json.encode(document), RunObject)
    assert run.status is None or not damage(run.status)
    for deleting in (False, True):
        for type in ("batch", "service"):
            gang.next_step(gang.run_without_spec(type, 3, run.status or RunStatus(), deleting), (), NOW)
