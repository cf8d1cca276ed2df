"""`kaji up` beside an installation. Its end is the end of the last controller, so nothing may come after it here."""

from __future__ import annotations

import json

import yaml
from tests.helpers.commands import kaji, server
from tests.helpers.site import PATIENCE_SECONDS, TOGETHER, Site

pytestmark = TOGETHER


def test_kaji_up_serves_an_existing_cluster_however_its_kubeconfig_proves_who_one_is(site: Site) -> None:
    """With a client certificate there is no token to hand on: commands get one of the folder's own, and nobody else."""
    path, data = site.kubeconfig("admin"), site.folder / "up"
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] = {
        "client-certificate": str(site.folder / "client.crt"),
        "client-key": str(site.folder / "client.key"),
    }
    certificate = site.folder / "certificate.kubeconfig"
    certificate.write_text(yaml.safe_dump(document))
    command = ("up", "--kubeconfig", str(certificate), "--data", str(data))
    with site.log_file("up").open("ab") as log:
        site.processes["up"] = server(
            *command, "--policy", str(site.policy), "-N", "vision", env=site.environment(), cwd=site.folder, log=log
        )
    site.until(lambda: (data / "kaji.json").exists(), "kaji up is up")
    local = site.environment()

    assert "client" in kaji("version", env=local).stdout
    assert kaji("run", "-d", "--name", "mine", "--gpus", "1", "busybox", "train", env=local).returncode == 0
    site.until(lambda: site.phase("mine") == "Running", "mine runs")
    told = json.loads((data / "kaji.json").read_text())
    assert told["token"] and told["token"] not in site.cluster.kubeconfig.read_text()
    site.url = told["url"]
    assert site.kaji("ps", "-a", KAJI_TOKEN="wrong").returncode == 125
    assert site.kaji("ps", "-a").returncode == 0  # everybody else is whom his own token says
    again = kaji(*command, env=local, timeout=PATIENCE_SECONDS)
    assert again.returncode == 125 and str(data) in again.stderr, again
    last = site.leader()
    assert last in ("c1", "c2"), "the controller inside waits its turn"
    site.processes[last].kill()
    site.processes[last].wait()
    site.until(lambda: site.leader() not in ("", last), "the controller inside leads")
    assert kaji("run", "-d", "--name", "mine-too", "--gpus", "1", "busybox", "train", env=local).returncode == 0
    site.until(lambda: site.phase("mine-too") == "Running", "mine-too runs")
    site.processes["up"].terminate()
    assert site.processes["up"].wait(60) == 0
    assert not (data / "kaji.json").exists()
