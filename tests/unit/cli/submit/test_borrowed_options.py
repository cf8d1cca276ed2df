"""Options of docker run and sbatch: each takes effect, is accepted with a note, or is refused with the option to use
here."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.fake_web_api import FakeWebApi, invoke, view

from kajitori.cli.app import kaji
from kajitori.cli.verbs.runs.run import command
from kajitori.client.submit.borrowed_options import BORROWED, DOCKER, SLURM

# docker run --help of Docker 29, without --help.
DOCKERS = """
--add-host --annotation --attach --blkio-weight --blkio-weight-device --cap-add --cap-drop --cgroup-parent --cgroupns
--cidfile --cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime --cpu-shares --cpus --cpuset-cpus --cpuset-mems
--detach --detach-keys --device --device-cgroup-rule --device-read-bps --device-read-iops --device-write-bps
--device-write-iops --disable-content-trust --dns --dns-option --dns-search --domainname --entrypoint --env --env-file
--expose --gpus --group-add --health-cmd --health-interval --health-retries --health-start-interval
--health-start-period --health-timeout --hostname --init --interactive --ip --ip6 --ipc --isolation --kernel-memory
--label --label-file --link --link-local-ip --log-driver --log-opt --mac-address --memory --memory-reservation
--memory-swap --memory-swappiness --mount --name --net --network --network-alias --no-healthcheck --oom-kill-disable
--oom-score-adj --pid --pids-limit --platform --privileged --publish --publish-all --pull --quiet --read-only
--restart --rm --runtime --security-opt --shm-size --sig-proxy --stop-signal --stop-timeout --storage-opt --sysctl
--tmpfs --tty --ulimit --use-api-socket --user --userns --uts --volume --volume-driver --volumes-from --workdir -a -c
-d -e -i -l -m -p -P -q -t -u -v -w
"""


def submit(*words: str) -> tuple[dict[str, Any], str]:
    """Submit a run with these options; return its spec, and what was printed on stderr."""
    api = FakeWebApi(answers={"POST /v1/runs": (201, view("bert", "Queued"))})
    result = invoke(api, "run", "-d", *words, "bert:3", "train.py")
    assert result.exit_code == 0, result.output
    spec: dict[str, Any] = api.calls_to("POST")[0].body["spec"]
    assert (spec.pop("image"), spec.pop("args")) == ("bert:3", ["train.py"])
    return spec, result.stderr


def test_every_option_of_docker_run_has_an_answer() -> None:
    """No option of Docker is answered with 'no such option'."""
    own = {name for parameter in command.params for name in parameter.opts}
    assert not set(DOCKERS.split()) - own - BORROWED.keys()
    assert not own & BORROWED.keys()


@pytest.mark.parametrize("name", [name for name, option in BORROWED.items() if option.is_accepted])
def test_a_harmless_option_is_accepted_with_a_note(name: str) -> None:
    """The run is submitted as without the option."""
    option = BORROWED[name]
    spec, output = submit(name, *([] if option.is_flag else ["value"]))
    assert spec == {}
    assert output == f"note: {name}: {option.why}\n"


def test_all_unsupported_options_are_refused_at_once() -> None:
    """Each with an alternative, together with other faults of the command line; nothing is submitted."""
    refused = {name: option for name, option in BORROWED.items() if not option.is_accepted}
    words = [word for name, option in refused.items() for word in ([name] if option.is_flag else [name, "value"])]
    api = FakeWebApi()
    result = invoke(api, "run", *words, "--network", "_nowhere", "bert:3")
    assert result.exit_code == 2
    assert all(call.query == {"dryRun": ["true"]} for call in api.calls)
    assert f"for {len(refused) + 1} reasons" in result.stderr
    for name, option in refused.items():
        assert f"  {name}: {option.why}\n      " in result.stderr
        assert option.instead in result.stderr


def test_suggested_options_exist() -> None:
    own = {name for parameter in command.params for name in parameter.opts}
    for option in (*DOCKER, *SLURM):
        named = [word.strip(".,;:()") for word in f"{option.instead} {option.why}".split()]
        assert {word for word in named if word.startswith("--") or word in ("-n", "-p", "-v")} <= own, option


@pytest.mark.parametrize(
    ("words", "spec", "note"),
    [
        (["--net", "host"], {"hostNetwork": True}, ""),
        (["--expose", "8888", "-p", "80"], {"ports": [80, 8888]}, ""),
        (["--stop-timeout", "90"], {"grace": "90s"}, ""),
        (["--platform", "linux/arm64"], {"nodeSelector": {"kubernetes.io/arch": "arm64"}}, ""),
        (["--restart", "no"], {"restarts": 0}, ""),
        (["--restart", "on-failure:5"], {"restarts": 5}, ""),
        (["--restart", "on-failure:5", "--restarts", "5"], {"restarts": 5}, ""),
        (["--ipc", "private"], {}, ""),
        (["--ipc=host", "-m", "8g"], {"resources": {"memory": "8Gi", "shm": "8Gi"}}, "may take all of its memory"),
        (["--ipc=host", "--shm-size", "8g"], {"resources": {"shm": "8Gi"}}, "--shm-size says how large"),
        (["--ipc=host"], {}, "say how large: --shm-size 8g"),
        (
            ["--mount", "type=bind,src=/data,dst=/data,readonly"],
            {"volumes": [{"path": "/data", "hostPath": "/data", "readOnly": True}]},
            "",
        ),
        (
            ["--mount", "source=imagenet,target=/data,readonly=false,consistency=cached"],
            {"volumes": [{"path": "/data", "name": "imagenet"}]},
            "",
        ),
        (["--mount", "type=tmpfs,target=/dev/shm,tmpfs-size=8g"], {"resources": {"shm": "8Gi"}}, ""),
    ],
)
def test_supported_options_of_docker_become_fields_of_the_spec(
    words: list[str], spec: dict[str, Any], note: str
) -> None:
    found, output = submit(*words)
    assert found == spec
    assert note in output and bool(note) == bool(output)


@pytest.mark.parametrize(
    ("words", "fault", "hint"),
    [
        (["--restart", "always"], "--restart: restarting is Kajitori's", "say --type service"),
        (["--restart", "on-failure"], "--restart: restarting is Kajitori's", "--restarts 3"),
        (["--restart", "no", "--restarts", "2"], "--restart: 'no', but --restarts 2", "leave one of them out"),
        (["--restart", "on-failure:x"], "--restart: 'x' is not a whole number", "such as 3"),
        (["--stop-timeout", "1m"], "--stop-timeout: '1m' is not a number of seconds", "--grace 60s"),
        (["--stop-timeout", "9", "--grace", "8s"], "--stop-timeout: 9, but --grace 8s", "leave one of them out"),
        (["--platform", "windows/amd64"], "--platform: 'windows/amd64' is no platform", "linux/amd64"),
        (["--expose", "53/udp"], "--expose: '53/udp': only TCP", "leave the protocol out"),
        (["--ipc", "container:x"], "--ipc: members share memory with no other container", "leave it out"),
        (["--mount", "type=npipe,source=/a,target=/b"], "there are no mounts of type 'npipe'", "type=bind"),
        (["--mount", "type=bind,source=a,target=/b"], "'a' is not a folder's path", "type=bind"),
        (["--mount", "source=/a,target=/b"], "'/a' is a folder: its type is bind", "type=bind"),
        (["--mount", "type=bind,source=/a"], "does not say what is mounted where", "type=bind"),
        (["--mount", "type=volume,source=a,target=/b,volume-opt=x"], "volume-opt is no part of a mount", "type=bind"),
        (["--mount", "type=tmpfs,target=/tmp"], "the folder in memory is /dev/shm", "--shm-size 8g"),
        (["--frobnicate"], "no such option '--frobnicate'", "see kaji run --help"),
        (
            ["--init", "--nome"],
            "no such option '--nome'. Did you mean one of: '--name', '--net'?",
            "see kaji run --help",
        ),
    ],
)
def test_faults_of_dockers_options_name_what_was_typed(words: list[str], fault: str, hint: str) -> None:
    """Options that are only accepted are not suggested."""
    result = invoke(FakeWebApi(), "run", *words, "bert:3")
    assert result.exit_code == 2
    output = " ".join(result.stderr.lower().split())
    assert fault.lower() in output.replace("(did", "did") and hint.lower() in output
    assert "--job-name" not in output


def test_what_if_takes_the_same_options() -> None:
    answer = {"starts": True, "nodes": "n1", "start": {"fitNow": 1, "most": 1}}
    result = invoke(FakeWebApi(answers={"POST /v1/what-if": answer}), "what-if", "--ulimit", "memlock=-1", "bert:3")
    assert result.exit_code == 0
    assert result.stderr.startswith("note: --ulimit: ")


def test_borrowed_options_are_not_in_the_help() -> None:
    """Only options that take effect are shown."""
    text = invoke(FakeWebApi(), "run", "--help").stdout
    assert "--mount" in text and "--ulimit" not in text and "--platform" not in text
    assert kaji.name
