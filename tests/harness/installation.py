"""A cluster with an installed Kajitori whose parts are processes of their own, and people with rights."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from tests.harness.certificates import client_certificate
from tests.harness.commands import Kaji, clean_environment, kaji, server
from tests.harness.deployed import BINDINGS, Right, bindings, manifest
from tests.harness.local_cluster import kubectl
from tests.harness.real_server import RealServer, running_real_server

from kajitori.core.words import names
from kajitori.kube.platform.install import install

PATIENCE_SECONDS = 60.0
SERVER, RELAY = "kajitori-server", "kajitori-relay"
"""The service accounts of deploy/server.yaml and deploy/relay.yaml."""
CONTROLLERS = ("c1", "c2")
"""Each has an account of its own here, with the rights of deploy/controller.yaml, so that it is told who wrote."""
ROLES = {
    "nodes": ("cluster-admin",),
    "ada": ("kajitori-user", "kajitori-user-logs", "kajitori-user-exec"),
    "grace": ("kajitori-user",),
    "eve": (),
    "olga": ("kajitori-operator",),
}
"""Service accounts beside those of the parts, and the roles of each: of people in their namespace, else everywhere."""
PEOPLE = ("ada", "grace", "eve")
PARTS = (SERVER, RELAY, *CONTROLLERS)
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": [f"system:serviceaccount:kajitori:{name}" for name in PARTS]},
        {"level": "Metadata", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
    ],
}
POLICY: dict[str, dict[str, Any]] = {
    "start": {"pause": "1s", "longestPause": "2s", "deadline": "30s", "restartGrace": "1s"},
    "security": {"allowRoot": True},  # the node of this machine may be root's
    "memory": {"sampleEvery": "1s"},
}

TOGETHER = [pytest.mark.real, pytest.mark.xdist_group("parts-alone")]
"""Tests that share such an installation."""
Completed = subprocess.CompletedProcess[str]
RUNS = f"/apis/{names.API_VERSION}/namespaces/vision/{names.PLURAL}"
SMALL = {"cpu": 1, "memory": "1Gi", "gpu": 1}


class Installation:
    """A cluster with an installed Kajitori, people with rights, and processes that end with the test."""

    def __init__(self, cluster: RealServer, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.url = ""
        self.before_installation: Completed = Completed([], 0)
        self.processes: dict[str, Kaji] = {}
        trust = ssl.create_default_context(cafile=str(cluster.config.ca_file))
        said = {"Authorization": f"Bearer {cluster.config.credentials.token}"}
        self.api = httpx2.Client(base_url=cluster.config.server, headers=said, verify=trust, trust_env=False)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(yaml.safe_dump(POLICY))

    def use_policy(self, rules: dict[str, Any]) -> None:
        """Write the policy file, and return when the Web API goes by it: it takes a file once that stays the same."""
        before = self._policy_version()
        self.policy.write_text(yaml.safe_dump(rules))
        self.until(lambda: self._policy_version() != before, "the policy is taken")

    def _policy_version(self) -> int:
        headers = {"Authorization": f"Bearer {self.token_in('ada')}"}
        return int(httpx2.get(f"{self.url}/v1/policy", headers=headers, trust_env=False).json()["version"])

    # ------------------------------------------------------------------------------------------ people

    def kubeconfig(self, user: str) -> Path:
        """The cluster as this person or part sees it."""
        path = self.folder / f"{user}.kubeconfig"
        if not path.exists():
            document = yaml.safe_load(self.cluster.kubeconfig.read_text())
            if user != "admin":
                document["users"][0]["user"] = {"token": self.token(user)}
            path.write_text(yaml.safe_dump(document))
            path.chmod(0o600)
        return path

    def token(self, user: str) -> str:
        """Of a service account of that name, as long as the test lasts."""
        made = self.kubectl("create", "token", user, "-n", "kajitori", "--duration=1h")
        return made.stdout.strip()

    def kubectl(self, *arguments: str, stdin: str = "", user: str = "admin", check: bool = True) -> Completed:
        kubeconfig = self.cluster.kubeconfig if user == "admin" else self.kubeconfig(user)
        home = {"HOME": str(self.folder)}
        done = kubectl(kubeconfig, *arguments, stdin=stdin, env=home, seconds=PATIENCE_SECONDS)
        assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done

    def grant(self) -> None:
        """Namespaces, roles, and who has them; as an administrator does it once."""
        documents: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("kajitori", "vision")
        ]
        documents += manifest("rbac.yaml")
        for part in ("server.yaml", "relay.yaml"):
            kinds = ("ServiceAccount", "ClusterRole", *BINDINGS)
            documents += [each for each in manifest(part) if each["kind"] in kinds]
        for binding in bindings("controller.yaml"):
            (subject,) = binding["subjects"]
            documents.append(binding | {"subjects": [subject | {"name": name} for name in CONTROLLERS]})
        documents += [_account(name) for name in (*CONTROLLERS, *ROLES)]
        for user, roles in ROLES.items():
            subject = {"kind": "ServiceAccount", "name": user, "namespace": "kajitori"}
            for role in roles:
                where = "vision" if user in PEOPLE else ""
                documents.append(_binding(f"{user}-{role}", role, subject, where))
        # tests/cluster/test_deploy.py checks the fields; a locally built API server may lack the schemas for kubectl.
        self.kubectl("apply", "--validate=false", "-f", "-", stdin=yaml.safe_dump_all(documents))

    # ------------------------------------------------------------------------------------------ processes

    def start(self, name: str, verb: str, user: str, *options: str) -> None:
        """`kaji VERB` as that person, its output in a file."""
        given = ("--kubeconfig", str(self.kubeconfig(user)), *options)
        with self.log_file(name).open("ab") as log:
            self.processes[name] = server(verb, *given, env=self.environment(), cwd=self.folder, log=log)

    def start_all(self) -> None:
        """Two controllers, of which one leads; Web API and relay; this machine as a node, and four simulated ones."""
        self.start("sim", "sim", "nodes", "--nodes", "4", "--gpus", "8", "--gpu-type", "h100", "--untaint")
        self.start(
            "node", "node", "nodes", "--data", str(self.folder / "node"), "--name", "here", "--port", "0",
            "--client-ca", str(self.folder / "ca.crt"), "--address", "127.0.0.1",
        )  # fmt: skip
        shared = ("--policy", str(self.policy), "--blobs", (self.folder / "blobs").as_uri())
        for name in ("c1", "c2"):
            self.start(name, "controller", name, *shared, "--identity", name)
        self.start("server", "server", SERVER, *shared, "--port", "0", "-N", "vision")
        self.start("relay", "relay", RELAY, "--port", "0", "--agent-account", names.AGENT_ACCOUNT)
        self.until(lambda: "Web API: http" in self.log("server"), "the Web API listens")
        self.url = self.log("server").split("Web API: ")[1].split()[0]
        self.until(lambda: self.leader() in ("c1", "c2"), "somebody leads")
        self.until(self.nodes_are_ready, "nodes ready")

    def environment(self, **more: str) -> dict[str, str]:
        return clean_environment(self.folder, **more)

    def log_file(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def log(self, name: str) -> str:
        return self.log_file(name).read_text(errors="replace")

    def stop_all(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kaji(self, *arguments: str, user: str = "ada", **environment: str) -> Completed:
        """A command of that person's, who knows the server's address and his own token."""
        said = {"KAJI_SERVER": self.url, "KAJI_TOKEN": self.token_in(user), "KAJI_NAMESPACE": "vision"} | environment
        try:
            return kaji(*arguments, env=self.environment(**said), timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{late}: {late.stdout!r} {late.stderr!r}\n{self.explain()}") from late

    def refusal(self, path: str, token: str, body: bytes | None = None, *, url: str = "") -> int:
        """The status of what the Web API, or whoever is there, refuses to whoever shows this."""
        request = urllib.request.Request((url or self.url) + path, body, {"Authorization": f"Bearer {token}"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=PATIENCE_SECONDS)
        return refused.value.code

    # ------------------------------------------------------------------------------------------ questions

    def get(self, path: str) -> dict[str, Any]:
        """What the API server has there; nothing where there is nothing. Asked again and again, unlike kubectl."""
        answer = self.api.get(path)
        assert answer.status_code in (200, 404), answer.text
        found: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        return found

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Creates, patches or deletes something as an administrator; answers what the API server says."""
        headers = {"Content-Type": f"application/{'merge-patch+' if method == 'PATCH' else ''}json"}
        answer = self.api.request(method, path, headers=headers, content=json.dumps(body or {}))
        assert answer.is_success, answer.text
        said: dict[str, Any] = answer.json()
        return said

    def submit(self, name: str, **spec: Any) -> None:
        """A Run as `kubectl apply` makes it, on simulated nodes unless the spec says otherwise."""
        defaults = {"image": "busybox", "command": ["train"], "resources": SMALL, "grace": "1s"}
        run = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}}
        self.change("POST", RUNS, run | {"spec": {**defaults, **spec}})

    def run(self, name: str) -> dict[str, Any]:
        """The status of a run."""
        found = self.get(f"{RUNS}/{name}")
        status: dict[str, Any] = found.get("status", {})
        return status

    def phase(self, run: str) -> str:
        return str(self.run(run).get("phase", ""))

    def attempt(self, run: str) -> tuple[int, str]:
        """Its number, and the phase of the run."""
        return int(self.run(run)["attempt"]["number"]), self.phase(run)

    def token_in(self, user: str) -> str:
        return str(yaml.safe_load(self.kubeconfig(user).read_text())["users"][0]["user"]["token"])

    def writes_of(self, user: str) -> int:
        """How often a part has written since the cluster began, as the API server's audit log has it."""
        return sum(one["verb"] not in ("get", "list", "watch") for one in self.asked_by(user))

    def asked_by(self, user: str) -> list[dict[str, Any]]:
        """What the audit log has of a part."""
        name = f"system:serviceaccount:kajitori:{user}"
        lines = (self.folder / "audit.log").read_text().splitlines()
        entries = [json.loads(line) for line in lines if name in line and line.endswith("}")]
        return [one for one in entries if one["user"]["username"] == name and "impersonatedUser" not in one]

    def used_by(self, *users: str, of: set[Right]) -> tuple[set[Right], set[Right]]:
        """What parts have used of these rights, and what they did, or were refused, without any that everybody has."""
        used: set[Right] = set()
        beyond: set[Right] = set()
        for one in (each for user in users for each in self.asked_by(user) if "objectRef" in each):
            what = one["objectRef"]
            resource = "/".join(filter(None, (what.get("resource", ""), what.get("subresource", ""))))
            right = (what.get("apiGroup", ""), resource, one["verb"], what.get("name", ""))
            right = right if right in of else (*right[:3], "")
            if "kajitori" in one["annotations"].get("authorization.k8s.io/reason", ""):
                used.add(right)
            elif one["annotations"]["authorization.k8s.io/decision"] == "forbid":
                beyond.add(right)
        return used, beyond | used - of

    def leader(self) -> str:
        lease = self.get("/apis/coordination.k8s.io/v1/namespaces/kajitori/leases/kajitori-controller")
        return str(lease.get("spec", {}).get("holderIdentity", ""))

    def lease_age(self) -> float:
        """How long ago the Web API saw the controllers' Lease change, as its metrics say."""
        return _figures(self.url)["kajitori_controller_lease_age_seconds"]

    def figures(self, controller: str) -> dict[str, float]:
        """What the metrics of a controller say that have no labels."""
        return _figures(self.log(controller).split("metrics and probes: ")[1].split()[0])

    def nodes_are_ready(self) -> bool:
        nodes = {node["metadata"]["name"]: node["spec"].get("taints") for node in self.get("/api/v1/nodes")["items"]}
        return len(nodes) == 5 and "here" in nodes and "not-ready" not in str(nodes)

    def until(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not happened():
            assert time.monotonic() < deadline, (what, self.explain())
            time.sleep(0.2)

    def explain(self) -> str:
        """What there is to read for whoever wants to know what went wrong."""
        logs = "\n".join(f"{name}: {self.log(name)[-1500:]}" for name in self.processes)
        return f"{self.kubectl('get', 'run,pod', '-A', '-o', 'wide', check=False).stdout}\n{logs}"


@contextlib.contextmanager
def running_installation(folder: Path) -> Iterator[Installation]:
    """Controllers c1 and c2, a Web API, a relay, this machine as a node, and four simulated ones; gone at the end."""
    authority = client_certificate(folder)
    (folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT))
    flags = (
        f"--kubelet-client-certificate={folder}/client.crt",
        f"--kubelet-client-key={folder}/client.key",
        f"--client-ca-file={authority}",
        f"--audit-policy-file={folder}/audit.yaml",
        f"--audit-log-path={folder}/audit.log",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    )
    with running_real_server(*flags) as cluster, cluster.scheduler():
        it = Installation(cluster, folder)
        it.grant()
        try:
            it.before_installation = it.kaji("server", "--kubeconfig", str(it.kubeconfig(SERVER)), "--port", "0")
            asyncio.run(_install(cluster))
            it.start_all()
            yield it
        finally:
            it.stop_all()
            it.api.close()


async def _install(cluster: RealServer) -> None:
    async with cluster.client() as client:
        await install(client)


def _figures(url: str) -> dict[str, float]:
    lines = httpx2.get(f"{url}/metrics", trust_env=False).text.splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if "{" not in line and "#" not in line}


def _account(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "kajitori"}}


def _binding(name: str, role: str, subject: dict[str, str], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
