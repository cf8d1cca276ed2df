"""The files that an agent reads, and its metrics."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kajitori.agent.counting import Counting
from kajitori.agent.exposition import Card, card_lines, cards, exposition, traffic_lines
from kajitori.agent.metrics_server import serve_metrics
from kajitori.agent.pods import NoPodsYet, PodFolder
from kajitori.agent.policy import TrafficSection
from kajitori.agent.state import LedgerFile, discard, exclusive_folder
from kajitori.configuration import private_files
from kajitori.configuration.options.nodes import AgentOptions
from kajitori.configuration.tls_files import FileText, ServingCertificate
from kajitori.core.traffic.totals import (
    HOST,
    Count,
    Counter,
    CounterName,
    Kind,
    Ledger,
    Pod,
    run_id,
    with_pods,
    with_reading,
)
from kajitori.embedded.apiserver.certificates import Certificates, ensure_certificates
from kajitori.entrypoints.agent import agent, remove
from kajitori.errors import Conflict, InvalidInput, Unavailable, Unsupported
from kajitori.monitoring.metrics import new_registry

OUT = Kind("internet", "out")


def pod(**fields: object) -> Pod:
    known = {"uid": "u1", "namespace": "vision", "name": "bert-1-0", "run": "bert", "runUid": "r1", "user": "ada"}
    return msgspec.convert({**known, **fields}, Pod)


def counting(folder: Path, *pods: Pod) -> Counting:
    """Return an agent after its Pods and node have sent 100 bytes each."""
    reading = {str(CounterName(uid, 0, OUT)): Counter("a", Count(100, 2)) for uid in (HOST, *(pod.uid for pod in pods))}
    ledger, _ = with_reading(with_pods(Ledger(), pods), reading, 0.0)
    file = LedgerFile(folder)
    file.save(ledger)
    return Counting([], PodFolder(folder / "pods"), file)


def series(text: bytes) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return the series by name and labels, as Prometheus reads them."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_series_have_the_labels_of_their_kind(tmp_path: Path) -> None:
    """Bytes and packets of Pod, run, namespace, user and node."""
    found = series(exposition(counting(tmp_path, pod()), new_registry()))
    kind = {"class": "internet", "direction": "out"}
    for name, labels in (
        ("pod", {"namespace": "vision", "pod": "bert-1-0", "run": "bert"}),
        ("run", {"namespace": "vision", "run": "bert", "run_id": run_id("r1"), "user": "ada"}),
        ("namespace", {"namespace": "vision"}),
        ("user", {"user": "ada"}),
        ("host", {}),
    ):
        key = tuple(sorted((labels | kind).items()))
        assert found[f"kajitori_traffic_{name}_bytes_total"] == {key: 100.0}
        assert found[f"kajitori_traffic_{name}_packets_total"] == {key: 2.0}
    assert found["kajitori_agent_repairs_total"] == {(): 0.0}
    assert "process_resident_memory_bytes" in found


def test_only_hardware_network_cards_are_listed(tmp_path: Path) -> None:
    """A card without a link has counters but no capacity."""
    for name, device, speed in (("eth0", True, "25000\n"), ("eth1", True, "-1\n"), ("veth1", False, "10000\n")):
        (tmp_path / name / "statistics").mkdir(parents=True)
        (tmp_path / name / "speed").write_text(speed)
        if device:
            (tmp_path / name / "device").mkdir()
        for number, counter in enumerate(("rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped"), 1):
            (tmp_path / name / "statistics" / counter).write_text(f"{number}\n")
        for counter in ("rx_missed_errors", "rx_fifo_errors", "rx_crc_errors", "tx_errors"):
            (tmp_path / name / "statistics" / counter).write_text("10\n")
    assert list(cards(tmp_path)) == [Card("eth0", 1, 2, 33, 14, 3_125_000_000), Card("eth1", 1, 2, 33, 14, 0)]
    found = series("\n".join(card_lines(cards(tmp_path))).encode() + b"\n")
    assert found["kajitori_card_capacity_bytes_per_second"] == {(("device", "eth0"),): 3_125_000_000.0}
    assert found["kajitori_card_bytes_total"][("device", "eth1"), ("direction", "out")] == 2.0
    assert list(cards(tmp_path / "nowhere")) == []


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r")))
def test_names_are_escaped_in_labels(name: str) -> None:
    """Prometheus reads the original."""
    ledger = Ledger(users={name: {"internet.out": Count(5, 1)}})
    found = series("\n".join(traffic_lines(ledger)).encode() + b"\n")["kajitori_traffic_user_bytes_total"]
    assert found == {(("class", "internet"), ("direction", "out"), ("user", name)): 5.0}


def test_metrics_and_health_are_served(tmp_path: Path) -> None:
    """An agent that reads nothing is unhealthy; a port in use is named."""
    told, well = counting(tmp_path, pod()), [True]
    with serve_metrics("127.0.0.1", 0, lambda: exposition(told, new_registry()), lambda: well[0]) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert (
                b'kajitori_traffic_user_bytes_total{user="ada",class="internet",direction="out"} 100' in answer.read()
            )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
        well[0] = False
        for path, code in (("healthz", 503), ("else", 404)):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}")
            assert caught.value.code == code
        with (
            pytest.raises(Unavailable, match=f"can't listen at 127.0.0.1, port {port}"),
            serve_metrics("127.0.0.1", port, lambda: b"", lambda: True),
        ):
            pass


def certificates_in(folder: Path) -> tuple[Certificates, ServingCertificate]:
    made = ensure_certificates(folder)
    return made, ServingCertificate(made.server, made.server_key)


def read_by_tls(port: int, authority: Path, token: str = "") -> bytes:
    request = urllib.request.Request(f"https://localhost:{port}/metrics")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=authority), timeout=5) as answer:
        return bytes(answer.read())


def test_metrics_are_served_by_tls_with_the_renewed_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client that says nothing, or speaks plain HTTP, neither delays another one nor is printed."""
    made, tls = certificates_in(tmp_path / "pki")
    with (
        serve_metrics("127.0.0.1", 0, lambda: b"x 1\n", lambda: True, tls=tls) as port,
        socket.create_connection(("127.0.0.1", port)),
    ):
        assert read_by_tls(port, made.ca) == b"x 1\n"
        with pytest.raises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)
        other, _ = certificates_in(tmp_path / "next")
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            read_by_tls(port, other.ca)
        for new, old in ((other.server, made.server), (other.server_key, made.server_key)):
            new.replace(old)
        assert read_by_tls(port, other.ca) == b"x 1\n"
    assert capsys.readouterr().err == ""


def test_metrics_need_the_token_if_there_is_one(tmp_path: Path) -> None:
    """It is read again when it changes, and an empty file opens nothing. Probes need no token."""
    made, tls = certificates_in(tmp_path / "pki")
    file = tmp_path / "token"
    file.write_text("first\n")
    token = FileText("--metrics-token", file)
    with serve_metrics("127.0.0.1", 0, lambda: b"x 1\n", lambda: True, tls=tls, token=token) as port:
        assert read_by_tls(port, made.ca, "first") == b"x 1\n"
        for content, refused in (("first", ("", "second", "firs")), ("second!", ("first", "second")), ("", ("", " "))):
            file.write_text(content)
            for given_token in refused:
                with pytest.raises(urllib.error.HTTPError) as caught:
                    read_by_tls(port, made.ca, given_token)
                assert caught.value.code == 401
        trusted = ssl.create_default_context(cafile=made.ca)
        with urllib.request.urlopen(f"https://localhost:{port}/healthz", context=trusted) as answer:
            assert answer.status == 200


def test_a_token_for_metrics_needs_tls_beyond_loopback(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x")
    AgentOptions(data=tmp_path, pods=tmp_path, metrics_token=file)
    with pytest.raises(InvalidInput, match="plain text"):
        AgentOptions(data=tmp_path, pods=tmp_path, metrics_token=file, host="0.0.0.0")


def test_a_missing_folder_does_not_mean_a_node_without_pods(tmp_path: Path) -> None:
    """Neither before it is created nor after it is deleted: all known Pods would end."""
    (tmp_path / "file").touch()
    for missing in (tmp_path / "network", tmp_path / "file"):
        folder = PodFolder(missing)
        with pytest.raises(NoPodsYet, match=f"--pods: there is no folder {missing} ") as error:
            folder.pods()
        assert "kaji node --pod-network namespace creates it" in str(error.value)
        assert folder.stamp() == folder.stamp()


def test_invalid_pod_files_are_logged_once_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = PodFolder(tmp_path / "network")
    (tmp_path / "network").mkdir()
    assert folder.pods() == {}
    before = folder.stamp()

    def write(name: str, content: bytes) -> None:
        (tmp_path / "network" / name).write_bytes(content)

    write("u1.json", msgspec.json.encode(pod(interface="v1", addresses=["10.0.0.1", "FD00::0001"])))
    write("a.json", b"{")
    write("b.json", msgspec.json.encode(pod(uid="u 2")))
    write("c.json", msgspec.json.encode(pod(uid="u3", interface='v"; flush ruleset')))
    write("d.json", msgspec.json.encode(pod(uid="u4", addresses=["10.0.0.1; flush ruleset"])))
    write("e.json", msgspec.json.encode(pod(uid=HOST)))
    write("f.json", b'{"uid": "u6", "namespace": "v", "name": "\xff"}')
    write("g.json", msgspec.json.encode(pod(uid="u7", addresses=["fe80::1%; flush ruleset"])))
    write("u5.new", msgspec.json.encode(pod(uid="u5")))
    assert folder.stamp() != before
    with caplog.at_level(logging.ERROR):
        assert folder.pods().keys() == folder.pods().keys() == {"u1"}
    assert folder.pods()["u1"].addresses == ("10.0.0.1", "fd00::1")
    assert len(caplog.records) == 7
    (tmp_path / "network" / "u1.json").unlink()
    assert folder.pods() == {}


@pytest.mark.parametrize("newer", ["u1", "u2"])
def test_the_newest_pod_comes_last(tmp_path: Path, newer: str) -> None:
    """So that it gets an address of a former Pod with a file that still exists, whatever their names."""
    for uid in ("u1", "u2"):
        file = tmp_path / f"{uid}.json"
        file.write_bytes(msgspec.json.encode(pod(uid=uid, addresses=["10.0.0.1"])))
        os.utime(file, (0, 2 if uid == newer else 1))
    assert list(PodFolder(tmp_path).pods())[-1] == newer


@pytest.mark.usefixtures("changes_count_at_once")
def test_only_the_traffic_section_of_policy_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A faulty change is ignored; a faulty file at the start is an error."""
    path = tmp_path / "policy.yaml"
    path.write_text("defaults: {cpu: lots}\ntraffic: {every: 30s, classes: {lan: [10.0.0.0/8]}}")
    section = TrafficSection(path)
    assert (section.current().every_seconds, section.classes.names) == (30, ("lan", "internet"))
    path.write_text("traffic: {every: never}")
    with caplog.at_level(logging.ERROR):
        assert section.current().every_seconds == 30
    assert "traffic.every" in caplog.text
    with pytest.raises(InvalidInput, match=r"traffic\.every"):
        TrafficSection(path)
    path.write_text("traffic: {classes: {wan: [11.0.0.0/8]}}")
    assert section.current().every_seconds == 15
    assert section.classes.names == ("wan", "internet")
    path.write_text("[1]")
    with pytest.raises(InvalidInput, match="mapping of sections"):
        TrafficSection(path)


@pytest.mark.parametrize(
    "spoilt",
    [b"{", b"", pytest.param(b"\0" * 4096, id="zeros"), b'{"life": "\xff"}', b'{"seen": {"x": 1}}'],
)
def test_the_ledger_is_stored_and_an_unreadable_one_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, spoilt: bytes
) -> None:
    """Only one agent at a time may use the folder."""
    monkeypatch.setattr(private_files, "LOCK_SECONDS", 0.0)
    folder = tmp_path / "data"
    with exclusive_folder(folder):
        with pytest.raises(Conflict, match="another agent uses"), exclusive_folder(folder):
            pass
        kept = counting(folder, pod()).ledger
        assert len(kept.life) == 16
        LedgerFile(folder).save(kept)
        assert LedgerFile(folder).load() == kept
        (folder / "traffic.json").write_bytes(spoilt)
        assert LedgerFile(folder).load() == Ledger()
        assert "can't be read and is kept as traffic.unreadable" in caplog.text
        assert (folder / "traffic.unreadable").read_bytes() == spoilt
        discard(folder)
    assert not folder.exists()
    (tmp_path / "file").touch()
    said = "/file/data cannot be written: Not a directory"
    with pytest.raises(Unavailable, match=said), exclusive_folder(tmp_path / "file" / "data"):
        pass


def test_only_root_may_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user is told so before anything is created."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(Unsupported, match="only root") as caught:
        agent(AgentOptions(data=tmp_path / "data", pods=tmp_path))
    assert "sudo" in caught.value.hint
    with pytest.raises(Unsupported, match="only root"):
        remove(tmp_path / "data")
    assert not (tmp_path / "data").exists()
