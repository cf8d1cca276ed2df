"""The kustomize components, applied to the base, give what the same settings render."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kajitori.install.kustomize import base
from kajitori.install.render import in_order, render
from kajitori.install.settings import InstallSettings, parse_settings

SETTINGS = {
    "sign-in": "signIn: {issuer: 'https://login.example.org', url: 'https://kaji.example.org'}",
    "history": "history: {url: 'postgresql://kajitori@postgres.example.org/kajitori', secret: kajitori-history}",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_component_adds_what_its_settings_render(name: str) -> None:
    files = base()
    component = yaml.safe_load(files[f"{name}/kustomization.yaml"])
    given = _with_pods(InstallSettings())
    wanted = _with_pods(parse_settings(SETTINGS[name]))
    for one in component["patches"]:
        deployment = given[one["target"]["name"]]
        for change in yaml.safe_load(files[f"{name}/{one['path']}"]):
            _add(deployment, change["path"], change["value"])
    assert {part: _unordered(pod) for part, pod in given.items()} == {
        part: _unordered(pod) for part, pod in wanted.items()
    }


def _with_pods(settings: InstallSettings) -> dict[str, Any]:
    kinds = ("Deployment", "DaemonSet")
    return {one["metadata"]["name"]: one for one in in_order(render(settings)) if one["kind"] in kinds}


def _add(document: Any, path: str, value: Any) -> None:
    """Apply an `add` of RFC 6902 to the end of a list, or of a field that is not there."""
    *parents, last = path.strip("/").split("/")
    for part in parents:
        document = document[int(part)] if part.isdigit() else document[part]
    if last == "-":
        document.append(value)
    else:
        assert last not in document
        document[last] = value


def _unordered(document: Any) -> Any:
    """Return a document in which the order of lists does not count."""
    if isinstance(document, dict):
        return {key: _unordered(value) for key, value in document.items()}
    if isinstance(document, list):
        return sorted((_unordered(one) for one in document), key=str)
    return document
