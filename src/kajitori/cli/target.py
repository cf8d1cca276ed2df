"""Which server to talk to: the one that the environment names, else a local cluster that runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from kajitori.clusterfile import CLUSTER_FILE, links_folder
from kajitori.errors import KajitoriError, Unauthenticated, Unavailable


@dataclass(frozen=True)
class Target:
    """A server and who one is there."""

    url: str
    token: str = field(default="", repr=False)
    namespace: str = ""
    """Where runs are made that name no namespace; empty lets the server decide."""
    data: Path | None = None
    """The data folder, of a local cluster."""

    @property
    def is_local(self) -> bool:
        """On this machine: neither proxies nor patience are needed."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def way_out(self) -> str:
        """What to do when nothing answers there."""
        if self.data is not None:
            return f"start it: kaji up --data {self.data}"
        return "check $KAJI_SERVER, or start a cluster of your own: kaji up"


def find_target(environment: Mapping[str, str], cluster: Path | None, runtime_dir: Path | None = None) -> Target:
    """The server: the cluster in folder `cluster` if given, else $KAJI_SERVER, else the newest local cluster that runs.

    `runtime_dir` is where running clusters leave links to themselves. Raises Unavailable where there is none, and
    Unauthenticated where the token is missing; both name the way out.
    """
    if cluster is not None:
        return _in_folder(cluster.expanduser().absolute())
    url = environment.get("KAJI_SERVER", "")
    if url:
        return _from_environment(url, environment)
    links = runtime_dir / "clusters" if runtime_dir is not None else links_folder()
    try:
        files = [link.resolve() for link in links.iterdir()]
    except OSError:
        files = []
    stale: KajitoriError | None = None
    for file in sorted(files, key=_age_key, reverse=True):
        try:
            return _read(file)
        except Unavailable as error:
            stale = stale or error
    if stale is not None:
        raise stale
    raise Unavailable(
        "no cluster is known",
        hint="start one on this machine: kaji up; or name a server in $KAJI_SERVER and $KAJI_TOKEN",
    )


def _from_environment(url: str, environment: Mapping[str, str]) -> Target:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unavailable(f"$KAJI_SERVER is {url!r:.80}, which is no address", hint="such as https://kaji.example.org")
    token = environment.get("KAJI_TOKEN", "").strip()
    if not token:
        raise Unauthenticated("$KAJI_SERVER is set, but $KAJI_TOKEN is not", hint="put your token into $KAJI_TOKEN")
    return Target(url.rstrip("/"), token, environment.get("KAJI_NAMESPACE", ""))


def _in_folder(folder: Path) -> Target:
    file = folder / CLUSTER_FILE if folder.is_dir() else folder
    if not file.is_file():
        raise Unavailable(f"there is no cluster in {folder}", hint=f"start one: kaji up --data {folder}")
    return _read(file)


def _read(file: Path) -> Target:
    """The cluster that a file of a running `kaji up` describes. Raises Unavailable where it does not run."""
    restart = f"start it again: kaji up --data {file.parent}"
    try:
        if file.stat().st_uid != os.geteuid() and os.geteuid() != 0:
            raise Unavailable(f"the cluster in {file.parent} belongs to somebody else", hint="start your own: kaji up")
        said = json.loads(file.read_text())
        target = Target(str(said["url"]).rstrip("/"), str(said["token"]), str(said.get("namespace", "")), file.parent)
        pid = int(said["pid"])
    except OSError as error:
        raise Unavailable(f"{file} can't be read: {error.strerror}", hint=restart) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"{file} does not describe a cluster", hint=restart) from error
    if not _is_alive(pid):
        raise Unavailable(f"the cluster in {file.parent} does not run any more", hint=restart)
    return target


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _age_key(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
