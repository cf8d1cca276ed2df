"""The programs of Kubernetes that tests start: kube-apiserver, etcd, kube-scheduler, kube-controller-manager, kubectl.

They are looked for in $KUBEBUILDER_ASSETS, then in the store of setup-envtest, newest version first. etcd and kubectl
may also come from $PATH.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_ALSO_ON_PATH = ("etcd", "kubectl")


def search_path() -> list[Path]:
    """Return the folders in which programs are looked for, in this order."""
    folders = [Path(os.environ["KUBEBUILDER_ASSETS"])] if os.environ.get("KUBEBUILDER_ASSETS") else []
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    store = data / "kubebuilder-envtest" / "k8s"
    versions = sorted(store.iterdir(), key=_version, reverse=True) if store.is_dir() else []
    return folders + (versions or [store])


def find_binary(name: str) -> Path | None:
    """Return the path of a program, or None if it is not installed."""
    for folder in search_path():
        if os.access(folder / name, os.X_OK):
            return folder / name
    found = shutil.which(name) if name in _ALSO_ON_PATH else None
    return Path(found) if found else None


def binary(name: str) -> Path:
    """Return the path of a program. Raises RuntimeError that names the searched folders if it is not installed."""
    found = find_binary(name)
    if found is None:
        raise RuntimeError(f"{name} is not in {', '.join(str(folder) for folder in search_path())}")
    return found


def require_binaries(*names: str) -> None:
    """Skip the test if one of these programs is missing, and name the searched folders."""
    missing = [name for name in names if find_binary(name) is None]
    if missing:
        places = ", ".join(str(folder) for folder in search_path())
        pytest.skip(
            f"no {' nor '.join(missing)} in {places}: run setup-envtest use, or set $KUBEBUILDER_ASSETS to their folder"
        )


def kubectl_binary() -> str:
    """Return the path of kubectl. Skip the test if it is not installed."""
    found = find_binary("kubectl")
    if not found:
        pytest.skip("no kubectl in the store of setup-envtest or on $PATH: run setup-envtest use")
    return str(found)


def etcd_fault(version: str) -> str:
    """Return why kube-apiserver cannot use an etcd of this version; empty if it can.

    Older versions cannot report the progress of watches reliably (etcd issues 15220 and 17507). The API server's cache
    then never catches up: lists wait, and fail with "Too large resource version". The versions are those of
    kube-apiserver 1.36, `storage/feature/feature_support_checker.go`.
    """
    found = _numbers(version)
    if found >= (3, 5, 13) or (3, 4, 31) <= found < (3, 5):
        return ""
    return (
        f"etcd {version} is too old for kube-apiserver: lists would fail with 'Too large resource version'; "
        "3.5.13 or newer is needed. `setup-envtest use` installs a current one beside kube-apiserver, which is found "
        "before the one on $PATH; or set $KUBEBUILDER_ASSETS to a folder that has both"
    )


@functools.cache
def current_etcd() -> Path:
    """Return the path of etcd. Raises RuntimeError that names the way out if kube-apiserver cannot use it."""
    found = binary("etcd")
    printed = subprocess.run([found, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    version = printed.partition("etcd Version: ")[2].partition("\n")[0].strip()
    if fault := etcd_fault(version):
        raise RuntimeError(f"{fault} ({found})")
    return found


def _version(folder: Path) -> tuple[int, ...]:
    return _numbers(folder.name.partition("-")[0])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
