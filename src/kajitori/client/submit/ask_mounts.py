"""From options of `kaji run` to a spec's volumes, secrets, checkpoint and code."""

from __future__ import annotations

import os.path
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kajitori.client.submit.filling import SpecFilling
from kajitori.client.submit.run_options import RunWords
from kajitori.errors import Fault, InvalidInput, KajitoriError

_VOLUME_OPTIONS = {"ro", "rw", "z", "Z"}
"""As docker knows them. The last two are about SELinux, which a cluster's nodes look after themselves."""


_FOLDERS = ("/", ".", "~")
"""First characters of a volume's source that is a folder's path."""
_MOUNT_KEYS = {"type": "type", "source": "source", "src": "source", "target": "target", "dst": "target"}
_MOUNT_KEYS |= {"destination": "target", "readonly": "readonly", "ro": "readonly", "tmpfs-size": "size"}
_MOUNT_KEYS |= {"consistency": "consistency"}  # about Docker Desktop; ignored elsewhere, too
_YES = ("", "true", "1")


def ask_for_mounts(spec: SpecFilling, words: RunWords, folder: Path, environment: Mapping[str, str]) -> None:
    """Volumes, secrets and a checkpoint. Folders of this machine are relative to `folder`; `environment` tells `~`."""
    for word in words.volume:
        _ask_for_volume(spec, word, folder, environment)
    for word in words.mount:
        _ask_for_mount(spec, word, folder, environment)
    for word in words.secret:
        secrets = spec.items("secrets")
        spec.sources[f"spec.secrets[{len(secrets)}]"] = f"--secret {word}"
        variable, equals, rest = word.partition("=")
        name, slash, key = rest.partition("/")
        if equals and slash:
            secrets.append({"name": name, "key": key, "env": variable})
        elif equals:
            spec.leave_unread("secrets", word)
            spec.complain("--secret", f"{word!r:.80} names no key", word, "write VARIABLE=SECRET/KEY")
        else:
            name, colon, path = word.partition(":")
            secrets.append({"name": name, "path": path} if colon else {"name": name})
    if words.checkpoint is not None:
        path, colon, size = words.checkpoint.partition(":")
        spec.put("checkpoint", {"path": path, **({"size": size} if colon else {})}, "--checkpoint")
    if words.checkpoint_every is not None:
        checkpoint = spec.mapping("checkpoint")
        checkpoint["every"] = words.checkpoint_every
        spec.sources["spec.checkpoint.every"] = "--checkpoint-every"
        if "path" not in checkpoint:  # nor in the file
            spec.sources["spec.checkpoint.path"] = "--checkpoint"


def _ask_for_volume(spec: SpecFilling, word: str, folder: Path, environment: Mapping[str, str]) -> None:
    source, colon, rest = word.partition(":")
    path, _, mode = rest.partition(":")
    if not colon or not source or not path:
        hint = "write SOURCE:PATH, such as -v imagenet:/data:ro or -v $PWD:$PWD"
        spec.leave_unread("volumes", word)
        spec.complain("--volume", f"{word!r:.80} does not say what is mounted where", word, hint)
        return
    bare, comma, last = path.rpartition(",")
    if comma and not mode and last in _VOLUME_OPTIONS:
        spec.leave_unread("volumes", word)
        message = f"{word!r:.80}: options of a volume stand behind a colon"
        spec.complain("--volume", message, word, f"write -v {source}:{bare}:{last}")
        return
    options = set(filter(None, mode.split(",")))
    unknown = options - _VOLUME_OPTIONS
    if unknown:
        spec.leave_unread("volumes", word)
        spec.complain("--volume", f"{word!r:.80}: {', '.join(sorted(unknown))} is no option here", word, "ro or rw")
        return
    use = _add_volume(spec, source, path, f"--volume {word}", folder, environment, read_only="ro" in options)
    if "name" in use and (folder / source).is_dir():
        hint = f"a folder of this machine begins with ./ or /: -v ./{source}:{rest}"
        spec.hints[f"spec.volumes[{len(spec.items('volumes')) - 1}].name", "UnknownVolume"] = hint


def _add_volume(
    spec: SpecFilling,
    source: str,
    path: str,
    said: str,
    folder: Path,
    environment: Mapping[str, str],
    *,
    read_only: bool,
) -> dict[str, Any]:
    """Put a volume of the policy, or a folder, into the spec, and return it."""
    volumes = spec.items("volumes")
    spec.sources[f"spec.volumes[{len(volumes)}]"] = said
    use: dict[str, Any] = {"path": path}
    if source.startswith(_FOLDERS) or "/" in source:
        use["hostPath"] = _absolute_path(source, folder, environment)
    else:
        use["name"] = source
    if read_only:
        use["readOnly"] = True
    volumes.append(use)
    return use


def _ask_for_mount(spec: SpecFilling, word: str, folder: Path, environment: Mapping[str, str]) -> None:
    """docker's long form of `-v`: `type=bind,source=/data,target=/data,readonly`."""
    fields = {_MOUNT_KEYS.get(key, key): value for key, _, value in (part.partition("=") for part in word.split(","))}
    kind, source, path = (fields.get(key, "") for key in ("type", "source", "target"))
    wrong = ""
    if unknown := sorted(fields.keys() - set(_MOUNT_KEYS.values())):
        wrong = f"{', '.join(unknown)} is no part of a mount here"
    elif kind not in ("", "bind", "volume", "tmpfs"):
        wrong = f"there are no mounts of type {kind!r:.40}"
    elif kind == "tmpfs" and path != "/dev/shm":
        wrong = "the folder in memory is /dev/shm"
    elif not path or (not source and kind != "tmpfs"):
        wrong = "it does not say what is mounted where"
    elif kind == "bind" and not source.startswith(_FOLDERS):
        wrong = f"{source!r:.40} is not a folder's path"
    elif kind != "bind" and source.startswith(_FOLDERS):
        wrong = f"{source!r:.40} is a folder: its type is bind"
    if wrong:
        hint = "write type=bind,source=/data,target=/data or type=volume,source=imagenet,target=/data,readonly"
        if kind == "tmpfs":
            hint = "--shm-size 8g, and write to /dev/shm"
        spec.leave_unread("volumes", word)
        spec.complain("--mount", f"{word!r:.80}: {wrong}", word, hint)
    elif kind == "tmpfs":
        spec.put_size("shm", fields.get("size") or None, f"--mount {word}")
    else:
        read_only = "readonly" in fields and fields["readonly"].lower() in _YES
        _add_volume(spec, source, path, f"--mount {word}", folder, environment, read_only=read_only)


def ask_for_code(
    spec: SpecFilling, words: RunWords, folder: Path, environment: Mapping[str, str], pack: Callable[[Path], str]
) -> None:
    """Set the code of the run: a folder of this machine as `DIR[:PATH]`, in a file relative to the file's folder, or
    the digest of the code of an earlier run."""
    word, source, relative_to = words.code, f"--code {words.code}", folder
    if word is None and isinstance(spec.document.get("code"), str):
        file = words.file or "-"
        word, source = spec.document["code"], f"{file}: spec.code"
        relative_to = folder if file == "-" else folder / Path(file).expanduser().parent
    if word is None:
        return
    place, colon, path = word.rpartition(":")
    if not colon or not path.startswith("/"):
        place, path = word, ""
    spec.sources["spec.code"] = source
    if not place:
        field = source if words.code is None else "--code"
        spec.complained.add("spec.code")
        spec.document["code"] = word
        spec.complain(field, "says no folder", word, "name one; . is the one you are in")
        return
    if place.startswith("sha256:"):
        spec.document["code"] = {"digest": place} | ({"path": path} if path else {})
        return
    try:
        digest = pack(Path(_absolute_path(place, relative_to, environment)))
    except KajitoriError as error:
        spec.complained.add("spec.code")
        spec.document["code"] = word
        faults = error.faults if isinstance(error, InvalidInput) else [Fault("", error.message, word, error.hint)]
        for fault in faults:
            spec.faults.append(replace(fault, field=": ".join(filter(None, (source, fault.field)))))
        return
    spec.document["code"] = {"digest": digest} | ({"path": path} if path else {})


def _absolute_path(source: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The folder's absolute path, without following links: the node may have others."""
    if source == "~" or source.startswith("~/"):
        source = environment.get("HOME", "~") + source[1:]
    return os.path.normpath(folder / source)
