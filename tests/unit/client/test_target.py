"""The choice of the server for a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kajitori.client.target import Target, choose, contexts, find_target, target_of
from kajitori.configuration.contexts import SignedIn, path_of, write
from kajitori.embedded.apiserver.certificates import ensure_certificates
from kajitori.errors import InvalidInput, NotFound, Unauthenticated, Unavailable


def cluster(folder: Path, runtime: Path, **more: Any) -> Path:
    """Create a data folder as `kaji up` leaves it, with its link."""
    folder.mkdir()
    document = {"url": f"http://127.0.0.1/{folder.name}", "token": "t", "pid": os.getpid(), "namespace": "me", **more}
    file = folder / "kaji.json"
    file.write_text(json.dumps(document))
    links = runtime / "clusters"
    links.mkdir(parents=True, exist_ok=True)
    (links / folder.name).symlink_to(file)
    return folder


def dead_pid() -> int:
    """Return the number of a process that has ended."""
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return int(done.stdout)


def test_the_environment_comes_first(tmp_path: Path) -> None:
    """$KAJI_SERVER with $KAJI_TOKEN takes precedence over local clusters."""
    cluster(tmp_path / "a", tmp_path / "run")
    environment = {"KAJI_SERVER": "https://kaji.example.org/", "KAJI_TOKEN": "x\n", "KAJI_NAMESPACE": "team"}
    target = find_target(environment, None, tmp_path / "run")
    assert target == Target("https://kaji.example.org", "x", "team")
    assert not target.is_local


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://kaji.example.org", False),
        ("http://10.0.0.1:8600", False),
        ("http://127.0.0.1:8600", True),
        ("http://localhost:8600", True),
        ("http://[::1]:8600", True),
        ("https://kaji.example.org", True),
    ],
)
def test_a_token_is_sent_over_plain_http_only_to_this_machine(url: str, allowed: bool) -> None:
    """$KAJI_INSECURE_HTTP allows it."""
    environment = {"KAJI_SERVER": url, "KAJI_TOKEN": "x"}
    if allowed:
        assert find_target(environment, None).url == url
        return
    for value in ("", "0"):
        with pytest.raises(InvalidInput) as caught:
            find_target({**environment, "KAJI_INSECURE_HTTP": value}, None)
        assert "--insecure-http" in caught.value.faults[0].hint
    assert find_target({**environment, "KAJI_INSECURE_HTTP": "1"}, None).url == url


def test_a_file_names_the_certificate_authority_of_a_server(tmp_path: Path) -> None:
    """By $KAJI_CA, or written by `kaji up`. A file without certificates is refused by name."""
    made = ensure_certificates(tmp_path / "pki")
    folder = cluster(tmp_path / "a", tmp_path / "run", url="https://10.0.0.1:1", ca=str(made.ca))
    environment = {"KAJI_SERVER": "https://x.example", "KAJI_TOKEN": "x", "KAJI_CA": str(made.ca)}
    for target in (find_target({}, folder, tmp_path / "run"), find_target(environment, None)):
        assert target.ca == made.ca
        assert len(target.tls().get_ca_certs()) == 1
    for wrong in (tmp_path / "nothing", made.ca_key):
        target = find_target({**environment, "KAJI_CA": str(wrong)}, None)
        with pytest.raises(InvalidInput, match="KAJI_CA"):
            target.tls()


def test_cluster_option_takes_precedence(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "a", tmp_path / "run")
    target = find_target({"KAJI_SERVER": "https://x.example", "KAJI_TOKEN": "x"}, folder, tmp_path / "run")
    assert target == Target("http://127.0.0.1/a", "t", "me", folder)
    assert target.is_local
    with pytest.raises(Unavailable) as caught:
        find_target({}, tmp_path / "nothing", tmp_path / "run")
    assert caught.value.hint == f"start one: kaji up --data {tmp_path / 'nothing'}"


def test_the_only_running_cluster_is_taken(tmp_path: Path) -> None:
    """Ended clusters, broken links and broken files do not count."""
    runtime = tmp_path / "run"
    clusters: dict[str, dict[str, Any]] = {"only": {}, "dead": {"pid": dead_pid()}, "broken": {"pid": "x"}}
    for name, more in clusters.items():
        cluster(tmp_path / name, runtime, **more)
    (runtime / "clusters" / "gone").symlink_to(tmp_path / "gone" / "kaji.json")
    assert find_target({}, None, runtime).url == "http://127.0.0.1/only"


def test_one_of_several_running_clusters_must_be_chosen(tmp_path: Path) -> None:
    """No command acts on a cluster by accident; a choice holds until it is cleared."""
    runtime = tmp_path / "run"
    for name in ("a", "b"):
        cluster(tmp_path / name, runtime)
    with pytest.raises(InvalidInput) as unclear:
        find_target({}, None, runtime)
    assert f"2 clusters run here: a ({tmp_path / 'a'}), b ({tmp_path / 'b'})" in unclear.value.message
    assert "kaji context use NAME" in unclear.value.faults[0].hint
    choose("b", runtime)
    assert find_target({}, None, runtime).data == tmp_path / "b"
    choose(str(tmp_path / "a"), runtime)
    assert find_target({}, None, runtime).data == tmp_path / "a"
    assert find_target({}, Path("b"), runtime).data == tmp_path / "b", "for one command"
    assert find_target({"KAJI_CONTEXT": "b"}, None, runtime).data == tmp_path / "b", "for one shell"
    choose(None, runtime)
    with pytest.raises(InvalidInput):
        find_target({}, None, runtime)


def test_a_chosen_cluster_that_has_ended_is_not_replaced_by_another(tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    for name in ("a", "b"):
        cluster(tmp_path / name, runtime)
    choose("a", runtime)
    (tmp_path / "a" / "kaji.json").unlink()
    with pytest.raises(Unavailable) as ended:
        find_target({}, None, runtime)
    assert "`kaji context use` chose it" in ended.value.message
    assert f"kaji up --data {tmp_path / 'a'}; or choose another: kaji context use NAME" in ended.value.hint
    found = {context.name: (context.runs, context.why) for context in contexts({}, None, runtime)}
    assert found == {"a": (False, "kaji context use"), "b": (True, "")}


def test_data_folders_of_the_same_name_are_shown_with_their_path(tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    for parent in ("x", "y"):
        (tmp_path / parent).mkdir()
        cluster(tmp_path / parent / "data", runtime / parent)
        (runtime / "clusters").mkdir(exist_ok=True)
        (runtime / "clusters" / parent).symlink_to(tmp_path / parent / "data" / "kaji.json")
    assert [context.name for context in contexts({}, None, runtime)] == [str(tmp_path / p / "data") for p in ("x", "y")]
    choose(str(tmp_path / "y" / "data"), runtime)
    assert find_target({}, None, runtime).data == tmp_path / "y" / "data"


def test_an_unknown_context_cannot_be_chosen(tmp_path: Path) -> None:
    """The present choice stays."""
    cluster(tmp_path / "a", tmp_path / "run")
    for name, error in (("nope", NotFound), ("environment", InvalidInput), (str(tmp_path / "nope"), Unavailable)):
        with pytest.raises(error):
            choose(name, tmp_path / "run")
    assert find_target({}, None, tmp_path / "run").data == tmp_path / "a"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cluster": 1}'])
def test_an_unreadable_choice_is_ignored(tmp_path: Path, text: str) -> None:
    cluster(tmp_path / "a", tmp_path / "run")
    (tmp_path / "run" / "context.json").write_text(text)
    assert find_target({}, None, tmp_path / "run").data == tmp_path / "a"


def test_contexts_say_which_one_is_used_and_why(tmp_path: Path) -> None:
    """They agree with `find_target`."""
    runtime = tmp_path / "run"
    cluster(tmp_path / "a", runtime)
    assert [(context.name, context.why) for context in contexts({}, None, runtime)] == [("a", "no other runs")]
    cluster(tmp_path / "b", runtime)
    assert [context.why for context in contexts({}, None, runtime)] == ["", ""]
    for environment, named, name, why in (
        ({}, tmp_path / "b", "b", "--cluster"),
        ({"KAJI_CONTEXT": "a"}, None, "a", "$KAJI_CONTEXT"),
        ({"KAJI_CONTEXT": "a", "KAJI_SERVER": "https://x.example"}, None, "environment", "$KAJI_SERVER"),
    ):
        taken = [(context.name, context.why) for context in contexts(environment, named, runtime) if context.why]
        assert taken == [(name, why)]


def test_the_command_that_restarts_an_ended_cluster_is_named(tmp_path: Path) -> None:
    folder = cluster(tmp_path / "a", tmp_path / "run", pid=dead_pid())
    with pytest.raises(Unavailable) as caught:
        find_target({}, None, tmp_path / "run")
    assert "does not run any more" in caught.value.message
    assert caught.value.hint == f"start it again: kaji up --data {folder}"


def test_a_cluster_that_was_killed_while_it_started_is_not_up(tmp_path: Path) -> None:
    """Its folder is known before its servers answer."""
    runtime = tmp_path / "run"
    cluster(tmp_path / "lab", runtime)
    (tmp_path / "lab" / "kaji.json").unlink()
    with pytest.raises(Unavailable, match="lab is not up") as caught:
        find_target({}, None, runtime)
    assert caught.value.hint == f"start it: kaji up --data {tmp_path / 'lab'}"


def test_without_any_server_both_remedies_are_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        find_target({}, None, tmp_path)
    assert "kaji up" in caught.value.hint
    assert "kaji login URL" in caught.value.hint


def test_a_missing_token_or_scheme_is_named() -> None:
    with pytest.raises(Unauthenticated, match="KAJI_TOKEN is not"):
        find_target({"KAJI_SERVER": "https://kaji.example.org"}, None)
    with pytest.raises(Unavailable, match="not an address"):
        find_target({"KAJI_SERVER": "kaji.example.org", "KAJI_TOKEN": "x"}, None)


def test_a_target_does_not_show_its_token() -> None:
    assert "hush" not in repr(Target("http://x", "hush"))


def test_arguments_of_the_client_choose_the_server(tmp_path: Path) -> None:
    """Errors name the arguments. A server without a token uses the sign-in there."""
    url = "https://kaji.example.org"

    def chosen(server: str | None, context: str | None = None, token: str | None = None, **variables: str) -> Target:
        return target_of(server, context, token, variables, tmp_path)

    with pytest.raises(Unauthenticated, match=f"there is no token for {url}") as caught:
        chosen(url)
    assert f"kaji login {url}" in caught.value.hint
    with pytest.raises(Unavailable, match=r"^server is 'kaji:8600', which is not an address"):
        chosen("kaji:8600", token="t")
    with pytest.raises(InvalidInput, match="server: excludes context"):
        chosen(url, "lab")
    assert chosen(url, token="t", KAJI_TOKEN="u") == Target(url, "t", "")
    assert chosen(url, token="t", KAJI_NAMESPACE="other") == Target(url, "t", "other")
    cluster(tmp_path / "a", tmp_path)
    with pytest.raises(NotFound, match=r"^there is no context 'lab'"):
        chosen(None, "lab")
    assert chosen(None, "a").data == tmp_path / "a"
    write(path_of("lab", tmp_path / "contexts"), SignedIn(url, "vision", token="mine"))
    assert (chosen(f"{url}/").token, chosen(None, "lab").token) == ("mine", "mine")


def test_a_namespace_in_the_environment_counts_on_every_server(tmp_path: Path) -> None:
    """$KAJI_NAMESPACE alone chooses the namespace of a local cluster, of a sign-in, and of a named context; before, it
    counted with $KAJI_SERVER only, and commands used another namespace without a word."""
    cluster(tmp_path / "a", tmp_path)
    asked = {"KAJI_NAMESPACE": "speech"}
    assert find_target(asked, None, tmp_path).namespace == "speech"
    assert find_target({**asked, "KAJI_CONTEXT": "a"}, None, tmp_path).namespace == "speech"
    write(path_of("lab", tmp_path / "contexts"), SignedIn("https://kaji.example.org", "vision", token="mine"))
    assert find_target(asked, Path("lab"), tmp_path).namespace == "speech"
    assert find_target({"KAJI_NAMESPACE": " "}, Path("lab"), tmp_path).namespace == "vision"
    listed = {each.name: each.target.namespace for each in contexts(asked, Path("a"), tmp_path)}
    assert listed == {"a": "speech", "lab": "vision"}
