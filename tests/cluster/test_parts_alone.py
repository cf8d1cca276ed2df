"""The parts as processes of their own, on a real kube-apiserver with a real kube-scheduler.

Each has no more rights than the manifests under deploy/ give it; the API server's audit log tells who wrote what, and
what each part asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
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
from tests.helpers.autoscaler import POOL, definition
from tests.helpers.certificates import client_certificate
from tests.helpers.commands import Kaji, kaji, server
from tests.helpers.deployed import BINDINGS, Right, bindings, manifest, rights
from tests.helpers.platform import kubectl_binary
from tests.helpers.real_cluster import RealCluster, require_binaries, running_cluster

from kajitori.core import names
from kajitori.core.tickets import Ticket, sign
from kajitori.kube.install import install

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
INSTALLING = ("scheduling.k8s.io", "priorityclasses", "patch", "")
"""What each part tries first in case that it may; `kajitori-installer` may."""
ON_PURPOSE = {INSTALLING, ("", "namespaces", "create", ""), ("", "nodes/proxy", "get", "")}
"""What a controller does without where it may not: the last is granted by a role of its own."""
BLOCKS_ITS_OWNER = (names.GROUP, "runs/finalizers", "update", "")
"""What the API server asks itself when a member is made, of whoever makes it: no request, so no line in a log."""
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

pytestmark = [pytest.mark.real, pytest.mark.xdist_group("parts-alone")]
Completed = subprocess.CompletedProcess[str]
RUNS = f"/apis/{names.API_VERSION}/namespaces/vision/{names.PLURAL}"
SMALL = {"cpu": 1, "memory": "1Gi", "gpu": 1}
CORE = "/api/v1/namespaces/vision"
POLICY_GROUP = "/apis/policy/v1/namespaces/vision/poddisruptionbudgets"
NETWORK_GROUP = "/apis/networking.k8s.io/v1/namespaces/vision/networkpolicies"
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/vision/provisioningrequests"


class Site:
    """A cluster with an installed Kajitori, people with rights, and processes that end with the test."""

    def __init__(self, cluster: RealCluster, folder: Path) -> None:
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
        done = subprocess.run(
            [kubectl_binary(), f"--kubeconfig={kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env={**os.environ, "HOME": str(self.folder)},
            check=False,
        )
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
        self.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

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
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KAJI_", "XDG_", "KUBE"))}
        return kept | {"HOME": str(self.folder)} | more

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


async def _install(cluster: RealCluster) -> None:
    async with cluster.client() as client:
        await install(client)


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Controllers c1 and c2, a Web API, a relay, this machine as a node, and four simulated ones."""
    require_binaries("kube-apiserver", "etcd", "kube-scheduler")
    folder = tmp_path_factory.mktemp("site")
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
    with running_cluster(*flags) as cluster, cluster.scheduler():
        it = Site(cluster, folder)
        it.grant()
        try:
            it.before_installation = it.kaji("server", "--kubeconfig", str(it.kubeconfig(SERVER)), "--port", "0")
            asyncio.run(_install(cluster))
            it.start_all()
            yield it
        finally:
            it.stop_all()
            it.api.close()


def test_what_is_not_installed_is_said(site: Site) -> None:
    """Without the right to install, and with nobody who has: exit code 2, and what to do."""
    answer = site.before_installation
    assert answer.returncode == 2 and "not installed" in answer.stderr and "deploy/rbac.yaml" in answer.stderr


def test_a_gang_runs_end_to_end_for_a_plain_user(site: Site) -> None:
    """Two real processes, their output, an exit code; logs and exec want rights of their own."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "0")
    gang = ("run", "-q", "--name", "pair", "-n", "2", *here, "busybox", "sh", "-c", "echo rank $KAJI_RANK")
    answer = site.kaji(*gang)
    assert answer.returncode == 0 and "rank 0" in answer.stdout, answer
    logs = site.kaji("logs", "--all-ranks", "pair").stdout
    assert "rank 0" in logs and "rank 1" in logs
    owner = site.kubectl("get", "run", "pair", "-n", "vision", "-o", "jsonpath={.metadata.annotations}").stdout
    assert "system:serviceaccount:kajitori:ada" in owner
    assert site.kaji("logs", "pair", user="grace").returncode == 2
    script = "while true; do sleep 0.2; done"
    assert (
        site.kaji("run", "-d", "--name", "long", "--network=none", *here, "busybox", "sh", "-c", script).returncode == 0
    )
    site.until(lambda: site.phase("long") == "Running", "long runs")
    said = site.kaji("exec", "long", "sh", "-c", "echo $KAJI_RUN; exit 7")
    assert (said.returncode, said.stdout) == (7, "long\n"), said
    refused = site.kaji("exec", "long", "true", user="grace")
    assert refused.returncode not in (0, 7) and "pods/exec" in refused.stderr, refused
    budgets = ("get", "pdb", "-n", "vision", "-l", "app.kubernetes.io/managed-by=kajitori", "-o", "name")
    site.until(lambda: site.kubectl(*budgets).stdout.split() == ["poddisruptionbudget.policy/long"], "its budget alone")
    restricted = ("get", "netpol", "long", "-n", "vision", "-o", "jsonpath={.spec.policyTypes}")
    assert site.kubectl(*restricted).stdout == '["Ingress","Egress"]'
    assert site.kaji("rm", "-f", "long", "pair").returncode == 0
    site.until(lambda: not site.kubectl(*budgets).stdout, "no budget left")


def test_members_of_a_gang_are_told_of_each_other(site: Site) -> None:
    """Controller and Web API agree on tickets by a Secret that nobody else can read, and none of them any other."""
    rules = POLICY | {"start": {**POLICY["start"], "image": "kajitori:1", "server": site.url}}
    site.policy.write_text(yaml.safe_dump(rules))
    try:
        here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "0")
        script = 'echo "rank $KAJI_RANK: $(grep -c slots=1 $KAJI_HOSTS) hosts"'
        answer = site.kaji("run", "-q", "--name", "found", "-n", "2", *here, "busybox", "sh", "-c", script)
        assert answer.returncode == 0, (answer, site.explain())
        logs = site.kaji("logs", "--all-ranks", "found").stdout
        assert "rank 0: 2 hosts" in logs and "rank 1: 2 hosts" in logs
    finally:
        site.policy.write_text(yaml.safe_dump(POLICY))
    secrets = {"c1": ("kajitori", "kajitori-tickets"), SERVER: ("kajitori", "kajitori-tickets"), "ada": ("", "")}
    for user, (namespace, name) in secrets.items():
        who = f"--as=system:serviceaccount:kajitori:{user}"
        for where in ("kajitori", "vision"):
            for secret in ("kajitori-tickets", "other"):
                asked = ("auth", "can-i", "get", f"secrets/{secret}", "-n", where, who)
                may = site.kubectl(*asked, check=False).stdout.strip()
                assert may == ("yes" if (where, secret) == (namespace, name) else "no"), asked
    ticket = site.kubectl("get", "pods", "-n", "vision", "-l", "kajitori.dev/run=found", "-o", "yaml").stdout
    shown = ticket.split("KAJI_START_TICKET")[1].split("value: ")[1].split()[0]
    assert not any(shown in site.log(part) for part in site.processes)


def test_the_web_api_has_the_rights_that_it_uses_and_no_others(site: Site) -> None:
    """All that deploy/server.yaml lets its account do, it has done by now, as the audit log tells; what else it asked
    for everybody may, or it was refused, as the right to install."""
    assert site.kaji("events").returncode == 0
    token = site.kubectl("create", "token", "ada", "-n", "kajitori", "--audience=kajitori").stdout.strip()
    assert site.refusal("/v1/nodes/here/traffic", token, b"{}") == 401, "no agent's token, and none of the cluster's"
    ticket = sign(Ticket("vision", "nobody", "uid", 1, 2), b"another key")
    assert site.refusal("/v1/members/hosts", ticket) in (401, 503), "503 where the key was read a moment ago"
    may = rights("server.yaml")
    used, beyond = site.used_by(SERVER, of=may)
    assert (used, beyond) == (may, {INSTALLING})


def test_the_relay_has_the_rights_that_it_uses_and_no_others(site: Site) -> None:
    """Those of deploy/relay.yaml: it reads what agents are told of, and asks whose their tokens are."""
    url = site.log("relay").split("relay: ")[1].split()[0]
    token = site.kubectl("create", "token", "ada", "-n", "kajitori", "--audience=kajitori").stdout.strip()
    assert site.refusal("/v1/nodes/here/pods", token, url=url) == 401
    may = rights("relay.yaml")
    assert site.used_by(RELAY, of=may) == (may, set())


def test_logs_of_an_attempt_that_is_over_are_read_by_who_may_read_logs(site: Site) -> None:
    """They were kept by the controller and are read by the server, which share a store."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "1")
    script = "echo life $KAJI_ATTEMPT; exit $((2 - KAJI_ATTEMPT))"
    answer = site.kaji("run", "-q", "--name", "twice", *here, "busybox", "sh", "-c", script)
    assert answer.returncode == 0, answer
    first = site.kaji("logs", "--attempt", "1", "twice")
    assert (first.returncode, first.stdout) == (0, "life 1\n"), first
    refused = site.kaji("logs", "--attempt", "1", "twice", user="grace")
    assert refused.returncode == 2 and "pods/log" in refused.stderr, refused


def test_who_may_not_read_logs_still_sees_his_run_end(site: Site) -> None:
    """Rights on runs alone are enough: to submit, to wait, to know the exit code."""
    here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "0")
    answer = site.kaji("run", "--name", "blind", *here, "busybox", "sh", "-c", "exit 4", user="grace")
    assert answer.returncode == 4 and "pods/log" in answer.stderr, answer
    assert site.kaji("rm", "-f", "blind", user="grace").returncode == 0


def test_an_operator_tests_a_node(site: Site) -> None:
    """This machine's: it leaves the pool when it fails, and comes back when it passes. Nobody has more rights for it
    than his role gives him."""
    well = site.folder / "well"
    script = f"test -e {well} || {{ echo broken; exit 4; }}"
    test: dict[str, Any] = {"image": "busybox", "command": ["sh", "-c", script]}
    test |= {"cpu": 0.2, "memory": "64Mi", "nodes": {"kubernetes.io/hostname": "here"}}
    site.policy.write_text(yaml.safe_dump(POLICY | {"preflight": test}))
    try:
        failed = site.kaji("preflight", "here", user="olga")
        assert failed.returncode == 1 and "exit code 4: broken" in failed.stdout, (failed, site.explain())
        shown = site.kaji("nodes", "here", user="ada").stdout
        assert "unhealthy: PreflightFailed" in shown and "asked for by system:serviceaccount:kajitori:olga" in shown
        well.touch()
        passed = site.kaji("preflight", "--all", user="olga")
        assert passed.returncode == 0 and "policy has no test for 4 of 5 nodes" in passed.stderr, passed
        assert "unhealthy" not in site.kubectl("get", "node", "here", "-o", "jsonpath={.spec.taints}").stdout
        for command in (("preflight", "here"), ("nodes", "here", "--healthy")):
            refused = site.kaji(*command, user="ada")
            assert refused.returncode == 2 and "may not patch nodes" in refused.stderr, refused
    finally:
        site.policy.write_text(yaml.safe_dump(POLICY))


def test_who_has_no_rights_is_told_so(site: Site) -> None:
    """403, exit code 2, and the command that asks Kubernetes; a wrong token is 401, exit code 125."""
    answer = site.kaji("run", "-d", "busybox", "true", user="eve")
    assert answer.returncode == 2 and "kubectl auth can-i" in answer.stderr
    assert site.kaji("ps", "-a", user="eve").stdout.count("\n") <= 1
    assert site.kaji("run", "-d", "busybox", "true", KAJI_TOKEN="wrong").returncode == 125
    for name in ("server", "c1", "c2"):
        assert site.token_in("ada") not in site.log(name)


def test_one_leads_and_a_leader_that_was_stopped_writes_nothing(site: Site) -> None:
    """SIGSTOP for 25 s: the other takes over and acts; who continues leaves everything to it."""
    gang = ("-n", "2", "--gpus", "8", "--gpu-type", "h100", "--cpus", "4", "busybox", "train")
    assert site.kaji("run", "-d", "--name", "first", *gang).returncode == 0
    site.until(lambda: site.phase("first") == "Running", "first runs")
    stopped = site.leader()
    other = {"c1": "c2", "c2": "c1"}[stopped]
    process = site.processes[stopped]
    process.send_signal(signal.SIGSTOP)
    stopped_at = time.monotonic()
    assert site.kaji("run", "-d", "--name", "second", *gang).returncode == 0
    site.until(lambda: site.leader() == other, "the other leads")
    site.until(lambda: site.phase("second") == "Running", "second runs")
    while time.monotonic() - stopped_at < 25:
        time.sleep(0.2)
    before = site.writes_of(stopped)
    failing = ("annotate", "pod", "-n", "vision", "first-1-1", "sim.kajitori.dev/exit-code=1")
    site.kubectl(*failing)
    process.send_signal(signal.SIGCONT)
    site.until(lambda: site.attempt("first") == (2, "Running"), "first runs again")
    site.until(lambda: f"{stopped} leads no more" in site.log(stopped), "who was stopped knows it")
    assert site.writes_of(stopped) == before
    assert site.leader() == other


def test_a_leader_that_is_killed_is_followed(site: Site) -> None:
    """SIGKILL: the other takes over, restarts nothing that runs, and starts what waits."""
    killed = site.leader()
    other = {"c1": "c2", "c2": "c1"}[killed]
    site.processes[killed].kill()
    site.processes[killed].wait()
    site.until(lambda: site.leader() == other, "the other leads")
    gone = ("rm", "-f", "second")
    assert site.kaji(*gone).returncode == 0
    assert site.kaji("run", "-d", "--name", "third", "-n", "2", "--gpus", "8", "busybox", "train").returncode == 0
    site.until(lambda: site.phase("third") == "Running", "third runs")
    assert site.attempt("first") == (2, "Running")
    assert site.kaji("rm", "-f", "third").returncode == 0


def test_a_controller_has_the_rights_that_it_uses_and_no_others(site: Site) -> None:
    """All that deploy/controller.yaml lets its account do, the two have done by now or do it here, as the audit log
    tells; what else they tried is for whoever installs, or granted on purpose."""
    site.change("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    site.until(lambda: site.api.get(REQUESTS).status_code == 200, "the kind is served")
    rules: dict[str, Any] = {"nodePools": {"spot": POOL}, "checkpoint": {"kind": "claim"}}
    site.policy.write_text(yaml.safe_dump(POLICY | rules))
    try:
        an_earlier_run_left_what_it_had(site, "again", "grow")
        members_nodes_and_rules_are_meddled_with(site, "again")
        members_end_in_every_way(site)
        a_gang_asks_for_nodes(site, "grow")
        the_api_server_refuses(site)
        may = rights("controller.yaml")
        missing: set[Right] = set()

        def all_is_used() -> bool:
            missing.clear()
            missing.update(may - {BLOCKS_ITS_OWNER} - site.used_by(*CONTROLLERS, of=may)[0])
            return not missing

        with contextlib.suppress(AssertionError):
            site.until(all_is_used, "all is used")
        assert not missing
        assert site.used_by(*CONTROLLERS, of=may)[1] == ON_PURPOSE
    finally:
        site.policy.write_text(yaml.safe_dump(POLICY))
    for name in ("again", "hog", "sweep", "grow", "kept"):
        site.change("DELETE", f"{RUNS}/{name}")
    site.until(lambda: not any(site.run(name) for name in ("again", "hog", "sweep", "grow", "kept")), "they are gone")


def an_earlier_run_left_what_it_had(site: Site, run: str, grown: str) -> None:
    """Of the same name, and nobody has collected it yet: its successor makes it way."""
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": run, "uid": "gone"}

    def left(path: str, name: str, **rest: Any) -> None:
        site.change("POST", path, {"metadata": {"name": name, "ownerReferences": [owner]}, **rest})

    left(f"{CORE}/services", run, spec={"clusterIP": "None", "ports": [{"port": 1}]})
    left(POLICY_GROUP, run, spec={"minAvailable": 1, "selector": {"matchLabels": {"of": "gone"}}})
    left(NETWORK_GROUP, run, spec={"podSelector": {"matchLabels": {"of": "gone"}}})
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    left(f"{CORE}/podtemplates", f"{grown}-1-1", template=template)
    left(
        REQUESTS,
        f"{grown}-1-1",
        apiVersion="autoscaling.x-k8s.io/v1",
        kind="ProvisioningRequest",
        spec={
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "podSets": [{"count": 1, "podTemplateRef": {"name": f"{grown}-1-1"}}],
        },
    )
    site.submit(run, replicas=2, resources=SMALL | {"gpu": 5}, network={"from": [], "to": []}, restarts=3)
    site.until(lambda: site.phase(run) == "Running", f"{run} runs")


def members_nodes_and_rules_are_meddled_with(site: Site, run: str) -> None:
    """Somebody takes a member's owner away, edits what restricts the gang, cordons a node of it: all is put right."""
    site.change("PATCH", f"{CORE}/pods/{run}-1-0", {"metadata": {"ownerReferences": None}})
    restricts = site.get(f"{NETWORK_GROUP}/{run}")["spec"]
    site.change("PATCH", f"{NETWORK_GROUP}/{run}", {"spec": {"ingress": [{}]}})
    member = site.get(f"{CORE}/pods/{run}-1-1")
    node = f"/api/v1/nodes/{member['spec']['nodeName']}"
    site.change("PATCH", node, {"spec": {"unschedulable": True}})
    site.until(lambda: bool(site.get(f"{CORE}/pods/{run}-1-0")["metadata"].get("ownerReferences")), "its owner is back")
    site.until(lambda: site.get(f"{NETWORK_GROUP}/{run}")["spec"] == restricts, "what restricts it is as it was")
    site.until(lambda: site.get(f"{POLICY_GROUP}/{run}")["spec"]["minAvailable"] == 1, "one may be evicted")
    site.change("PATCH", node, {"spec": {"unschedulable": None}})


def members_end_in_every_way(site: Site) -> None:
    """A gang that starts anew says again what it said; the kernel ends a member; of a sweep each goes when it is done;
    a Pod is left of a run that nobody knows."""
    site.change("PATCH", f"{CORE}/pods/again-1-0", ends("exit-code", "1"))
    site.submit("hog")
    site.submit("sweep", array="0-1")
    site.until(lambda: {site.phase("hog"), site.phase("sweep")} == {"Running"}, "both run")
    site.change("PATCH", f"{CORE}/pods/hog-1-0", ends("oom", "true"))
    site.change("PATCH", f"{CORE}/pods/sweep-1-0", ends("exit-code", "0"))
    site.until(lambda: not site.get(f"{CORE}/pods/sweep-1-0"), "it went")
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY} | names.member_labels("ghost", "gone", 1, 0)
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "ghost", "uid": "gone", "controller": True}
    ghost = {"metadata": {"name": "ghost-1-0", "labels": labels, "ownerReferences": [owner]}}
    site.change("POST", f"{CORE}/pods", ghost | {"spec": {"containers": [{"name": "main", "image": "x"}]}})
    site.until(lambda: not site.get(f"{CORE}/pods/ghost-1-0"), "nothing is left of it")
    site.until(lambda: site.attempt("again") == (2, "Running"), "again runs again")


def ends(how: str, value: str) -> dict[str, Any]:
    """What a simulated Pod's metadata say to it."""
    return {"metadata": {"annotations": {f"sim.kajitori.dev/{how}": value}}}


def a_gang_asks_for_nodes(site: Site, run: str) -> None:
    """Of a kind that only comes when somebody asks; it is taken back when nobody wants it any more."""
    site.submit(run, resources=SMALL | {"gpu": 8, "gpuType": "a100", "wholeNode": True})

    def asked_for() -> bool:
        (owner,) = site.get(f"{REQUESTS}/{run}-1-1").get("metadata", {}).get("ownerReferences", [{}])
        return bool(owner.get("controller"))

    site.until(asked_for, "it asks")
    site.change("PATCH", f"{RUNS}/{run}", {"spec": {"stopped": True}})
    site.until(lambda: not site.get(f"{REQUESTS}/{run}-1-1"), "it is taken back")


def the_api_server_refuses(site: Site) -> None:
    """A member that is larger than a LimitRange allows, which is named; its checkpoint's claim stays."""
    limits = [{"type": "Container", "max": {"memory": "2Gi"}}]
    site.change("POST", f"{CORE}/limitranges", {"metadata": {"name": "small"}, "spec": {"limits": limits}})
    checkpoint = {"path": "/ckpt", "size": "1Gi"}
    site.submit("kept", resources=SMALL | {"memory": "3Gi"}, checkpoint=checkpoint)
    site.until(lambda: "LimitRange small" in str(site.run("kept").get("message")), "it is named")
    site.change("DELETE", f"{CORE}/limitranges/small")


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
