"""Reading the configuration: one or several files, the environment, a Pod; errors name field and cause."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kajitori.errors import InvalidInput, KajitoriError, Unavailable, Unsupported
from kajitori.kube.connection.config import ExecPlugin, KubeConfig
from kajitori.kube.connection.proxy import proxy_for

SECRET = "s3cr3t-t0ken"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide this machine's own configuration."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def write(path: Path, cluster: dict[str, Any], user: dict[str, Any], **context: str) -> Path:
    """Write a kubeconfig with one context named `one`."""
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://api:6443"} | cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"} | context}],
        "current-context": "one",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_kubeconfigs_current_context_is_read(tmp_path: Path) -> None:
    """Address, namespace, TLS and proxy; relative paths are relative to the kubeconfig."""
    cluster = {
        "server": "https://api:6443/",
        "certificate-authority": "ca.crt",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
    }
    user = {"client-certificate": "me.crt", "client-key-data": base64.b64encode(b"KEY").decode(), "as": "boss"}
    config = KubeConfig.from_file(write(tmp_path / "config", cluster, user, namespace="vision"))
    assert (config.server, config.namespace, config.context) == ("https://api:6443", "vision", "one")
    assert config.ca_file == tmp_path / "ca.crt"
    assert (config.tls_server_name, config.proxy_url) == ("kubernetes", "http://proxy:3128")
    assert config.credentials.certificate_file == tmp_path / "me.crt"
    assert config.credentials.key_pem == b"KEY"
    assert config.credentials.impersonate_user == "boss"


def test_credential_plugins_are_read_with_all_their_fields(tmp_path: Path) -> None:
    """Version v1 with its later fields; a relative command with a slash is found beside the kubeconfig."""
    exec_part = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "args": ["--region", "eu"],
        "env": [{"name": "PROFILE", "value": "ml"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": "install it so",
    }
    config = KubeConfig.from_file(write(tmp_path / "config", {}, {"exec": exec_part}))
    assert config.credentials.plugin == ExecPlugin(
        api_version="client.authentication.k8s.io/v1",
        command=str(tmp_path / "login"),
        args=("--region", "eu"),
        env=(("PROFILE", "ml"),),
        install_hint="install it so",
        provide_cluster_info=True,
        interactive_mode="Never",
    )


def test_the_repr_of_a_configuration_shows_no_secret(tmp_path: Path) -> None:
    """It may be logged."""
    data = base64.b64encode(SECRET.encode()).decode()
    user = {"token": SECRET, "password": SECRET, "username": "u", "client-key-data": data}
    config = KubeConfig.from_file(write(tmp_path / "config", {}, user))
    assert config.credentials.token == SECRET
    assert SECRET not in repr(config)
    assert SECRET not in repr(config.with_token(SECRET))


def test_with_token_removes_all_other_credentials() -> None:
    """Neither a certificate nor impersonation is left."""
    config = KubeConfig(server="https://api", ca_pem=b"CA").with_token("theirs")
    assert (config.server, config.ca_pem, config.credentials.token) == ("https://api", b"CA", "theirs")
    assert config.credentials.plugin is None


@pytest.mark.parametrize(
    ("cluster", "user", "kind", "said"),
    [
        ({"server": "ftp://api"}, {}, InvalidInput, "http"),
        ({"proxy-url": "socks5://proxy"}, {}, Unsupported, "socks5://proxy"),
        ({"certificate-authority-data": "***"}, {}, InvalidInput, "certificate-authority-data"),
        ({"insecure-skip-tls-verify": "maybe"}, {}, InvalidInput, "insecure-skip-tls-verify"),
        ({}, {"auth-provider": {"name": "gcp"}}, Unsupported, "auth-provider"),
        ({}, {"exec": {"apiVersion": "v7", "command": "x"}}, Unsupported, "v7"),
        ({}, {"exec": {"apiVersion": "v1"}}, InvalidInput, "command"),
        ({}, {"as-user-extra": {"a": ["b"]}}, Unsupported, "as-user-extra"),
    ],
)
def test_unusable_fields_are_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], kind: type[KajitoriError], said: str
) -> None:
    """Each unusable field leads to a typed error that names it."""
    with pytest.raises(kind) as caught:
        KubeConfig.from_file(write(tmp_path / "config", cluster, user))
    assert said in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("text", ["", "[]", "a: [", "- x", "\x00", "clusters: 7\ncurrent-context: x\ncontexts: [3]"])
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        KubeConfig.from_file(path)


def test_an_unknown_context_names_the_known(tmp_path: Path) -> None:
    """After a typo in --context the message lists the known ones."""
    with pytest.raises(InvalidInput) as caught:
        KubeConfig.from_file(write(tmp_path / "config", {}, {}), "two")
    assert "one" in str(caught.value)


def test_several_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$KUBECONFIG may name several files: the first current-context counts, entries come from any."""
    first = tmp_path / "first"
    first.write_text(yaml.safe_dump({"current-context": "one"}))
    (tmp_path / "other").mkdir()
    second = write(tmp_path / "other" / "second", {"certificate-authority": "ca.crt"}, {"token": "t"})
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'missing'}:{second}")
    config = KubeConfig.discover(None)
    assert (config.server, config.credentials.token) == ("https://api:6443", "t")
    assert config.ca_file == tmp_path / "other" / "ca.crt"


def test_configurations_are_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named file, $KUBECONFIG, ~/.kube/config, the Pod's own cluster; otherwise an error with a remedy."""
    with pytest.raises(Unavailable) as caught:
        KubeConfig.discover(None)
    assert "--kubeconfig" in caught.value.hint
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    write(home / "config", {"server": "https://home"}, {})
    assert KubeConfig.discover(None).server == "https://home"
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "env", {"server": "https://env"}, {})))
    assert KubeConfig.discover(None).server == "https://env"
    named = write(tmp_path / "named", {"server": "https://named"}, {})
    assert KubeConfig.discover(named).server == "https://named"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(InvalidInput, match="missing"):
        KubeConfig.discover(None)


def test_the_configuration_of_a_pod_follows_its_token_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service account's token file is read again when it changes; IPv6 addresses are in brackets."""
    with pytest.raises(Unavailable):
        KubeConfig.in_cluster(tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("vision\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    config = KubeConfig.in_cluster(tmp_path)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "vision")
    assert config.credentials.token_file == tmp_path / "token"


@pytest.mark.parametrize(
    ("server", "no_proxy", "proxied"),
    [
        ("https://api.example.com:6443", "", True),
        ("https://api.example.com:6443", "example.com", False),
        ("https://api.example.com:6443", "*", False),
        ("https://10.1.2.3:6443", "", True),
        ("https://10.1.2.3:6443", "192.168.0.0/16,10.0.0.0/8", False),
        ("https://10.1.2.3:6443", "10.1.2.3", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://[::1]:6443", "", False),
        ("https://localhost:6443", "", False),
    ],
)
def test_https_proxy_is_used_unless_no_proxy_names_the_host(
    monkeypatch: pytest.MonkeyPatch, server: str, no_proxy: str, proxied: bool
) -> None:
    """$NO_PROXY may name the host, its domain or its network. Loopback never uses a proxy."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert proxy_for(KubeConfig(server=server)) == ("http://proxy:3128" if proxied else None)


def test_the_kubeconfigs_proxy_takes_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    assert proxy_for(KubeConfig(server="https://127.0.0.1", proxy_url="http://other:1")) == "http://other:1"
