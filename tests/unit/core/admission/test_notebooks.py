"""Runs of type notebook: what policy and type add to them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kajitori.core.admission.decide import Decision, Facts, RunIdentity, decide
from kajitori.core.policy.file import Policy, on_own_cluster, parse_policy
from kajitori.core.spec.reading.parsing import parse_spec
from kajitori.errors import InvalidInput

RUN = RunIdentity("nb", "team", "ada")


def admit(spec: dict[str, Any], policy: Policy | None = None) -> Decision:
    whole = {"image": "jupyter", "type": "notebook", **spec}
    return decide(parse_spec(whole), policy or parse_policy({}), Facts(), run=RUN)


def container(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = decision.template["spec"]["containers"][0]
    return found


def env(decision: Decision) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in container(decision)["env"]}


def test_a_notebook_has_a_program_a_port_and_a_folder_that_is_kept() -> None:
    decision = admit({"resources": {"gpu": 2}})
    made = container(decision)
    assert made["command"][:2] == ["/bin/sh", "-c"]
    assert made["ports"] == [{"containerPort": 8888}]
    assert {mount["mountPath"] for mount in made["volumeMounts"]} >= {"/notebook"}
    variables = env(decision)
    assert variables["KAJI_PROXY_PATH"] == "/proxy/team/nb/8888"
    assert (variables["KAJI_CHECKPOINT_DIR"], variables["KAJI_NOTEBOOK_HOME"]) == ("/notebook", "folder")
    assert decision.claim is not None
    assert decision.claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert decision.limits.time_limit_seconds == 7 * 86400
    assert decision.limits.restarts > 0
    assert decision.template["spec"]["restartPolicy"] == "Never"
    assert any(finding.message.startswith("the notebook has ") for finding in decision.findings), "not: each member"


def test_what_a_notebook_names_itself_is_kept() -> None:
    spec = {
        "command": ["code-server"],
        "ports": [9000, 9001],
        "checkpoint": {"path": "/mine", "size": "1Gi"},
        "timeLimit": "1h",
    }
    decision = admit(spec)
    assert container(decision)["command"] == ["code-server"]
    assert env(decision)["KAJI_PROXY_PATH"] == "/proxy/team/nb/9000"
    assert decision.limits.time_limit_seconds == 3600


def test_policy_decides_about_notebooks() -> None:
    policy = parse_policy(
        {
            "notebooks": {"timeLimit": "2d", "path": "/home/jovyan", "size": "5Gi", "idleKernelsAfter": "4h"},
            "ceilings": {"run": {"timeLimit": "1d"}},
        }
    )
    decision = admit({}, policy)
    assert decision.limits.time_limit_seconds == 86400
    assert env(decision)["KAJI_IDLE_KERNELS"] == str(4 * 3600)
    assert {mount["mountPath"] for mount in container(decision)["volumeMounts"]} >= {"/home/jovyan"}


def test_notebooks_of_one_machine_listen_on_ports_of_their_own() -> None:
    """They may share its network. The user of processes has a home already, that of a container's image is lost."""
    for images, home in ((False, "unchanged"), (True, "folder")):
        policy = on_own_cluster(parse_policy({}), "kajitori", "http://127.0.0.1:1", images=images)
        one, other = (
            decide(parse_spec({"image": "i", "type": "notebook"}), policy, Facts(), run=RunIdentity(name, "team"))
            for name in ("one", "other")
        )
        assert container(one)["ports"] != container(other)["ports"]
        assert env(one)["KAJI_NOTEBOOK_HOME"] == home


def test_notebooks_of_one_name_listen_on_different_ports_in_two_clusters_of_one_machine() -> None:
    """And in each of them at the same port again, so that an open page finds the notebook after a restart."""
    ports = [
        container(admit({}, on_own_cluster(parse_policy({}), "kajitori", f"http://127.0.0.1:{server}")))["ports"]
        for server in (1, 2, 1)
    ]
    assert ports[0] != ports[1]
    assert ports[0] == ports[2]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"replicas": 2}, "spec.replicas"),
        ({"array": "0-3"}, "spec.type"),
        ({"launcher": "torchrun"}, "spec.launcher"),
        ({"stuckAfter": "10m"}, "spec.stuckAfter"),
    ],
)
def test_a_notebook_has_one_member(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        admit(spec)
    assert [fault.field for fault in refused.value.faults] == [field]


def test_the_program_starts_jupyterlab_below_its_address(tmp_path: Path) -> None:
    """And says what is missing if there is neither JupyterLab nor Python."""
    script = container(admit({}))["command"][2].replace("$$", "$")
    folder = tmp_path / "files"
    folder.mkdir()
    variables = {"PATH": str(tmp_path), "KAJI_CHECKPOINT_DIR": str(folder), "KAJI_NOTEBOOK_HOME": "folder"}
    variables |= {"KAJI_NOTEBOOK_PORT": "8888", "KAJI_PROXY_PATH": "/proxy/team/nb/8888", "HOME": "/nowhere"}
    missing = subprocess.run(["/bin/sh", "-c", script], env=variables, capture_output=True, text=True, check=False)
    assert (missing.returncode, "kaji notebook --image" in missing.stdout) == (127, True)
    lab = tmp_path / "jupyter-lab"
    lab.write_text('#!/bin/sh\necho "$HOME" "$PWD" "$@"\n')
    lab.chmod(0o755)
    started = subprocess.run(["/bin/sh", "-c", script], env=variables, capture_output=True, text=True, check=True)
    assert started.stdout.startswith(f"{folder} {folder} --no-browser --ServerApp.ip=127.0.0.1")
    assert "--ServerApp.base_url=/proxy/team/nb/8888/ " in started.stdout
    assert "cull" not in started.stdout
    assert "--IdentityProvider.token=" in started.stdout


def test_a_notebook_whose_port_is_taken_says_so_in_its_last_line(tmp_path: Path) -> None:
    """That line is the reason of the run. JupyterLab's own names no way out."""
    script = container(admit({}))["command"][2].replace("$$", "$")
    lab = tmp_path / "jupyter-lab"
    lab.write_text("#!/bin/sh\necho started\n")
    lab.chmod(0o755)
    (tmp_path / "python3").symlink_to(sys.executable)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        variables = {"PATH": str(tmp_path), "KAJI_CHECKPOINT_DIR": str(tmp_path), "KAJI_NOTEBOOK_PORT": port}
        argv = ["/bin/sh", "-c", script]
        refused = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    way_out = "end it, or take another name: kaji notebook NAME"
    assert refused.stdout.splitlines()[-1] == f"Port {port} is taken by another program: {way_out}"
    started = subprocess.run(argv, env=variables, capture_output=True, text=True, check=True)
    assert started.stdout == "started\n"


def test_a_notebook_with_a_first_step_demands_the_token_in_a_file(tmp_path: Path) -> None:
    """No object, command line or variable contains the token. Without the file the program does not start."""
    policy = on_own_cluster(parse_policy({}), "kajitori", "http://127.0.0.1:1")
    decision = admit({}, policy)
    made, (step,) = container(decision), decision.template["spec"]["initContainers"]
    assert {"name": "KAJI_START_NOTEBOOK", "value": "1"} in step["env"]
    port = str(made["ports"][0]["containerPort"])
    assert decision.template["metadata"]["annotations"]["kajitori.dev/notebook-port"] == port
    assert env(decision)["KAJI_NOTEBOOK_TOKEN_FILE"] == "/kajitori/notebook-token"
    token, lab = tmp_path / "token", tmp_path / "jupyter-lab"
    lab.write_text('#!/bin/sh\necho "[$JUPYTER_TOKEN_FILE]" "[$JUPYTER_TOKEN]" "$@"\n')
    lab.chmod(0o755)
    variables = {"PATH": str(tmp_path), "KAJI_CHECKPOINT_DIR": str(tmp_path), "KAJI_NOTEBOOK_TOKEN_FILE": str(token)}
    argv = ["/bin/sh", "-c", made["command"][2].replace("$$", "$")]
    variables["JUPYTER_TOKEN"] = "of the image"
    assert subprocess.run(argv, env=variables, capture_output=True, check=False).returncode == 1
    token.write_text("secret")
    started = subprocess.run(argv, env=variables, capture_output=True, text=True, check=True)
    assert started.stdout.startswith(f"[{token}] [] --no-browser")
    assert not {"secret", "token="} & set(started.stdout.split())
    plain = decide(parse_spec({"image": "i"}), policy, Facts(), run=RUN)
    assert "initContainers" not in plain.template["spec"]
