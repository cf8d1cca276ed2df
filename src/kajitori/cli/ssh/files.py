"""The files of a member for SFTP, by a shell, `stat`, `cat` and `dd`: any image with a shell has these.

Clients read and write files from their beginning to their end, so each open file is one command whose output or input
is the file. A read or write elsewhere begins another command there.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import re
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import TypeVar

from asyncssh import (
    FXF_APPEND,
    FXF_CREAT,
    FXF_EXCL,
    FXF_READ,
    FXF_TRUNC,
    FXF_WRITE,
    SFTPAttrs,
    SFTPError,
    SFTPFailure,
    SFTPFileAlreadyExists,
    SFTPName,
    SFTPNoConnection,
    SFTPNoSuchFile,
    SFTPOpUnsupported,
    SFTPPermissionDenied,
    SFTPServer,
    SSHServerChannel,
)
from websockets.exceptions import ConnectionClosed

from kajitori.cli.ssh.member import Member
from kajitori.cli.ssh.shell import MemberShell, ScriptFailed
from kajitori.client.members.streams import Channel, CommandStream
from kajitori.errors import KajitoriError

MAX_WHOLE_BYTES = 256 << 10
"""Files up to this size are read at once by the shell, which is faster than a command of their own."""
_STAT = "stat -c '%f %s %u %g %X %Y' --"
_ENTRY = re.compile(rb"([0-9a-f]+) (\d+) (\d+) (\d+) (\d+) (\d+)(?: (?:\./)?(.+))?")
_LIST = f"""[ -e "$1" ] || {{ echo No such file or directory; exit 1; }}
cd -- "$1" || exit
if command -v find >/dev/null; then find . ! -name . -prune -exec {_STAT.replace("%Y'", "%Y %n'")} {{}} +
else {_STAT.replace("%Y'", "%Y %n'")} * .[!.]* ..?* 2>/dev/null; true; fi"""
_WRITE = '{ dd bs=1 count=0 seek="$2" conv=notrunc 2>/dev/null; cat; } 1<>"$1"'
_NO_HOLE = 1 << 62
_T = TypeVar("_T")


class MemberFiles(SFTPServer):
    """An SFTP server for the files of a member."""

    def __init__(self, channel: SSHServerChannel[bytes], member: Member) -> None:
        super().__init__(channel)
        self._member = member
        self._shell = MemberShell(member)
        self._folder = b""

    async def realpath(self, path: bytes) -> bytes:
        """Return the absolute path; relative ones begin where the program of the run began."""
        if not path.startswith(b"/") and not self._folder:
            self._folder = (await self._run_script("pwd")).strip()
        return posixpath.normpath(posixpath.join(self._folder or b"/", path))

    async def lstat(self, path: bytes) -> SFTPAttrs:
        """Return the attributes of a file, or of a link itself."""
        return _parse_attributes(await self._run_script(f'{_STAT} "$1"', path))

    async def stat(self, path: bytes) -> SFTPAttrs:
        """Return the attributes of a file, or of that to which a link leads."""
        return _parse_attributes(await self._run_script(f'{_STAT.replace("stat", "stat -L")} "$1"', path))

    async def fstat(self, file_obj: object) -> SFTPAttrs:
        """Return the attributes of an open file."""
        file = _as_open_file(file_obj)
        await file.flush()
        return await self.stat(file.path)

    async def scandir(self, path: bytes) -> AsyncIterator[SFTPName]:
        """Yield the entries of a folder. Names with a line break are left out."""
        for line in (await self._run_script(_LIST, path)).split(b"\n"):
            found = _ENTRY.fullmatch(line)
            if found and found[7]:
                yield SFTPName(found[7], b"", _parse_attributes(line))

    async def open(self, path: bytes, pflags: int, attrs: SFTPAttrs) -> object:
        """Open a file, and create it first if the client wants that."""
        attributes: SFTPAttrs | None = None
        if pflags & FXF_WRITE:
            script = ': >>"$1"'
            if pflags & FXF_CREAT and pflags & FXF_EXCL:
                script = 'set -C; : >"$1"'
            elif pflags & FXF_TRUNC:
                script = ': >"$1"'
            if not pflags & FXF_CREAT:
                script = f'[ -e "$1" ] || {{ echo No such file; exit 1; }}\n{script}'
            if attrs.permissions is not None and pflags & FXF_CREAT:
                script = (
                    f'[ -e "$1" ] || new=1\n{script} && [ -z "$new" ] || chmod {attrs.permissions & 0o7777:o} -- "$1"'
                )
            await self._run_script(script, path)
        else:
            script = '[ -r "$1" ] || [ ! -e "$1" ] || { echo Permission denied; exit 1; }\n'
            attributes = _parse_attributes(
                await self._run_script(f'{script}{_STAT.replace("stat", "stat -L")} "$1"', path)
            )
            if stat.S_ISDIR(attributes.permissions or 0):
                raise SFTPFailure("it is a folder")
        begin = (await self.stat(path)).size or 0 if pflags & FXF_APPEND else None
        file = OpenFile(self._member, path, begin)
        if attributes is not None and pflags & FXF_READ and 0 < (attributes.size or 0) <= MAX_WHOLE_BYTES:
            file.content = await self._run_script('cat -- "$1"', path)
        return file

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        """Return bytes of an open file; none after its end."""
        return await _translate_errors(_as_open_file(file_obj).read(offset, size))

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write bytes to an open file, and return their number."""
        await _translate_errors(_as_open_file(file_obj).write(offset, data))
        return len(data)

    async def close(self, file_obj: object) -> None:
        """Close a file; what was written is in the member then."""
        await _translate_errors(_as_open_file(file_obj).close())

    async def fsync(self, file_obj: object) -> None:
        """Wait until what was written is in the member."""
        await _translate_errors(_as_open_file(file_obj).flush())

    async def setstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        """Set size, owner, mode and times."""
        script = []
        if attrs.size is not None:
            script.append(f'dd bs=1 count=0 seek={attrs.size} of="$1" 2>&1')
        if attrs.uid is not None and attrs.gid is not None:
            script.append(f'chown {attrs.uid}:{attrs.gid} -- "$1"')
        if attrs.permissions is not None:
            script.append(f'chmod {attrs.permissions & 0o7777:o} -- "$1"')
        if attrs.mtime is not None:
            script.append(f'touch -m -d @{attrs.mtime} -- "$1"')
        if attrs.atime is not None:
            script.append(f'touch -a -d @{attrs.atime} -- "$1"')
        if script:
            await self._run_script(" && ".join(script), path)

    async def lsetstat(self, path: bytes, attrs: SFTPAttrs) -> None:
        """Set the attributes of a file. Those of a link itself are left as they are."""
        if not stat.S_ISLNK((await self.lstat(path)).permissions or 0):
            await self.setstat(path, attrs)

    async def fsetstat(self, file_obj: object, attrs: SFTPAttrs) -> None:
        """Set the attributes of an open file."""
        file = _as_open_file(file_obj)
        await file.flush()
        await self.setstat(file.path, attrs)

    async def remove(self, path: bytes) -> None:
        """Remove a file or link."""
        await self._run_script('[ ! -d "$1" ] || [ -L "$1" ] || { echo Is a directory; exit 1; }\nrm -- "$1"', path)

    async def mkdir(self, path: bytes, attrs: SFTPAttrs) -> None:
        """Make a folder with the mode that is asked for, less the member's umask, as OpenSSH's server does."""
        await self._run_script('mkdir -- "$1"', path)
        if attrs.permissions is not None:
            mode = f"$(printf %o $((0{attrs.permissions & 0o7777:o} & ~0$(umask))))"
            await self._run_script(f'chmod {mode} -- "$1"', path)

    async def rmdir(self, path: bytes) -> None:
        """Remove an empty folder."""
        await self._run_script('rmdir -- "$1"', path)

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename a file, unless there is one of the new name."""
        await self._run_script('[ ! -e "$2" ] || { echo File exists; exit 1; }\nmv -- "$1" "$2"', oldpath, newpath)

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        """Rename a file; it replaces one of the new name."""
        await self._run_script(
            '[ ! -d "$2" ] || { echo Is a directory; exit 1; }\nmv -f -- "$1" "$2"', oldpath, newpath
        )

    async def readlink(self, path: bytes) -> bytes:
        """Return where a link leads."""
        return (await self._run_script('readlink -- "$1"', path)).removesuffix(b"\n")

    async def symlink(self, oldpath: bytes, newpath: bytes) -> None:
        """Make a link `newpath` that leads to `oldpath`."""
        await self._run_script('ln -s -- "$1" "$2"', oldpath, newpath)

    async def link(self, oldpath: bytes, newpath: bytes) -> None:
        """Give a file a second name."""
        await self._run_script('ln -- "$1" "$2"', oldpath, newpath)

    async def statvfs(self, path: bytes) -> os.statvfs_result:
        """Refuse: the sizes of file systems cannot be read by a shell alone."""
        raise SFTPOpUnsupported("sizes of file systems are not known")

    def format_user(self, uid: int | None) -> str:
        """Return the user's number: users of this machine have other names than users of the member."""
        return str(uid or 0)

    def format_group(self, gid: int | None) -> str:
        """Return the group's number."""
        return str(gid or 0)

    async def exit(self) -> None:
        """End the shell, and tell the client that its session succeeded: without an exit code OpenSSH's scp fails."""
        await self._shell.close()
        self.channel.exit(0)

    async def _run_script(self, script: str, *words: bytes) -> bytes:
        return await _translate_errors(self._shell.run(script, *words))


class OpenFile:
    """A file that a client reads or writes."""

    def __init__(self, member: Member, path: bytes, append_from: int | None) -> None:
        self.path = path
        self.content: bytes | None = None
        """The whole content of a small file that is only read."""
        self._member = member
        self._append_from = append_from
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._stream: CommandStream | None = None
        self._output: AsyncGenerator[tuple[Channel, bytes]] | None = None
        self._draining: asyncio.Task[bytes] | None = None
        self._place = 0
        self._buffer = bytearray()

    async def read(self, offset: int, size: int) -> bytes:
        """Return bytes from a place in the file."""
        if self.content is not None:
            return self.content[offset : offset + size]
        async with self._lock:
            if self._output is None or offset != self._place:
                await self._end()
                stream = await self._start_script('tail -c "+$2" -- "$1"', offset + 1, stdin=False)
                self._place, self._output = offset, stream.output()
            while len(self._buffer) < size:
                try:
                    channel, data = await anext(self._output)
                except StopAsyncIteration:
                    break
                if channel is Channel.STDERR:
                    raise ScriptFailed(data.decode(errors="replace"))
                self._buffer += data
            answer = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._place += len(answer)
            return answer

    def seek(self, offset: int, whence: int) -> int:
        """Return the next data (`SEEK_DATA`) or hole (`SEEK_HOLE`) as if the file had no holes. asyncssh's own client
        asks for them."""
        return offset if whence == os.SEEK_DATA else _NO_HOLE

    async def write(self, offset: int, data: bytes) -> None:
        """Write bytes at a place in the file."""
        async with self._lock:
            if self._append_from is not None:
                offset, self._append_from = self._append_from, self._append_from + len(data)
            if self._draining is None or offset != self._place:
                await self._end()
                stream = await self._start_script(_WRITE, offset, stdin=True)
                self._draining = asyncio.create_task(_read_to_end(stream))
                self._place = offset
            assert self._stream is not None
            try:
                await self._stream.write(data)
            except ConnectionClosed:
                await self._end()  # says why the command ended
                raise
            self._place += len(data)

    async def flush(self) -> None:
        """Wait until what was written is in the file. Raises ScriptFailed if writing failed."""
        async with self._lock:
            if self._draining is not None:
                await self._end()

    async def close(self) -> None:
        """End the command that reads or writes the file. Raises ScriptFailed if writing failed."""
        async with self._lock:
            await self._end()

    async def _start_script(self, script: str, number: int, *, stdin: bool) -> CommandStream:
        path = self.path.decode("utf-8", "surrogateescape")
        command = ["/bin/sh", "-c", script, "sh", path, str(number)]
        self._stream = await self._stack.enter_async_context(self._member.running(command, stdin=stdin))
        return self._stream

    async def _end(self) -> None:
        stream, draining = self._stream, self._draining
        self._stream = self._output = self._draining = None
        self._buffer.clear()
        try:
            if stream is not None and draining is not None:
                with suppress(ConnectionClosed):
                    await stream.end_input()
                printed = await draining
                if stream.exit_code:
                    raise ScriptFailed(printed.decode(errors="replace") or f"exit code {stream.exit_code}")
        finally:
            await self._stack.aclose()


async def _read_to_end(stream: CommandStream) -> bytes:
    """Return everything that a command prints until it ends."""
    return b"".join([data async for _, data in stream.output()])


def _as_open_file(file: object) -> OpenFile:
    assert isinstance(file, OpenFile)
    return file


def _parse_attributes(line: bytes) -> SFTPAttrs:
    found = _ENTRY.fullmatch(line.strip(b"\n"))
    if found is None:
        raise SFTPFailure(f"unexpected answer of stat: {line[:200].decode(errors='replace')}")
    size, uid, gid, atime, mtime = map(int, found.group(2, 3, 4, 5, 6))
    return SFTPAttrs(size=size, uid=uid, gid=gid, permissions=int(found[1], 16), atime=atime, mtime=mtime)


_REASONS: tuple[tuple[str, Callable[[str], SFTPError]], ...] = (
    ("no such file", SFTPNoSuchFile),
    ("can't open", SFTPNoSuchFile),
    ("permission denied", SFTPPermissionDenied),
    ("operation not permitted", SFTPPermissionDenied),
    ("read-only file system", SFTPPermissionDenied),
    ("file exists", SFTPFileAlreadyExists),
    ("cannot overwrite existing file", SFTPFileAlreadyExists),
)
"""Parts of messages of programs, and the errors of SFTP that they mean."""


async def _translate_errors(work: Awaitable[_T]) -> _T:
    """Await work in the member, and translate its errors into errors of SFTP."""
    try:
        return await work
    except ScriptFailed as error:
        lowered = error.message.lower()
        for words, kind in _REASONS:
            if words in lowered:
                raise kind(error.message) from error
        raise SFTPFailure(error.message) from error
    except ConnectionClosed as error:
        raise SFTPNoConnection("the connection to the member broke") from error
    except KajitoriError as error:
        raise SFTPNoConnection(error.message) from error
