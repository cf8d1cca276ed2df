"""`kaji up` beside an installation. It kills all controllers, so only a module that needs none may come after it."""

from __future__ import annotations

import json

import yaml
from tests.harness.commands import kaji, start_kaji
from tests.harness.platform.installation import CONTROLLERS, TOGETHER, Installation
from tests.harness.waiting import PATIENCE_SECONDS

pytestmark = TOGETHER


def test_kaji_up_works_with_a_client_certificate_in_the_kubeconfig(
    installed: Installation,
) -> None:
    """With a client certificate there is no token to pass on, so commands that use this folder get a separate token.
    Other users need their own tokens."""
    path, data = installed.kubeconfig("admin"), installed.folder / "up"
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] = {
        "client-certificate": str(installed.server.certificates.client),
        "client-key": str(installed.server.certificates.client_key),
    }
    certificate = installed.folder / "certificate.kubeconfig"
    certificate.write_text(yaml.safe_dump(document))
    command = ("up", "--kubeconfig", str(certificate), "--data", str(data))
    with installed.log_file("up").open("ab") as log:
        installed.processes["up"] = start_kaji(
            *command,
            "--policy",
            str(installed.policy),
            "-N",
            "vision",
            env=installed.environment(),
            cwd=installed.folder,
            log=log,
        )
    installed.until(lambda: (data / "kaji.json").exists(), "kaji up is up")
    local = installed.environment()

    assert "client" in kaji("version", env=local).stdout
    assert kaji("run", "-d", "--name", "mine", "--gpus", "1", "busybox", "train", env=local).returncode == 0
    installed.until(lambda: installed.phase("mine") == "Running", "mine runs")
    told = json.loads((data / "kaji.json").read_text())
    assert told["token"] and told["token"] not in installed.server.kubeconfig.read_text()
    installed.url = told["url"]
    assert installed.kaji("ps", "-a", KAJI_TOKEN="wrong").returncode == 125
    assert installed.kaji("ps", "-a").returncode == 0  # other users are identified by their own tokens
    again = kaji(*command, env=local, timeout=PATIENCE_SECONDS)
    assert again.returncode == 125 and str(data) in again.stderr, again
    assert installed.leader() in CONTROLLERS, "the controller inside waits its turn"
    for controller in installed.living_controllers():
        controller.kill()
        controller.wait()
    installed.until(lambda: installed.leader() not in ("", *CONTROLLERS), "the controller inside leads")
    assert kaji("run", "-d", "--name", "mine-too", "--gpus", "1", "busybox", "train", env=local).returncode == 0
    installed.until(lambda: installed.phase("mine-too") == "Running", "mine-too runs")
    installed.processes["up"].terminate()
    assert installed.processes["up"].wait(60) == 0
    assert not (data / "kaji.json").exists()
