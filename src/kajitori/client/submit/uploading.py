"""Uploading a packed folder of code: continues after a broken connection, and asks before a long upload."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kajitori.client.streams import Patience
from kajitori.client.web_api import Api
from kajitori.errors import KajitoriError, StorageFull, Unavailable

if TYPE_CHECKING:
    from kajitori.codepack.packing import Pack
    from kajitori.codepack.uploading import Uploaded


def upload_code(
    api: Api,
    pack: Pack,
    namespace: str,
    *,
    check: Callable[[], object],
    patience: Patience,
    progress: Callable[[int], None] | None = None,
) -> Uploaded:
    """Upload an archive unless the server has it, and return what was sent.

    `check` is called before an upload of several parts and raises an error if the run would be refused. `progress` is
    called with the number of bytes of the archive that are on the server. Raises the errors of `codepack.uploading`,
    StorageFull, and Unavailable if the server stays away for longer than `patience` lasts.
    """
    from kajitori.codepack.uploading import upload

    unchecked = pack.parts > 1
    while True:
        conversation = upload(pack, namespace, progress=progress)
        try:
            ask = next(conversation)
            while True:
                if unchecked and ask.method == "PUT":
                    _raise_refusals(check)
                    unchecked = False
                reply = api.exchange(ask)
                if ask.method == "PUT":  # questions may succeed again and again while no upload does
                    patience.worked()
                ask = conversation.send(reply)
        except StopIteration as ended:
            uploaded: Uploaded = ended.value
            return uploaded
        except StorageFull:
            raise
        except Unavailable as error:
            patience.failed(error)


def _raise_refusals(check: Callable[[], object]) -> None:
    """Raise the faults that the server finds in the run. A server that is away is ignored: it checks again later."""
    try:
        check()
    except KajitoriError as error:
        if error.exit_code == 2:
            raise
