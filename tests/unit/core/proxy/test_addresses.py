"""Addresses of programs: paths, host names, and the origins that operators configure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kajitori.core.proxy.addresses import (
    HashedRun,
    Target,
    find_hashed,
    host_label,
    parse_origins,
    read_label,
    read_path,
    read_target,
)

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,30}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/proxy/team/nb/8888/", (Target("team", "nb", 8888), "/")),
        ("/proxy/team/nb/8888/lab/tree/a%2Fb", (Target("team", "nb", 8888), "/lab/tree/a%2Fb")),
        ("/proxy/team/nb/8888-3/x", (Target("team", "nb", 8888, 3), "/x")),
        ("/proxy/team/nb/8888", (Target("team", "nb", 8888), "")),
        ("/proxy/team/nb/8888//evil", (Target("team", "nb", 8888), "//evil")),
        *((f"/proxy/{wrong}", None) for wrong in ("", "team/nb/", "team/nb/0/", "team/nb/65536/", "team/nb/08/")),
        *(
            (f"/proxy/{wrong}", None)
            for wrong in ("te%61m/nb/80/", "team/N/80/", "team//80/", "../nb/80/", "team/nb/x/")
        ),
        ("/v1/runs", None),
    ],
)
def test_paths_name_a_port_of_a_member(path: str, found: object) -> None:
    assert read_path(path) == found


def test_targets_are_read_from_their_own_path_only() -> None:
    target = Target("team", "nb", 8888, 2)
    assert read_target(target.path.removeprefix("/proxy/")) == target
    assert read_target("team/nb/8888/lab") is None


@settings(max_examples=40)
@given(NAMES, NAMES, st.integers(1, 65_535), st.integers(0, 99_999))
def test_every_target_is_found_by_its_host_name(namespace: str, run: str, port: int, rank: int) -> None:
    target = Target(namespace, run, port, rank)
    label = host_label(target)
    assert len(label) <= 63
    named = read_label(label)
    assert (find_hashed(named, [("a", "b"), (namespace, run)]) if isinstance(named, HashedRun) else named) == target


def test_names_that_could_be_confused_have_different_labels() -> None:
    """`a--b` in `c` and `a` in `b--c` would be one label."""
    assert host_label(Target("c", "a--b", 80)) != host_label(Target("b--c", "a", 80))
    assert host_label(Target("vision", "nb", 8888)) == "8888--nb--vision"
    assert isinstance(read_label(host_label(Target("n" * 63, "r" * 48, 8888))), HashedRun)


def test_an_origin_of_its_own_for_each_program() -> None:
    origins = parse_origins("https://*.runs.example.org")
    target = Target("team", "nb", 8888)
    assert origins.origin_of(target, 7777) == "https://8888--nb--team.runs.example.org"
    assert origins.label_of("8888--nb--team.runs.example.org") == "8888--nb--team"
    assert origins.label_of("8888--nb--team.runs.example.org:443") == "8888--nb--team"
    for other in ("runs.example.org", "a.b.runs.example.org", "kaji.example.org", "x.runs.example.org:8443", "", "["):
        assert origins.label_of(other) is None


def test_names_below_localhost_have_the_port_of_the_server() -> None:
    origins = parse_origins("http://*.localhost")
    assert origins.origin_of(Target("team", "nb", 8888), 7777) == "http://8888--nb--team.localhost:7777"
    assert origins.label_of("8888--nb--team.localhost:9999") == "8888--nb--team"
    assert origins.label_of("localhost:7777") is None
    assert origins.label_of("127.0.0.1:7777") is None


def test_one_origin_for_all_programs() -> None:
    origins = parse_origins("https://programs.example.org:8443")
    assert origins.origin_of(Target("team", "nb", 8888), None) == "https://programs.example.org:8443"
    assert (origins.label_of("programs.example.org:8443"), origins.label_of("programs.example.org")) == ("", None)


@pytest.mark.parametrize(
    "text", ["runs.example.org", "ftp://a.b", "https://", "https://a.*.b", "https://*", "http://a/b"]
)
def test_addresses_that_are_no_origin_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is not the address|the host is not a name"):
        parse_origins(text)
