"""`--code`: packing a folder of this machine and uploading it for the members of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kajitori.cli.context import Cli
from kajitori.cli.printing.output import StatusLine
from kajitori.cli.terminal import say
from kajitori.client.streams import Outage, Patience
from kajitori.client.views import View, status_of
from kajitori.client.web_api import Api
from kajitori.core.kubernetes.image_names import looks_like_a_program
from kajitori.errors import KajitoriError

if TYPE_CHECKING:
    from kajitori.codepack.packing import Pack


class Code:
    """The packed folder of a run, if the run has one.

    A folder that fits into one request is packed and uploaded without questions. For a larger one, the server is asked
    first: for its size limit before the folder is read, and whether it accepts the run before the folder is uploaded.
    """

    def __init__(self, cli: Cli, *, quiet: bool) -> None:
        self._cli = cli
        self._quiet = quiet
        self._pack: Pack | None = None

    def pack(self, folder: Path) -> str:
        """Pack a folder and return the digest of its archive. Raises the errors of `codepack.packing`."""
        from kajitori.codepack.packing import digest_listing, list_folder, shown_size, too_large
        from kajitori.codepack.parts import PART_BYTES

        with self._status_line(f"looking through {folder}"):
            listing = list_folder(folder)
        whole = listing.size_bytes
        if not self._quiet and (files := listing.files):
            say(f"code: {shown_size(whole)} in {files:,} file{'' if files == 1 else 's'} of {folder}")
        limit = self._limit_bytes() if whole > PART_BYTES else None
        if limit is not None and whole > limit:
            raise too_large(listing, limit)
        with self._status_line("reading") as update:
            read = 0

            def progress(amount: int) -> None:
                nonlocal read
                read += amount
                update(f"{shown_size(read)} of {shown_size(whole)} are read")

            self._pack = digest_listing(listing, progress=progress)
        return self._pack.digest

    def upload(self, api: Api, namespace: str, check: Callable[[], object]) -> None:
        """Upload the code, unless the server has it; continue when the connection breaks.

        `check` is called before a long upload and raises an error if the run would be refused.
        """
        if self._pack is None:
            return
        from kajitori.client.submit.uploading import upload_code
        from kajitori.codepack.packing import shown_size

        whole = self._pack.size_bytes
        with self._status_line("asking for what is there") as update:
            uploaded = upload_code(
                api,
                self._pack,
                namespace,
                check=check,
                patience=Patience(api, None if self._quiet else Outage(say, "code")),
                progress=lambda done: update(f"{shown_size(done)} of {shown_size(whole)} are there"),
            )
        if not self._quiet and uploaded.parts:
            say(f"code: {shown_size(uploaded.size_bytes)} uploaded")

    def _limit_bytes(self) -> int | None:
        """Return policy's limit for an archive in bytes, or None without an answer. The upload checks it, too."""
        from kajitori.core.formats.quantities import QuantityError, parse_spec_memory_bytes

        try:
            with self._cli.api() as api:
                answer = api.get("/v1/policy")
            return parse_spec_memory_bytes(answer["policy"]["code"]["archive"])
        except (KajitoriError, QuantityError, KeyError, TypeError):
            return None

    @contextmanager
    def _status_line(self, text: str) -> Iterator[Callable[[str], None]]:
        """Yield a function that updates a status line; it does nothing if no person watches."""
        if self._quiet or not self._cli.has_person:
            yield lambda _: None
            return
        status = StatusLine(self._cli, f"code: {text}")
        try:
            yield lambda words: status.update(f"code: {words}")
        finally:
            status.stop()


_SAYS_WHAT_IS_MISSING = ("no such file", "not found", "can't open", "cannot open", "cannot find", "no module named")


def what_code_would_bring(run: View, folder: Path) -> str:
    """Return a hint how to upload the file or module that a failed run lacked and `folder` has; empty if the run failed
    for another reason.

    The program's last words name the file or the module that was missing, and so does a program that was not found.
    """
    spec, status = run.get("spec") or {}, status_of(run)
    message = str(status.get("message") or "")
    if spec.get("code") or not any(phrase in message.lower() for phrase in _SAYS_WHAT_IS_MISSING):
        return ""
    typed = [*(spec.get("command") or ()), *(spec.get("args") or ())]
    words = [*typed, *(part for word in typed for part in word.split()), *_QUOTED.findall(message)]
    named = [path for word in words for path in (word, PurePosixPath(word).name)]
    modules = [name.partition(".")[0] for name in _MODULE.findall(message)]
    missing = [name for name in (*named, *modules) if (last := PurePosixPath(name).name) and last in message]
    local = next((found for name in missing for found in (name, f"{name}.py") if _is_in(folder, found)), "")
    if not local:
        return ""
    hint = f"{local} is in this folder, not in the run: bring the folder along with --code ."
    if status.get("reason") == "CommandNotFound" and local.endswith(".py"):
        hint += f", and say what runs the file: python3 {local}"
    return hint


def where_the_image_belongs(run: View) -> str:
    """Return a hint if the failed program begins with an option, or if the image has the name of a program: the program
    was probably taken for the image."""
    spec, status = run.get("spec") or {}, status_of(run)
    typed = [*(spec.get("command") or ()), *(spec.get("args") or ())]
    image = str(spec.get("image") or "")
    if status.get("reason") != "CommandNotFound" or not typed:
        return ""
    if not str(typed[0]).startswith("-") and not looks_like_a_program(image):
        return ""
    return f"the first word is the image, here {image}; if that is the program: kaji run IMAGE {image} {typed[0]} …"


_QUOTED = re.compile(r"['\"]([^'\"]{1,255})['\"]")
_MODULE = re.compile(r"No module named '?([A-Za-z_][A-Za-z0-9_.]*)")


def _is_in(folder: Path, name: str) -> bool:
    """Whether the name, relative to the folder, is something inside of it."""
    try:
        place = (folder / name).resolve()
        return not PurePosixPath(name).is_absolute() and place.is_relative_to(folder.resolve()) and place.exists()
    except (OSError, ValueError):  # too long for a file's name, or no text that could be one
        return False
