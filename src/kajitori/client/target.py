"""Choose the server to talk to: the environment's, the chosen context's, or the only local cluster that runs."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kajitori.configuration.cluster_file import CLUSTER_FILE, is_alive, is_starting, links_folder
from kajitori.configuration.contexts import all_contexts, path_of, read
from kajitori.configuration.private_files import write_private
from kajitori.errors import InvalidInput, KajitoriError, NotFound, Unauthenticated, Unavailable

if TYPE_CHECKING:
    from ssl import SSLContext

EARLY_SECONDS = 30.0
"""A token that expires within this time is renewed before a request."""

START_PATIENCE_SECONDS = 60.0
"""How long clients wait for a `kaji up` that is still starting."""
_START_POLL_SECONDS = 0.1

ENVIRONMENT = "environment"
"""The name of the context of $KAJI_SERVER."""


class StillStarting(Unavailable):
    """The servers of a cluster on this machine do not answer yet."""


@dataclass(frozen=True)
class Target:
    """A server, and the caller's token and namespace there."""

    url: str
    token: str = field(default="", repr=False)
    namespace: str = ""
    """Default namespace of runs; empty: the server decides."""
    data: Path | None = None
    """Data folder of a local cluster; None for a server elsewhere."""
    ca: Path | None = None
    """PEM file of the authorities to trust for an https server; None trusts those of this machine."""
    authorities: str = field(default="", repr=False)
    """The same as PEM text, from a sign-in."""
    signed_in: Path | None = None
    """File of the sign-in that the token is from; None for another token."""

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine, so that no proxy is asked and an answer comes at once."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def tls(self) -> SSLContext:
        """Return the TLS settings for an https server. Raises InvalidInput if `ca` holds no certificates."""
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca, cadata=self.authorities or None)
        except (OSError, ssl.SSLError) as error:
            message = f"{self.ca} can't be read as certificates: {error}"
            raise InvalidInput.one("$KAJI_CA", message, value=str(self.ca), hint="name a PEM file") from error

    @property
    def way_out(self) -> str:
        """Return the advice for a server that does not answer."""
        if self.data is not None:
            return f"start it: kaji up --data {self.data}"
        if self.signed_in is not None:
            return "check the network; other servers: kaji context ls"
        return "check the address, or start a cluster of your own: kaji up"

    @property
    def way_in(self) -> str:
        """Return the advice for a token that the server refuses."""
        if self.data is not None:
            return f"start it again: kaji up --data {self.data}"
        if self.signed_in is not None:
            return f"sign in again: kaji login {self.url}"
        return f"the token in $KAJI_TOKEN is wrong or has expired: put a new one there, or kaji login {self.url}"

    def renewed(self) -> Target:
        """Return this server with a new token, after the server refused the present one. Raises Unauthenticated if the
        person has to sign in again."""
        from kajitori.client.sign_in.refreshing import renewed

        assert self.signed_in is not None
        return replace(self, token=renewed(self.signed_in, self.token).token)


@dataclass(frozen=True)
class Context:
    """A server that this user can choose by a name."""

    name: str
    target: Target
    runs: bool = True
    """False for a chosen cluster that is not running."""
    why: str = ""
    """The setting that makes commands use this server; empty for the other servers."""


def find_target(environment: Mapping[str, str], cluster: Path | None, runtime_dir: Path | None = None) -> Target:
    """Return the server that commands use. First to last: the cluster that `--cluster` names, by its context or its
    folder; $KAJI_SERVER; $KAJI_CONTEXT; the choice of `kaji context use`; the only local cluster that runs.
    $KAJI_NAMESPACE replaces the namespace of whichever it is.

    `runtime_dir` is where running clusters leave links to themselves. Raises Unavailable if there is none, InvalidInput
    if several run and none is chosen, and Unauthenticated if the token is missing; all name the way out.
    """
    return _in_namespace(_target_of_environment(environment, cluster, runtime_dir), environment)


def _in_namespace(target: Target, environment: Mapping[str, str]) -> Target:
    namespace = environment.get("KAJI_NAMESPACE", "").strip()
    return replace(target, namespace=namespace) if namespace else target


def _target_of_environment(environment: Mapping[str, str], cluster: Path | None, runtime_dir: Path | None) -> Target:
    if cluster is not None:
        return _named_target(str(cluster), "--cluster", runtime_dir)
    url = environment.get("KAJI_SERVER", "")
    if url:
        return _from_environment(url, environment)
    if named := environment.get("KAJI_CONTEXT", ""):
        return _named_target(named, "$KAJI_CONTEXT", runtime_dir)
    return _chosen_target(runtime_dir) or _only_target(runtime_dir)


def _chosen_target(runtime_dir: Path | None) -> Target | None:
    """Return the target that `kaji context use` or `kaji login` chose; None if nothing is chosen."""
    if (chosen := chosen_sign_in(runtime_dir)) is not None:
        return _of_sign_in(chosen)
    folder = chosen_folder(runtime_dir)
    if folder is None:
        return None
    try:
        return _in_folder(folder)
    except Unavailable as error:
        message = f"{error.message}, and `kaji context use` chose it"
        raise Unavailable(message, hint=f"{error.hint}; or choose another: kaji context use NAME") from error


def _only_target(runtime_dir: Path | None) -> Target:
    """Return the only cluster that runs here, or else the only server at which the user is signed in. Raises errors
    that say what to choose or to start."""
    found, stale = _local_clusters(runtime_dir)
    if len(found) > 1:
        names = ", ".join(f"{name} ({target.data})" for name, target in _by_name(found).items())
        hint = "choose one: kaji context use NAME; for one command: --cluster NAME"
        raise InvalidInput.one("", f"{len(found)} clusters run here: {names}", hint=hint)
    if found:
        return found[0]
    signed_in_at = list(all_contexts(_sign_ins(runtime_dir)))
    if len(signed_in_at) == 1:
        return _of_sign_in(sign_in_file(signed_in_at[0], runtime_dir))
    if signed_in_at:
        hint = "choose one: kaji context use NAME"
        raise InvalidInput.one("", f"you are signed in at {', '.join(signed_in_at)}, and none is chosen", hint=hint)
    if stale is not None:
        raise stale
    raise Unavailable(
        "no cluster is known",
        hint="start one on this machine: kaji up; or sign in at a server: kaji login URL",
    )


def once_started(
    find: Callable[[], Target],
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[StillStarting], None] = lambda _: None,
) -> Target:
    """Return what `find` returns. While it raises StillStarting, call `tell` once, and try again for at most a
    minute."""
    tries = round(START_PATIENCE_SECONDS / _START_POLL_SECONDS)
    for number in range(tries):
        try:
            return find()
        except StillStarting as error:
            if not number:
                tell(error)
            sleep(_START_POLL_SECONDS)
    return find()


def target_of(
    server: str | None,
    context: str | None,
    token: str | None,
    environment: Mapping[str, str],
    runtime_dir: Path | None = None,
) -> Target:
    """Return the server that the arguments of `kajitori.Client` choose; without them, that of the environment.

    A `server` without a token uses the sign-in there. Errors are those of `find_target`, and name the arguments.
    """
    if server is not None and context is not None:
        raise InvalidInput.one("server", "excludes context", value=server, hint="leave one of them out")
    variables = dict(environment)
    if token is not None:
        variables["KAJI_TOKEN"] = token
    if server is None:
        try:
            named = Path(context) if context is not None else None
            return once_started(lambda: find_target(variables, named, runtime_dir))
        except NotFound as error:
            raise NotFound(error.message.replace("--cluster: ", ""), hint=error.hint) from None
    if not variables.get("KAJI_TOKEN"):
        sign_ins = all_contexts(_sign_ins(runtime_dir)).items()
        if found := next((name for name, one in sign_ins if one.server.rstrip("/") == server.rstrip("/")), None):
            return _in_namespace(_of_sign_in(sign_in_file(found, runtime_dir)), environment)
    try:
        return find_target({**variables, "KAJI_SERVER": server}, None)
    except Unauthenticated:
        hint = f"sign in with kaji login {server}, pass token, or set $KAJI_TOKEN"
        raise Unauthenticated(f"there is no token for {server}", hint=hint) from None
    except Unavailable as error:
        raise Unavailable(error.message.replace("$KAJI_SERVER", "server"), hint=error.hint) from None


def contexts(environment: Mapping[str, str], cluster: Path | None, runtime_dir: Path | None = None) -> list[Context]:
    """Return all servers that this user can choose; `why` is set for the one that commands use."""
    found, _ = _local_clusters(runtime_dir)
    named = _by_name(found)
    known = {name: Context(name, target) for name, target in named.items()}
    sign_ins = all_contexts(_sign_ins(runtime_dir))
    for name, one in sign_ins.items():
        known.setdefault(name, Context(name, Target(one.server, "", one.namespace)))
    if environment.get("KAJI_SERVER"):
        known[ENVIRONMENT] = Context(ENVIRONMENT, Target(environment["KAJI_SERVER"].rstrip("/")))
    folder = chosen_folder(runtime_dir)
    if folder is not None and all(target.data != folder for target in found):
        name = folder.name if folder.name not in known else str(folder)
        known[name] = Context(name, Target("", data=folder), runs=False)
    only = next(iter(sign_ins)) if not found and len(sign_ins) == 1 else ""
    if len(found) == 1:
        only = next(name for name, context in known.items() if context.target.data == found[0].data)
    taken, why = _name_in_use(environment, cluster, known, only, runtime_dir)
    if taken in known:
        known[taken] = replace(known[taken], target=_in_namespace(known[taken].target, environment), why=why)
    return [context for _, context in sorted(known.items())]


def _name_in_use(
    environment: Mapping[str, str],
    cluster: Path | None,
    known: Mapping[str, Context],
    only: str,
    runtime_dir: Path | None,
) -> tuple[str, str]:
    """Return the name of the context that commands use, and why; both are empty if none is chosen. `only` is the one
    that is used without a choice."""
    by_folder = {context.target.data: name for name, context in known.items()}
    if cluster is not None:
        return _name_of(str(cluster), known, by_folder), "--cluster"
    if environment.get("KAJI_SERVER"):
        return ENVIRONMENT, "$KAJI_SERVER"
    if environment.get("KAJI_CONTEXT"):
        return _name_of(environment["KAJI_CONTEXT"], known, by_folder), "$KAJI_CONTEXT"
    if (chosen := chosen_sign_in(runtime_dir)) is not None:
        return chosen.stem, "kaji context use"
    if (folder := chosen_folder(runtime_dir)) is not None:
        return by_folder[folder], "kaji context use"
    return (only, "no other runs") if only else ("", "")


def choose(name: str | None, runtime_dir: Path | None = None) -> None:
    """Store which context commands use from now on; None clears the choice. Raises NotFound."""
    file = _choice_file(runtime_dir)
    if name is None:
        file.unlink(missing_ok=True)
        return
    if name == ENVIRONMENT:
        hint = "export KAJI_SERVER and KAJI_TOKEN in the shells that are to use it"
        raise InvalidInput.one("NAME", "the server of $KAJI_SERVER is used wherever that is set", value=name, hint=hint)
    target = _named_target(name, "NAME", runtime_dir, use=False)
    choice = {"cluster": str(target.data)} if target.signed_in is None else {"context": target.signed_in.stem}
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(file, json.dumps(choice).encode())


def others_that_run(folder: Path, runtime_dir: Path | None = None) -> list[Path]:
    """Data folders of the other local clusters that run."""
    return [target.data for target in _local_clusters(runtime_dir)[0] if target.data not in (None, folder.resolve())]


def chosen_folder(runtime_dir: Path | None = None) -> Path | None:
    """Data folder of the cluster that `kaji context use` chose; None without a readable choice."""
    try:
        return Path(json.loads(_choice_file(runtime_dir).read_text())["cluster"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def chosen_sign_in(runtime_dir: Path | None = None) -> Path | None:
    """File of the sign-in that `kaji context use` or `kaji login` chose; None without a readable choice."""
    try:
        file = sign_in_file(str(json.loads(_choice_file(runtime_dir).read_text())["context"]), runtime_dir)
    except (OSError, ValueError, KeyError, TypeError, InvalidInput):
        return None
    return file if file.exists() else None


def sign_in_file(name: str, runtime_dir: Path | None = None) -> Path:
    """Return the file of the sign-in with this name. Raises InvalidInput for a name that cannot be one."""
    return path_of(name, _sign_ins(runtime_dir))


def _sign_ins(runtime_dir: Path | None) -> Path | None:
    return runtime_dir / "contexts" if runtime_dir is not None else None


def _of_sign_in(file: Path, *, use: bool = True) -> Target:
    """Return the server of a sign-in, with a token that is valid now. `use=False`: with the stored token."""
    context = read(file)
    if use and context.expires and context.expires < time.time() + EARLY_SECONDS:
        from kajitori.client.sign_in.refreshing import renewed

        context = renewed(file, context.token)
    return Target(context.server, context.token, context.namespace, authorities=context.ca, signed_in=file)


def _choice_file(runtime_dir: Path | None) -> Path:
    return _links_folder(runtime_dir).with_name("context.json")


def _links_folder(runtime_dir: Path | None) -> Path:
    return runtime_dir / "clusters" if runtime_dir is not None else links_folder()


def _local_clusters(runtime_dir: Path | None) -> tuple[list[Target], KajitoriError | None]:
    """Return the local clusters that run, ordered by folder, and the error of the newest one that does not."""
    try:
        files = [link.resolve() for link in _links_folder(runtime_dir).iterdir()]
    except OSError:
        files = []
    found, stale = [], None
    for file in sorted(files, key=_age_key, reverse=True):
        try:
            found.append(_read_target(file))
        except Unavailable as error:
            stale = stale or error
    return sorted(found, key=lambda target: str(target.data)), stale


def _by_name(targets: Sequence[Target]) -> dict[str, Target]:
    """Map names to clusters: the folder's name, or its whole path if several folders have that name."""
    counts = Counter(target.data.name for target in targets if target.data is not None)
    named = {}
    for target in targets:
        assert target.data is not None
        named[target.data.name if counts[target.data.name] == 1 else str(target.data)] = target
    return named


def _name_of(text: str, known: Mapping[str, Context], by_folder: Mapping[Path | None, str]) -> str:
    return text if text in known else by_folder.get(Path(text).expanduser().absolute(), "")


def _named_target(text: str, source: str, runtime_dir: Path | None, *, use: bool = True) -> Target:
    """Return the local cluster with this data folder or context name, or the server of the sign-in of this name.
    `use=False`: its token is not needed."""
    folder = Path(text).expanduser().absolute()
    named = _by_name(_local_clusters(runtime_dir)[0])
    if text in named and not (folder / CLUSTER_FILE).is_file():
        return named[text]
    sign_ins = all_contexts(_sign_ins(runtime_dir))
    if text in sign_ins:
        return _of_sign_in(sign_in_file(text, runtime_dir), use=use)
    if "/" in text or folder.exists() or not (named or sign_ins):
        return _in_folder(folder)
    names = ", ".join((*named, *sign_ins))
    raise NotFound(
        f"{source}: there is no context {text!r:.80}", hint=f"known: {names}; the data folder of a cluster works, too"
    )


def _from_environment(url: str, environment: Mapping[str, str]) -> Target:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unavailable(
            f"$KAJI_SERVER is {url!r:.80}, which is not an address",
            hint="write an address such as https://kaji.example.org",
        )
    token = environment.get("KAJI_TOKEN", "").strip()
    if not token:
        hint = f"put your token into $KAJI_TOKEN, or unset $KAJI_SERVER and sign in: kaji login {url}"
        raise Unauthenticated("$KAJI_SERVER is set, but $KAJI_TOKEN is not", hint=hint)
    ca = environment.get("KAJI_CA", "")
    target = Target(url.rstrip("/"), token, ca=Path(ca).expanduser() if ca else None)
    if parts.scheme == "http" and not target.is_local and environment.get("KAJI_INSECURE_HTTP", "") in ("", "0"):
        message = "your token would cross the network in plain text"
        hint = "write https://…; or, if something else encrypts, add --insecure-http or set KAJI_INSECURE_HTTP=1"
        raise InvalidInput.one("$KAJI_SERVER", message, value=url, hint=hint)
    return target


def _in_folder(folder: Path) -> Target:
    file = folder / CLUSTER_FILE if folder.is_dir() else folder
    if not file.is_file():
        if is_starting(folder):
            raise _still_starting(folder)
        raise Unavailable(f"there is no cluster in {folder}", hint=f"start one: kaji up --data {folder}")
    return _read_target(file)


def _still_starting(folder: Path) -> StillStarting:
    hint = "try again in a moment: `kaji up` says that Kajitori is up once it answers"
    return StillStarting(f"the cluster in {folder} is still starting", hint=hint)


def _read_target(file: Path) -> Target:
    """Return the cluster that the file of a `kaji up` describes. Raises Unavailable if that does not run."""
    restart = f"start it again: kaji up --data {file.parent}"
    try:
        if hasattr(os, "geteuid") and os.geteuid() not in (0, file.stat().st_uid):  # Windows has no user numbers
            raise Unavailable(f"the cluster in {file.parent} belongs to somebody else", hint="start your own: kaji up")
        found = json.loads(file.read_text())
        url, token, namespace = str(found["url"]).rstrip("/"), str(found["token"]), str(found.get("namespace", ""))
        target = Target(url, token, namespace, file.parent, Path(found["ca"]) if found.get("ca") else None)
        pid = int(found["pid"])
    except FileNotFoundError as error:  # `kaji up` writes it once its servers answer
        if is_starting(file.parent):
            raise _still_starting(file.parent) from error
        hint = f"start it: kaji up --data {file.parent}"
        raise Unavailable(f"the cluster in {file.parent} is not up", hint=hint) from error
    except OSError as error:
        raise Unavailable(f"{file} can't be read: {error.strerror}", hint=restart) from error
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"{file} does not describe a cluster", hint=restart) from error
    if not is_alive(pid):
        raise Unavailable(f"the cluster in {file.parent} does not run any more", hint=restart)
    return target


def _age_key(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
