"""Kajitori installed on a real API server by `kaji install`: its parts are `kaji` processes that get what Pods get."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from tests.harness.commands import SHORT_LEASE, Completed, Kaji, clean_environment, kaji, kubectl, start_kaji
from tests.harness.platform.deployed import Right, bindings
from tests.harness.servers.real_server import RealServer, free_port, running_real_server
from tests.harness.waiting import PATIENCE_SECONDS, wait_until

from kajitori.core.naming import names
from kajitori.install.parts.pods import POLICY_FOLDER, TLS_FOLDER
from kajitori.install.parts.workloads import SIGN_IN_FOLDER
from kajitori.install.settings import SIGN_IN_SECRET, TLS_SECRET

SERVER, RELAY, RENEWAL = "kajitori-server", "kajitori-relay", "kajitori-certificates"
"""Service accounts of the Web API, the relay, and the CronJob that renews certificates."""
CONTROLLERS = ("c1", "c2")
"""Service accounts with the permissions in deploy/controller.yaml: one per controller, to tell them apart in the audit
log."""
ROLES = {
    "nodes": ("cluster-admin",),
    "ada": ("kajitori-user", "kajitori-user-logs", "kajitori-user-exec", "kajitori-user-attach", "kajitori-user-ports"),
    "grace": ("kajitori-user",),
    "eve": (),
    "olga": ("kajitori-operator",),
}
"""Roles of further service accounts: people have theirs in the namespace `vision`, the others everywhere."""
PEOPLE = ("ada", "grace", "eve")
PARTS = (SERVER, RELAY, RENEWAL, *CONTROLLERS)
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
"""Marks of tests that share an installation."""
NO_PROVIDER = "https://127.0.0.1:1"
"""Issuer for the installation's users, which refuses connections: service accounts act as users in these tests."""
RUNS = f"/apis/{names.API_VERSION}/namespaces/vision/{names.PLURAL}"
SMALL = {"cpu": 1, "memory": "1Gi", "gpu": 1}


class Installation:
    """A real API server, users, and `kaji` processes, which end with the test."""

    def __init__(self, server: RealServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.url = ""
        self.before_installation: Completed = Completed([], 0)
        self.processes: dict[str, Kaji] = {}
        trust = ssl.create_default_context(cafile=str(server.config.ca_file))
        headers = {"Authorization": f"Bearer {server.config.credentials.token}"}
        self.api = httpx2.Client(
            base_url=server.config.server, headers=headers, verify=trust, trust_env=False, timeout=PATIENCE_SECONDS
        )
        self.policy = folder / "policy.yaml"
        self.policy.write_text(yaml.safe_dump(POLICY))
        self.began = 0.0
        """When `kaji install` was called, by the monotonic clock."""
        self.first: Completed = Completed([], 0)
        """The first run; `first_run_seconds` is the time from `began` to its end."""
        self.first_run_seconds = 0.0

    def use_policy(self, rules: dict[str, Any]) -> None:
        """Write the policy file, and wait until the Web API has read it."""
        before = self._policy_version()
        self.policy.write_text(yaml.safe_dump(rules))
        self.until(lambda: self._policy_version() != before, "the policy is in force")

    def _policy_version(self) -> int:
        headers = {"Authorization": f"Bearer {self.token_in('ada')}"}
        return int(self.fetch(f"{self.url}/v1/policy", headers).json()["version"])

    def fetch(self, url: str, headers: dict[str, str] | None = None) -> httpx2.Response:
        """Send a GET request to a part, and verify its certificate."""
        return httpx2.get(url, headers=headers or {}, verify=self.trust(), trust_env=False, timeout=PATIENCE_SECONDS)

    def trust(self) -> ssl.SSLContext:
        """Return the TLS context of clients of the parts, which trusts only the installation's own authority."""
        return ssl.create_default_context(cafile=str(self.authority))

    @property
    def authority(self) -> Path:
        """The certificate of the installation's authority."""
        return self.folder / "tls" / "ca.crt"

    # ------------------------------------------------------------------------------------------ people

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of a user or a part."""
        path = self.folder / f"{user}.kubeconfig"
        if not path.exists():
            document = yaml.safe_load(self.server.kubeconfig.read_text())
            if user != "admin":
                document["users"][0]["user"] = {"token": self.token(user)}
            path.write_text(yaml.safe_dump(document))
            path.chmod(0o600)
        return path

    def token(self, user: str) -> str:
        """Return a token of a service account."""
        made = self.kubectl("create", "token", user, "-n", "kajitori", "--duration=1h")
        return made.stdout.strip()

    def kubectl(self, *arguments: str, stdin: str = "", user: str = "admin", check: bool = True) -> Completed:
        """Run kubectl as the administrator or another user. Asserts that it succeeds, unless `check` is false."""
        kubeconfig = self.server.kubeconfig if user == "admin" else self.kubeconfig(user)
        done = kubectl(kubeconfig, *arguments, stdin=stdin)
        assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done

    def install(self) -> Completed:
        """Run `kaji install` as an administrator, without waiting: Deployments have no Pods here."""
        settings = {
            "server": {"namespace": "vision"},
            "store": {"url": (self.folder / "blobs").as_uri()},
            "podSecurity": "privileged",  # node tests run as root here
            "signIn": {"issuer": NO_PROVIDER, "url": "https://kaji.example.org"},
            "gateway": {"enabled": True, "groups": ["oidc:operators"]},
        }
        path = self.folder / "settings.yaml"
        path.write_text(yaml.safe_dump(settings))
        self.began = time.monotonic()
        return self.as_administrator("install", "--settings", str(path), "--policy", str(self.policy), "--wait", "0")

    def as_administrator(self, *arguments: str, check: bool = True) -> Completed:
        """Run `kaji` with the administrator's kubeconfig."""
        environment = self.environment(KUBECONFIG=str(self.server.kubeconfig))
        done = kaji(*arguments, env=environment, timeout=PATIENCE_SECONDS)
        assert not check or done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done

    def grant(self) -> None:
        """Bind people to their roles, and give each controller its own account with the rights of the installed
        controller."""
        documents: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vision"}}]
        for binding in bindings("controller.yaml"):
            (subject,) = binding["subjects"]
            subjects = [subject | {"name": name} for name in CONTROLLERS]
            documents.append(
                binding | {"subjects": subjects, "metadata": binding["metadata"] | {"name": "tests", "labels": {}}}
            )
        documents += [_account(name) for name in (*CONTROLLERS, *ROLES)]
        for user, roles in ROLES.items():
            subject = {"kind": "ServiceAccount", "name": user, "namespace": "kajitori"}
            for role in roles:
                where = "vision" if user in PEOPLE else ""
                documents.append(_binding(f"{user}-{role}", role, subject, where))
        self.kubectl("apply", "--validate=false", "-f", "-", stdin=yaml.safe_dump_all(documents))

    def mount(self) -> None:
        """Write the files that Pods of the parts mount, as kubelets do. The policy file exists already."""
        for folder, secret in (("tls", TLS_SECRET), ("sign-in", SIGN_IN_SECRET)):
            (self.folder / folder).mkdir()
            for name, text in self.get(f"/api/v1/namespaces/kajitori/secrets/{secret}")["data"].items():
                (self.folder / folder / name).write_bytes(base64.b64decode(text))
        policy = self.get("/api/v1/namespaces/kajitori/configmaps/kajitori")["data"]
        for name in ("networks.yaml", "gateway.yaml"):
            (self.folder / name).write_text(policy[name])
        assert policy["policy.yaml"] == self.policy.read_text()

    def arguments(self, part: str, **others: str) -> list[str]:
        """Return the options in a part's Deployment, with paths and addresses of this machine, and `others`."""
        spec = self.get(f"/apis/apps/v1/namespaces/kajitori/deployments/kajitori-{part}")["spec"]
        (container,) = spec["template"]["spec"]["containers"]
        assert container["command"] == ["kaji", part]
        given = dict(each.removeprefix("--").split("=", 1) for each in container["args"])
        given |= {"host": "127.0.0.1", "port": "0", "log-format": "text", **others}
        mounted = {TLS_FOLDER: self.folder / "tls", SIGN_IN_FOLDER: self.folder / "sign-in", POLICY_FOLDER: self.folder}
        paths = {f"{there}/": f"{here}/" for there, here in mounted.items()}
        for name, value in given.items():
            for there, here in paths.items():
                if value.startswith(there):
                    given[name] = here + value.removeprefix(there)
        return [f"--{name}={value}" for name, value in given.items()]

    def run_first(self) -> None:
        """Run a gang on this machine, and note how long it took from the call of `kaji install` to its end."""
        here = ("--node-selector", "kubernetes.io/hostname=here", "--cpus", "0.2", "-m", "64m", "--restarts", "0")
        self.first = self.kaji(
            "run", "-q", "--rm", "-n", "2", *here, "busybox", "sh", "-c", "grep -c slots=1 $KAJI_HOSTS"
        )
        self.first_run_seconds = time.monotonic() - self.began

    def report_ready(self) -> None:
        """Write the status of Deployments and DaemonSet, as their controllers do when all Pods are ready."""
        base = "/apis/apps/v1/namespaces"
        for part in ("server", "controller", "relay"):
            path = f"{base}/kajitori/deployments/kajitori-{part}"
            found = self.get(path)
            count = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 2)
            status = {"observedGeneration": found["metadata"]["generation"], **count}
            self.change("PATCH", f"{path}/status", {"status": status})
        path = f"{base}/kajitori-agents/daemonsets/kajitori-agent"
        generation = self.get(path)["metadata"]["generation"]
        self.change("PATCH", f"{path}/status", {"status": {"observedGeneration": generation}})

    # ------------------------------------------------------------------------------------------ processes

    def start(self, name: str, verb: str, user: str, *options: str) -> None:
        """Start `kaji VERB` as a user, with its output in a file."""
        given = ("--kubeconfig", str(self.kubeconfig(user)), *options)
        with self.log_file(name).open("ab") as log:
            self.processes[name] = start_kaji(verb, *given, env=self.environment(), cwd=self.folder, log=log)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """End a part by a signal."""
        self.processes[name].send_signal(number)
        self.processes[name].wait()

    def living_controllers(self) -> list[Kaji]:
        """Return the controllers that no test has killed."""
        return [self.processes[name] for name in CONTROLLERS if self.processes[name].poll() is None]

    def start_again(self, name: str) -> None:
        """Start a part that has ended again with the same arguments, so that a server gets the same port."""
        arguments = self.processes[name].arguments
        with self.log_file(name).open("ab") as log:
            self.processes[name] = start_kaji(*arguments, env=self.environment(), cwd=self.folder, log=log)

    def start_all(self) -> None:
        """Start two controllers, a Web API, a relay, this machine as a node, and four simulated nodes."""
        self.start("sim", "sim", "nodes", "--nodes", "4", "--gpus", "8", "--gpu-type", "h100", "--untaint")
        self.start(
            "node", "node", "nodes", "--data", str(self.folder / "node"), "--name", "here", "--port", "0",
            "--client-ca", str(self.server.certificates.ca), "--address", "127.0.0.1",
        )  # fmt: skip
        for part, user in (("server", SERVER), ("relay", RELAY)):  # their ports stay free while a test restarts them
            self.start(part, part, user, *self.arguments(part, port=str(free_port())))
        self.until(lambda: "Web API: https" in self.log("server"), "the Web API listens")
        self.url = self.log("server").split("Web API: ")[1].split()[0]
        for name in CONTROLLERS:
            told = {"identity": name, "member-server": self.url}
            self.start(name, "controller", name, *self.arguments("controller", **told))
        self.until(lambda: self.leader() in ("c1", "c2"), "a controller leads")
        self.until(self.nodes_are_ready, "nodes ready")

    @property
    def relay_url(self) -> str:
        """The relay's address."""
        return self.log("relay").split("relay: ")[1].split()[0]

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of all commands and parts. In it, another controller takes over from a dead leader
        within seconds."""
        return clean_environment(self.folder, **SHORT_LEASE | more)

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

    def kaji(self, *arguments: str, user: str = "ada", stdin: str = "", **environment: str) -> Completed:
        """Run `kaji` as a user, with the server's address and the user's token in its environment."""
        try:
            return kaji(*arguments, stdin=stdin, env=self.kaji_environment(user, **environment))
        except subprocess.TimeoutExpired as late:
            raise AssertionError(f"{late}: {late.stdout!r} {late.stderr!r}\n{self.explain()}") from late

    def kaji_environment(self, user: str, **more: str) -> dict[str, str]:
        """Return an environment in which `kaji` finds the Web API as a user."""
        target = {"KAJI_SERVER": self.url, "KAJI_TOKEN": self.token_in(user), "KAJI_NAMESPACE": "vision"}
        return self.environment(**target | {"KAJI_CA": str(self.authority)} | more)

    def refusal(self, path: str, token: str, body: bytes | None = None, *, url: str = "") -> int:
        """Return the status with which the Web API, or the server at `url`, refuses a request with this token."""
        request = urllib.request.Request((url or self.url) + path, body, {"Authorization": f"Bearer {token}"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=PATIENCE_SECONDS, context=self.trust())
        return refused.value.code

    # ------------------------------------------------------------------------------------------ questions

    def get(self, path: str) -> dict[str, Any]:
        """Return an object of the API server, empty if there is none. Cheaper than kubectl."""
        answer = self._answer("GET", path)
        assert answer.status_code in (200, 404), answer.text
        found: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
        return found

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Create, patch or delete an object as the administrator. Return the API server's answer."""
        headers = {"Content-Type": f"application/{'merge-patch+' if method == 'PATCH' else ''}json"}
        answer = self._answer(method, path, headers=headers, content=json.dumps(body or {}))
        assert answer.is_success, answer.text
        changed: dict[str, Any] = answer.json()
        return changed

    def _answer(self, method: str, path: str, **asked: Any) -> httpx2.Response:
        """Return the API server's answer. It does nothing and answers 429 for a moment after a definition was
        changed."""
        while (answer := self.api.request(method, path, **asked)).status_code == HTTPStatus.TOO_MANY_REQUESTS:
            time.sleep(0.2)
        return answer

    def submit(self, name: str, **spec: Any) -> None:
        """Create a Run as `kubectl apply` does, for simulated nodes by default."""
        defaults = {"image": "busybox", "command": ["train"], "resources": SMALL, "grace": "1s"}
        run = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}}
        self.change("POST", RUNS, run | {"spec": {**defaults, **spec}})

    def run(self, name: str) -> dict[str, Any]:
        """Return the status of a run."""
        found = self.get(f"{RUNS}/{name}")
        status: dict[str, Any] = found.get("status", {})
        return status

    def phase(self, run: str) -> str:
        return str(self.run(run).get("phase", ""))

    def attempt(self, run: str) -> tuple[int, str]:
        """Return the number of the attempt, 0 if there is none, and the phase of the run."""
        status = self.run(run)
        return int(status.get("attempt", {}).get("number", 0)), str(status.get("phase", ""))

    def token_in(self, user: str) -> str:
        return str(yaml.safe_load(self.kubeconfig(user).read_text())["users"][0]["user"]["token"])

    def writes_of(self, user: str) -> int:
        """Return the number of a part's writes in the API server's audit log.

        A part that was stopped between reading the Lease and writing it sends that write when it continues. The API
        server refuses it, because another part has written the Lease since; it does not count.
        """
        return sum(
            one["verb"] not in ("get", "list", "watch")
            and (one["objectRef"].get("resource"), one["responseStatus"]["code"]) != ("leases", HTTPStatus.CONFLICT)
            for one in self.asked_by(user)
        )

    def asked_by(self, user: str) -> list[dict[str, Any]]:
        """Return the entries of a part in the audit log."""
        name = f"system:serviceaccount:kajitori:{user}"
        lines = (self.folder / "audit.log").read_text().splitlines()
        entries = [json.loads(line) for line in lines if name in line and line.endswith("}")]
        return [one for one in entries if one["user"]["username"] == name and "impersonatedUser" not in one]

    def used_by(self, *users: str, of: set[Right]) -> tuple[set[Right], set[Right]]:
        """Return which of these permissions the parts have used, and which others they used or were refused.

        Permissions that every account has do not count.
        """
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
        """Return the age of the controllers' Lease, from the metrics of the Web API."""
        return self._figures(self.url)["kajitori_controller_lease_age_seconds"]

    def figures(self, controller: str) -> dict[str, float]:
        """Return the metrics of a controller that have no labels."""
        return self._figures(self.log(controller).split("metrics and probes: ")[-1].split()[0])

    def _figures(self, url: str) -> dict[str, float]:
        lines = self.fetch(f"{url}/metrics").text.splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if "{" not in line and "#" not in line}

    def nodes_are_ready(self) -> bool:
        nodes = {node["metadata"]["name"]: node["spec"].get("taints") for node in self.get("/api/v1/nodes")["items"]}
        return len(nodes) == 5 and "here" in nodes and "not-ready" not in str(nodes)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds."""
        wait_until(condition, lambda: f"{what}\n{self.explain()}", every=0.2)

    def explain(self) -> str:
        """Return runs, Pods and the ends of all logs, for the message of a failure."""
        logs = "\n".join(f"{name}: {self.log(name)[-1500:]}" for name in self.processes)
        return f"{self.kubectl('get', 'run,pod', '-A', '-o', 'wide', check=False).stdout}\n{logs}"


@contextlib.contextmanager
def running_installation(folder: Path) -> Iterator[Installation]:
    """Run an installation with the parts that `start_all` starts."""
    (folder / "audit.yaml").write_text(yaml.safe_dump(AUDIT))
    flags = (
        f"--audit-policy-file={folder}/audit.yaml",
        f"--audit-log-path={folder}/audit.log",
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    )
    with running_real_server(*flags) as server, server.scheduler():
        installed = Installation(server, folder)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kajitori"}}
        installed.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([space, _account(SERVER)]))
        try:
            early = installed.environment(KUBECONFIG=str(installed.kubeconfig(SERVER)))
            installed.before_installation = kaji("server", "--port", "0", env=early, timeout=PATIENCE_SECONDS)
            installed.install()
            installed.grant()
            installed.mount()
            installed.start_all()
            installed.report_ready()
            installed.run_first()
            yield installed
        finally:
            installed.stop_all()
            installed.api.close()


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
