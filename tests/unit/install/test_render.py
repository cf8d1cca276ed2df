"""The objects of an installation: each once, in order, with TLS, and with the fewest possible rights on the machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kajitori.configuration import x509
from kajitori.errors import InvalidInput
from kajitori.install.parts.gateway import gateway
from kajitori.install.parts.objects import Object, identity
from kajitori.install.record import record_map, record_of
from kajitori.install.render import in_order, render
from kajitori.install.settings import InstallSettings, parse_settings
from kajitori.openid.authentication_config import parse_authentication

EXAMPLE = Path(__file__).parents[3] / "examples" / "install" / "settings.yaml"
DIGEST = f"sha256:{'0' * 64}"
AUTHORITY = x509.certificate_pem(x509.authority(x509.new_key(), datetime.now(UTC))).decode()
WHOLE = f"""
namespace: ml
images: {{prefix: registry.example.org:5000/ml, partsDigest: '{DIGEST}', pullSecrets: [regcred], pullPolicy: Always}}
tls: {{certificates: certManager, issuer: {{name: corp}}, names: [kaji.example.org, 10.1.2.3]}}
server: {{replicas: 3, cpu: 2, service: LoadBalancer, arguments: [--limit=recheck=9], nodeSelector: {{pool: infra}}}}
store: {{url: 's3://bucket', secret: s3}}
"""
PEOPLE = "issuer: 'https://login.example.org', url: 'https://kaji.example.org'"
CASES = {
    "default": "",
    "everything": WHOLE,
    "given": "tls: {certificates: given}",
    "people": f"""
signIn:
  issuer: https://login.example.org
  url: https://kaji.example.org
  programsUrl: https://*.runs.example.org
  clientSecret: ours
  ca: {json.dumps(AUTHORITY)}
history: {{url: 'postgresql://kaji@db/kaji', secret: database}}
""",
    "plain": "{tls: {certificates: none}, agents: {enabled: false}, flowControl: false, admissionPolicies: false}",
}


def rendered(case: str) -> list[Object]:
    return in_order(render(parse_settings(CASES[case])))


def pods(objects: list[Object]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the Pod of each workload."""
    for document in objects:
        if document["kind"] in ("Deployment", "DaemonSet"):
            yield document["metadata"]["name"], document["spec"]["template"]["spec"]
        elif document["kind"] == "CronJob":
            yield document["metadata"]["name"], document["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("case", CASES)
def test_every_object_comes_once_and_after_those_it_needs(case: str) -> None:
    objects = rendered(case)
    seen = [identity(document) for document in objects]
    assert len(set(seen)) == len(seen)
    place = {(one.kind, one.namespace, one.name): index for index, one in enumerate(seen)}
    for index, document in enumerate(objects):
        one = identity(document)
        assert not one.namespace or place["Namespace", "", one.namespace] < index
        if "roleRef" in document:
            ref = document["roleRef"]
            assert place[ref["kind"], one.namespace if ref["kind"] == "Role" else "", ref["name"]] < index
            for subject in document["subjects"]:
                assert ("ServiceAccount", subject["namespace"], subject["name"]) in place
    for document in objects:
        if document["kind"] in ("Deployment", "DaemonSet"):
            spec, namespace = document["spec"]["template"]["spec"], document["metadata"]["namespace"]
            assert ("ServiceAccount", namespace, spec["serviceAccountName"]) in place
            for volume in spec["volumes"]:
                if "configMap" in volume:
                    assert ("ConfigMap", namespace, volume["configMap"]["name"]) in place


@pytest.mark.parametrize("case", CASES)
def test_parts_have_the_fewest_possible_rights_on_the_machine(case: str) -> None:
    for name, pod in pods(rendered(case)):
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"], name
        assert security["capabilities"]["drop"] == ["ALL"], name
        assert container["resources"]["limits"]["memory"], name
        if name != "kajitori-agent":
            assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"], name
            assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys(), name


@pytest.mark.parametrize("case", ["default", "everything", "given"])
def test_all_connections_of_parts_use_tls(case: str) -> None:
    """No part may use plain HTTP, all URLs are https, and probes use TLS; agents as well."""
    for name, pod in pods(rendered(case)):
        (container,) = pod["containers"]
        assert "--insecure-http" not in container["args"]
        assert not any("http://" in argument for argument in container["args"])
        if name != "kajitori-certificates":
            assert {"--tls-cert=/etc/kajitori-tls/tls.crt"} <= set(container["args"]), name
            probes = [value for key, value in container.items() if key.endswith("Probe")]
            assert probes and all(probe["httpGet"]["scheme"] == "HTTPS" for probe in probes), name


def test_without_certificates_all_connections_are_plain_http() -> None:
    for name, pod in pods(rendered("plain")):
        (container,) = pod["containers"]
        assert not any("https" in argument or "tls" in argument for argument in container["args"]), name
        assert "tls" not in {volume["name"] for volume in pod["volumes"]}


def test_images_and_their_credentials_come_from_one_place() -> None:
    objects = rendered("everything")
    assert {pod["containers"][0]["image"] for _, pod in pods(objects)} == {
        f"registry.example.org:5000/ml/kajitori@{DIGEST}"
    }
    asked = [
        argument
        for _, pod in pods(objects)
        for argument in pod["containers"][0]["args"]
        if "--member-image" in argument
    ]
    assert set(asked) == {"--member-image=registry.example.org:5000/ml/kajitori-member:0.1.0"}
    accounts = [document for document in objects if document["kind"] == "ServiceAccount"]
    assert all(account["imagePullSecrets"] == [{"name": "regcred"}] for account in accounts)
    assert all(pod["containers"][0]["imagePullPolicy"] == "Always" for _, pod in pods(objects))


def test_settings_reach_the_objects() -> None:
    objects = {identity(document)[1:]: document for document in rendered("everything")}
    server = objects["Deployment", "ml", "kajitori-server"]["spec"]
    pod = server["template"]["spec"]
    (container,) = pod["containers"]
    assert (server["replicas"], pod["nodeSelector"]) == (3, {"pool": "infra"})
    assert container["resources"]["requests"]["cpu"] == "2"
    assert {"--limit=recheck=9", "--blobs=s3://bucket", "--controller-namespace=ml"} <= set(container["args"])
    assert container["envFrom"] == [{"secretRef": {"name": "s3"}}]
    assert objects["Service", "ml", "server"]["spec"]["type"] == "LoadBalancer"
    certificate = objects["Certificate", "ml", "kajitori-tls"]["spec"]
    assert certificate["issuerRef"]["name"] == "corp"
    assert "kaji.example.org" in certificate["dnsNames"] and "10.1.2.3" in certificate["ipAddresses"]
    assert "server.ml.svc" in certificate["dnsNames"]
    assert objects["Certificate", "ml-agents", "kajitori-tls"]["spec"]["dnsNames"] == ["agent.ml-agents"]


def test_every_mount_of_a_pod_has_its_volume() -> None:
    for name, pod in pods(rendered("people")):
        mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}, name


def test_sign_in_and_history_read_secrets_from_files() -> None:
    """The key of browsers' sessions and the provider's authority are files of the Web API alone."""
    objects = {identity(document)[1:]: document for document in rendered("people")}
    pods_of = {part: objects["Deployment", "kajitori", f"kajitori-{part}"] for part in ("server", "controller")}
    secrets, arguments = {}, {}
    for part, deployment in pods_of.items():
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        found = {
            folders[volume["name"]]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume
        }
        secrets[part], arguments[part] = found, set(container["args"])
    history = {"/etc/kajitori-tls": "kajitori-tls", "/etc/kajitori-history": "database"}
    assert secrets["controller"] == history
    sign_in = {"/etc/kajitori-sign-in": "kajitori-sign-in", "/etc/kajitori-sign-in-client": "ours"}
    assert secrets["server"] == history | sign_in
    assert "--programs-url=https://*.runs.example.org" in arguments["server"] - arguments["controller"]
    password = "--history-password-file=/etc/kajitori-history/password"
    assert password in arguments["controller"] & arguments["server"]
    assert arguments["server"] >= {
        "--sign-in-issuer=https://login.example.org",
        "--sign-in-url=https://kaji.example.org",
        "--sign-in-key=/etc/kajitori-sign-in/key",
        "--sign-in-secret=/etc/kajitori-sign-in-client/client-secret",
        "--sign-in-ca=/etc/kajitori/sign-in-ca.crt",
    }
    assert objects["ConfigMap", "kajitori", "kajitori"]["data"]["sign-in-ca.crt"] == AUTHORITY


GATEWAY = """
signIn: {issuer: 'https://login.example.org'}
gateway: {enabled: true, groups: ['oidc:operators'], users: ['oidc:ada']}
"""


def test_the_gateway_is_an_account_that_may_impersonate_named_groups() -> None:
    """Nothing else: the Web API makes its tokens, and itself may impersonate nobody."""
    settings = parse_settings(GATEWAY)
    added = in_order(render(settings))
    without = {identity(one) for one in in_order(render(parse_settings(GATEWAY.replace("true", "false"))))}
    new = {identity(one).kind: one for one in added if identity(one) not in without}
    assert new["ClusterRole"]["rules"] == [
        {"apiGroups": [""], "resources": ["users"], "resourceNames": ["oidc:ada"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["oidc:operators"], "verbs": ["impersonate"]},
    ]
    assert [one["name"] for one in new["ClusterRoleBinding"]["subjects"]] == ["kajitori-gateway"]
    (tokens,) = new["Role"]["rules"]
    assert (tokens["resources"], tokens["resourceNames"]) == (["serviceaccounts/token"], ["kajitori-gateway"])
    assert [one["name"] for one in new["RoleBinding"]["subjects"]] == ["kajitori-server"]
    maps = {identity(one).name: one for one in added if one["kind"] == "ConfigMap"}
    (jwt,) = parse_authentication(maps["kajitori"]["data"]["gateway.yaml"]).jwt
    assert (jwt.issuer.url, jwt.issuer.audiences) == ("https://login.example.org", ["kaji"])
    assert jwt.claim_mappings.username.prefix == "oidc:"


def test_without_groups_the_gateway_has_no_rule_for_all_of_them() -> None:
    (role,) = [one for one in gateway(InstallSettings()) if one["kind"] == "ClusterRole"]
    assert [one["resources"] for one in role["rules"]] == [["users"]]


def test_a_password_in_the_url_of_history_is_refused_unsaid() -> None:
    for text in ("postgresql://kaji:geheim@db/kaji", "postgresql://kaji@db/kaji?password=geheim"):
        with pytest.raises(InvalidInput, match=r"history\.secret") as refused:
            parse_settings(f"history: {{url: '{text}'}}")
        assert "geheim" not in f"{refused.value} {refused.value.faults}"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("history: {url: 'sqlite:///tmp/history.db'}", "history.url"),
        ("history: {secret: database}", "history.secret"),
        ("signIn: {clientSecret: ours}", "signIn.clientSecret"),
        ("signIn: {issuer: 'http://login.example.org'}", "signIn.issuer"),
        ("signIn: {issuer: 'https://login.example.org', url: 'http://kaji.example.org'}", "signIn.url"),
        ("signIn: {issuer: 'https://login.example.org', scopes: profile}", "signIn.scopes"),
        ("signIn: {issuer: 'https://login.example.org', ca: nonsense}", "signIn.ca"),
        ("signIn: {programsUrl: 'https://*.runs.example.org'}", "signIn.programsUrl"),
        (f"signIn: {{{PEOPLE}, programsUrl: 'https://*.example.org'}}", "signIn.programsUrl"),
        (f"signIn: {{{PEOPLE}, programsUrl: 'http://*.runs.example.org'}}", "signIn.programsUrl"),
        ("signIn: {issuer: 'https://l.example.org', programsUrl: 'https://*.r.example.org'}", "signIn.programsUrl"),
        ("gateway: {enabled: true}", "gateway.enabled"),
        ("gateway: {prefix: ''}", "gateway.prefix"),
        ("gateway: {prefix: 'system:'}", "gateway.prefix"),
        ("gateway: {groups: ['system:masters']}", "gateway.groups[0]"),
        ("gateway: {users: ['oidc:']}", "gateway.users[0]"),
    ],
)
def test_sign_in_and_history_that_cannot_work_are_refused(text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_settings(text)
    (fault,) = refused.value.faults
    assert fault.field.startswith(field) and fault.hint


def test_the_certificate_of_agents_names_no_other_part() -> None:
    """Its key is on every node."""
    settings = parse_settings(WHOLE)
    assert not set(settings.agents_certificate_names) & set(settings.certificate_names)
    assert settings.agents_certificate_names == ("agent.ml-agents",)


def test_a_token_for_agents_metrics_needs_a_certificate() -> None:
    with pytest.raises(InvalidInput, match=r"agents.metricsSecret .* plain text"):
        parse_settings("{tls: {certificates: none}, agents: {metricsSecret: prometheus}}")
    text = "agents: {metricsSecret: prometheus}"
    (pod,) = [pod for name, pod in pods(in_order(render(parse_settings(text)))) if name == "kajitori-agent"]
    assert "--metrics-token=/etc/kajitori-metrics-token/token" in pod["containers"][0]["args"]
    assert {"name": "metrics-token", "secret": {"secretName": "prometheus"}} in pod["volumes"]


def test_the_example_is_valid() -> None:
    settings = parse_settings(EXAMPLE.read_text())
    assert "kaji.example.org" in settings.certificate_names


def test_all_faults_of_settings_are_named_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_settings("tls: {certificates: certManager}\nserver: {replica: 2, cpu: lots}\nimages: {partsDigest: abc}")
    fields = {fault.field.split(" ")[0] for fault in refused.value.faults}
    assert fields == {"tls", "server.replica", "server.cpu", "images.partsDigest"}
    assert "replicas" in str(refused.value)


@pytest.mark.parametrize("case", CASES)
def test_a_record_holds_settings_and_objects(case: str) -> None:
    settings = parse_settings(CASES[case])
    objects = {identity(document) for document in in_order(render(settings))}
    kept = record_of(record_map(settings, objects, complete=True))
    assert (kept.settings, set(kept.objects), kept.complete) == (settings, objects, True)


def test_an_empty_record_has_the_default_settings() -> None:
    assert record_of({"data": {}}).settings == InstallSettings()
    with pytest.raises(InvalidInput, match="run kaji install again"):
        record_of({"data": {"objects": "nonsense"}})
