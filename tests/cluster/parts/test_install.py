"""From `kaji install` to a first run; the report of `kaji install --check`; a second call changes nothing."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.harness.platform.installation import NO_PROVIDER, RENEWAL, TOGETHER, Installation

from kajitori.agent.metrics_server import serve_metrics
from kajitori.agent.servers import Servers
from kajitori.configuration import x509
from kajitori.configuration.tls_files import ServingCertificate, TrustedAuthorities
from kajitori.install.parts.certificates import ends
from kajitori.install.settings import CA_SECRET, SIGN_IN_SECRET, TLS_SECRET

FIRST_RUN_SECONDS = 60.0
SECRETS = "/api/v1/namespaces/kajitori/secrets"
AGENTS_SECRETS = "/api/v1/namespaces/kajitori-agents/secrets"

pytestmark = TOGETHER


def test_install_and_a_first_run_take_less_than_a_minute(installed: Installation) -> None:
    """The time is measured from the call of `kaji install` and includes the start of all parts. Members reach the Web
    API over TLS."""
    assert installed.first.returncode == 0, (installed.first, installed.explain())
    assert installed.first.stdout.split()[-1] == "2", "hosts in the list that the Web API sent"
    assert installed.first_run_seconds < FIRST_RUN_SECONDS
    print(f"from kaji install to the end of a first run: {installed.first_run_seconds:.1f} s")


def test_a_second_install_changes_nothing_and_waits_for_the_parts(installed: Installation) -> None:
    """It uses the settings and the policy of the first call. The key of browsers' sessions stays."""
    key = installed.get(f"{SECRETS}/{SIGN_IN_SECRET}")["data"]
    again = installed.as_administrator("install", "--wait", "30")
    assert "0 created, 0 changed" in again.stderr and "controller 2/2; server 2/2; relay 2/2" in again.stderr
    found = json.loads(installed.as_administrator("install", "--check", "-o", "json").stdout)["items"]
    assert {finding["name"]: finding["state"] for finding in found if finding["state"] != "ok"} == {
        "metrics": "warn",
        "storage": "warn",
        "images": "warn",
        "sign-in": "warn",
    }
    assert installed.get(f"{SECRETS}/{SIGN_IN_SECRET}")["data"] == key
    assert {finding["name"]: finding["text"] for finding in found}["gpus"] == "32 h100"


def test_the_web_api_tells_people_the_provider_of_the_settings(installed: Installation) -> None:
    """It started with the key of browsers' sessions that `kaji install` made."""
    assert installed.fetch(f"{installed.url}/v1/sign-in").json()["issuer"] == NO_PROVIDER


def test_the_gateway_may_impersonate_nobody_but_people_of_named_groups(installed: Installation) -> None:
    """The Web API uses the gateway, and still accepts tokens of service accounts."""
    rules = installed.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/kajitori-gateway")["rules"]
    assert [(rule["resources"], rule.get("resourceNames")) for rule in rules] == [
        (["users"], None),
        (["groups"], ["oidc:operators"]),
    ]
    arguments = installed.processes["server"].arguments
    assert "--gateway-account=kajitori/kajitori-gateway" in arguments
    headers = {"Authorization": f"Bearer {installed.token_in('ada')}"}
    who = installed.fetch(f"{installed.url}/v1/whoami", headers).json()
    assert who["user"] == "system:serviceaccount:kajitori:ada"


def test_secrets_without_the_password_of_history_are_found_and_refused(installed: Installation, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("history: {url: 'postgresql://kaji@db/kaji', secret: kajitori-tls}")
    done = installed.as_administrator("install", "--check", "--settings", str(settings), check=False)
    assert done.returncode == 2 and "the Secret kajitori/kajitori-tls has no key password" in done.stdout, done
    refused = installed.as_administrator("install", "--settings", str(settings), "--wait", "0", check=False)
    assert refused.returncode == 2 and "kajitori-tls has no key password" in refused.stderr, refused
    assert "changed" not in refused.stderr, "Pods that mount the key could not start, so nothing was applied"


def test_the_check_names_the_rights_that_the_user_lacks(installed: Installation) -> None:
    environment = installed.environment(KUBECONFIG=str(installed.kubeconfig("ada")))
    refused = installed.kaji("install", "--check", **environment)
    assert refused.returncode == 2 and "you may not apply" in refused.stdout, refused


def test_the_cronjobs_account_renews_a_certificate_that_ends_soon(installed: Installation) -> None:
    """The account has exactly the rights that it uses."""
    authority = installed.get(f"{SECRETS}/{CA_SECRET}")["data"]
    signs = x509.load_pair(*(base64.b64decode(authority[name]) for name in ("tls.crt", "tls.key")))
    key = x509.new_key()
    earlier = datetime.now(UTC) - timedelta(days=x509.LEAF_DAYS - 20)
    old = x509.leaf(key, *signs, earlier, "kajitori", names=["server.kajitori.svc"])
    pair = {"tls.crt": x509.certificate_pem(old), "tls.key": x509.key_pem(key)}
    data = {name: base64.b64encode(text).decode() for name, text in pair.items()}
    for secrets in (SECRETS, AGENTS_SECRETS):
        installed.change("PATCH", f"{secrets}/{TLS_SECRET}", {"data": data})
    (container,) = _renewal(installed)["spec"]["containers"]
    environment = installed.environment(KUBECONFIG=str(installed.kubeconfig(RENEWAL)))
    done = installed.kaji(*container["command"][1:], *container["args"], **environment)
    assert done.returncode == 0 and "it ends in 19 days" in done.stderr, done
    for secrets in (SECRETS, AGENTS_SECRETS):
        now = base64.b64decode(installed.get(f"{secrets}/{TLS_SECRET}")["data"]["tls.crt"])
        assert ends(now) > datetime.now(UTC) + timedelta(days=300)
    may = {("", "secrets", verb, name) for verb in ("get", "patch") for name in (CA_SECRET, TLS_SECRET)}
    assert installed.used_by(RENEWAL, of=may) == (may, set())


def test_agents_serve_metrics_with_the_certificate_of_the_install(installed: Installation, tmp_path: Path) -> None:
    """A reader that trusts the installation's authority verifies the name that all agents share. The certificate is not
    good for the Web API, because its key is on every node."""
    for key, text in installed.get(f"{AGENTS_SECRETS}/{TLS_SECRET}")["data"].items():
        (tmp_path / key).write_bytes(base64.b64decode(text))
    tls = ServingCertificate(tmp_path / "tls.crt", tmp_path / "tls.key")
    trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    with serve_metrics("127.0.0.1", 0, lambda: b"one 1\n", lambda: True, tls=tls) as port:

        def connected(name: str) -> None:
            with socket.create_connection(("127.0.0.1", port)) as bare:
                trusting.wrap_socket(bare, server_hostname=name).close()

        connected("agent.kajitori-agents")
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            connected("server.kajitori.svc")


def _renewal(installed: Installation) -> dict[str, Any]:
    job = installed.get("/apis/batch/v1/namespaces/kajitori/cronjobs/kajitori-certificates")
    pod: dict[str, Any] = job["spec"]["jobTemplate"]["spec"]["template"]
    return pod


def test_an_agent_is_known_over_tls_by_its_own_token(installed: Installation) -> None:
    """Relay and Web API accept the token of the DaemonSet's account for the node of its Pod, and for no other node."""
    spec = {"nodeName": "sim-00001", "serviceAccountName": "kajitori-agent"}
    pod = {"metadata": {"name": "agent"}, "spec": spec | {"containers": [{"name": "agent", "image": "kajitori"}]}}
    installed.change("POST", "/api/v1/namespaces/kajitori-agents/pods", pod)
    bound = ("--audience=kajitori", "--bound-object-kind=Pod", "--bound-object-name=agent", "--duration=1h")
    token = installed.kubectl("create", "token", "kajitori-agent", "-n", "kajitori-agents", *bound).stdout
    file = installed.folder / "agent.token"
    file.write_text(token)
    servers = Servers((), file, TrustedAuthorities("--relay-ca", installed.authority))

    def ask(url: str, method: str, path: str, body: bytes | None = None) -> bytes:
        connection = servers.connection(url, FIRST_RUN_SECONDS)
        with contextlib.closing(connection):
            return servers.ask(connection, url, method, path, body).readline()

    assert b'"pods"' in ask(installed.relay_url, "GET", "/v1/nodes/sim-00001/pods")
    with pytest.raises(http.client.HTTPException, match="answered 403"):
        ask(installed.relay_url, "GET", "/v1/nodes/sim-00002/pods")
    with pytest.raises(http.client.HTTPException, match="answered 422"):
        ask(installed.url, "POST", "/v1/nodes/sim-00001/traffic", b'{"nothing": 1}')
    with pytest.raises(http.client.HTTPException, match="answered 403"):
        ask(installed.url, "POST", "/v1/nodes/sim-00002/traffic", b'{"nothing": 1}')
    installed.change("DELETE", "/api/v1/namespaces/kajitori-agents/pods/agent")
