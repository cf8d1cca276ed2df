"""What `kaji install --dry-run` prints, from files and without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kajitori.configuration.options.operators import InstallOptions
from kajitori.entrypoints.installation.planning import rendered
from kajitori.errors import InvalidInput
from kajitori.install.parts.objects import identity


def test_a_dry_run_goes_by_all_files_and_options(tmp_path: Path) -> None:
    """Settings, policy with its teams, address registry, namespace and image prefix; no Secret with a key."""
    texts = {"settings": "server: {replicas: 1}", "policy": "teams: {vision: {groups: [seers]}}", "networks": "{}"}
    paths = {name: tmp_path / f"{name}.yaml" for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    options = InstallOptions(**paths, namespace="ml", image_prefix="r.example.org")  # type: ignore[arg-type]
    found = {identity(document)[1:]: document for document in rendered(options)}
    server = found["Deployment", "ml", "kajitori-server"]["spec"]
    assert server["replicas"] == 1
    assert server["template"]["spec"]["containers"][0]["image"] == "r.example.org/kajitori:0.1.0"
    assert found["ConfigMap", "ml", "kajitori"]["data"]["policy.yaml"] == texts["policy"]
    assert found["RoleBinding", "vision", "kajitori-team-user-vision"]["subjects"][0]["name"] == "seers"
    assert not any(kind == "Secret" for kind, _, _ in found)


def test_the_gateway_may_impersonate_the_groups_of_the_policys_teams(tmp_path: Path) -> None:
    """With none, `kaji install` refuses it."""
    settings, policy = tmp_path / "settings.yaml", tmp_path / "policy.yaml"
    settings.write_text("signIn: {issuer: 'https://login.example.org'}")
    policy.write_text("teams: {vision: {groups: ['oidc:vision', 'other:x'], leads: ['oidc:heads']}}")
    found = rendered(InstallOptions(settings=settings, policy=policy, gateway=True))
    (role,) = [one for one in found if identity(one)[1:] == ("ClusterRole", "", "kajitori-gateway")]
    assert role["rules"][1]["resourceNames"] == ["oidc:heads", "oidc:vision"]
    with pytest.raises(InvalidInput, match=r"gateway\.groups"):
        rendered(InstallOptions(settings=settings, gateway=True))
    with pytest.raises(InvalidInput, match=r"signIn\.issuer"):
        rendered(InstallOptions(gateway=True))


def test_a_faulty_policy_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("defaults: {memry: 1Gi}")
    with pytest.raises(InvalidInput, match="did you mean memory"):
        rendered(InstallOptions(policy=policy))
