"""`--code`: a folder of this machine on its way to the members of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kajitori.cli.context import Cli
from kajitori.cli.http import Api
from kajitori.cli.problems import say
from kajitori.cli.streams import Patience
from kajitori.errors import StorageFull, Unavailable

if TYPE_CHECKING:
    from kajitori.codepack.packing import Pack


class Code:
    """The folder that was packed for a run, if any."""

    def __init__(self, cli: Cli, *, quiet: bool) -> None:
        self._cli = cli
        self._quiet = quiet
        self._pack: Pack | None = None

    def pack(self, folder: Path) -> str:
        """The digest of a folder's archive. Raises what `codepack.pack` does."""
        from kajitori.codepack.packing import pack, shown_size

        self._pack = pack(folder)
        if not self._quiet:
            files = self._pack.listing.files
            say(f"code: {shown_size(self._pack.size_bytes)} in {files:,} file{'' if files == 1 else 's'} of {folder}")
        return self._pack.digest

    def upload(self, api: Api, namespace: str) -> None:
        """Brings it to the server, where it is not there already; a connection that breaks is taken up again."""
        if self._pack is None:
            return
        from kajitori.codepack.packing import shown_size
        from kajitori.codepack.uploading import upload

        whole = self._pack.size_bytes
        patience = Patience(api.sleep)
        status = None
        if self._cli.has_person and not self._quiet:
            status = self._cli.console(err=True).status("code: asking for what is there", spinner="dots")
            status.start()

        def progress(done: int) -> None:
            if status is not None:
                status.update(f"code: {shown_size(done)} of {shown_size(whole)} are there")

        try:
            while True:
                conversation = upload(self._pack, namespace, progress=progress)
                try:
                    ask = next(conversation)
                    while True:
                        reply = api.exchange(ask)
                        if ask.method == "PUT":  # what is asked before may work for ever, and nothing get on
                            patience.worked()
                        ask = conversation.send(reply)
                except StopIteration as ended:
                    uploaded = ended.value
                    break
                except StorageFull:
                    raise
                except Unavailable as error:
                    patience.failed(error)
        finally:
            if status is not None:
                status.stop()
        if not self._quiet and uploaded.parts:
            say(f"code: {shown_size(uploaded.size_bytes)} uploaded")
