"""The SSH server for a member. In these tests the member's commands are processes of this machine."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import asyncssh
import pytest

from kajitori.cli.ssh.configuration import SshFolder
from kajitori.cli.ssh.files import MAX_WHOLE_BYTES
from kajitori.cli.ssh.member import Member
from kajitori.cli.ssh.serving import NO_AGENT, NO_REMOTE_PORTS, NO_SOCKETS, NO_X11, serve
from kajitori.client.members.streams import Channel, CommandStream, PortConnection
from kajitori.errors import NotFound

BOUND_SECONDS = 10.0


class LocalStream:
    """A process of this machine with the methods of a CommandStream."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.exit_code: int | None = None

    async def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        await self._process.stdin.drain()

    async def end_input(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def output(self) -> AsyncIterator[tuple[Channel, bytes]]:
        assert self._process.stdout is not None and self._process.stderr is not None
        while data := await self._process.stdout.read(65536):
            yield Channel.STDOUT, data
        while data := await self._process.stderr.read(65536):
            yield Channel.STDERR, data
        self.exit_code = await self._process.wait()


class LocalMember:
    """This machine as a member; its folder is the one in which programs begin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Sequence[str]] = []
        self.refusal: Exception | None = None

    @asynccontextmanager
    async def running(
        self, command: Sequence[str], *, stdin: bool = True, tty: bool = False
    ) -> AsyncIterator[CommandStream]:
        if self.refusal is not None:
            raise self.refusal
        self.started.append(command)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe if stdin else None, stdout=pipe, stderr=pipe, cwd=self.folder
        )
        try:
            yield cast(CommandStream, LocalStream(process))
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()  # with output left, `wait` alone would never end

    @asynccontextmanager
    async def connected(self, port: int) -> AsyncIterator[PortConnection]:
        yield cast(PortConnection, Echo(port))


class Echo:
    """A program at a port: it sends its port's number and what it got once the client has ended."""

    def __init__(self, port: int) -> None:
        self._answer = str(port).encode()
        self._got = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self._answer += data

    async def end_writing(self) -> None:
        self._got.set()

    async def read(self) -> bytes:
        await self._got.wait()
        answer, self._answer = self._answer, b""
        return answer


@asynccontextmanager
async def client_of(
    member: LocalMember, home: Path, told: list[str] | None = None, **options: Any
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """An SSH client of the server for the member. `told` gets what the server tells the user."""
    say = (told if told is not None else []).append
    folder = SshFolder(home)
    folder.make_key()
    ours, theirs = socket.socketpair()
    async with asyncio.timeout(BOUND_SECONDS):
        serving = asyncio.create_task(
            serve(cast(Member, member), folder.key, os.dup(theirs.fileno()), os.dup(theirs.fileno()), say)
        )
        theirs.close()
        async with asyncssh.connect(
            "bert.kaji",
            sock=ours,
            known_hosts=str(folder.known_hosts),
            config=None,
            username="me",
            client_keys=None,
            **options,
        ) as client:
            yield client
        await serving


@pytest.fixture
async def member(tmp_path: Path) -> LocalMember:
    folder = tmp_path / "member"
    folder.mkdir()
    return LocalMember(folder)


async def test_a_command_has_its_streams_and_exit_code(member: LocalMember, tmp_path: Path) -> None:
    async with client_of(member, tmp_path) as client:
        ran = await client.run('echo out; echo "$LR" >&2; cat; exit 3', input="in", env={"LR": "a 'b'"})
    assert (ran.exit_status, ran.stdout, ran.stderr) == (3, "out\nin", "a 'b'\n")


async def test_a_refusal_is_told_with_its_way_out(member: LocalMember, tmp_path: Path) -> None:
    member.refusal = NotFound("bert has no member of rank 7 now", hint="see kaji describe bert")
    async with client_of(member, tmp_path) as client:
        ran = await client.run("true")
    assert ran.exit_status == 255
    assert ran.stderr == "kaji: bert has no member of rank 7 now\n      see kaji describe bert\n"


async def test_ports_of_the_member_alone_can_be_reached(member: LocalMember, tmp_path: Path) -> None:
    async with client_of(member, tmp_path) as client:
        reader, writer = await client.open_connection("localhost", 8888)
        writer.write(b" hello")
        writer.write_eof()
        assert await reader.read() == b"8888 hello"
        with pytest.raises(asyncssh.ChannelOpenError, match="other is another host"):
            await client.open_connection("other", 22)


async def test_forwards_that_are_refused_are_told_once_with_what_to_do_instead(
    member: LocalMember, tmp_path: Path
) -> None:
    """OpenSSH's client says nothing of a refused agent (-A), and does not show a server's reasons."""
    told: list[str] = []
    async with client_of(member, tmp_path, told, agent_forwarding=True, agent_path=str(tmp_path / "agent")) as client:
        for _ in range(2):
            ran = await client.run("echo ${SSH_AUTH_SOCK:-none} ${DISPLAY:-none}")
            assert ran.stdout == "none none\n"
        with pytest.raises(asyncssh.ChannelListenError):
            await client.forward_remote_port("", 8000, "localhost", 80)
        with pytest.raises(asyncssh.ChannelOpenError):
            await client.open_unix_connection("/run/docker.sock")
        with pytest.raises(asyncssh.ChannelListenError):
            await client.forward_remote_path("/tmp/there", "/tmp/here")
        with pytest.raises(asyncssh.ChannelOpenError):
            await client.run("true", x11_forwarding=True, x11_display="localhost:1")
    firsts = [NO_AGENT, NO_REMOTE_PORTS, NO_SOCKETS, NO_X11]
    assert told == [line for what, instead in firsts for line in (f"kaji: {what}", f"      {instead}")]


async def test_a_client_of_files_ends_with_success(member: LocalMember, tmp_path: Path) -> None:
    """OpenSSH's scp fails without a word if the server tells no exit code."""
    begin = b"\0\0\0\5\1\0\0\0\3"  # SSH_FXP_INIT of version 3, with its length
    async with client_of(member, tmp_path) as client:
        process = await client.create_process(subsystem="sftp", encoding=None, input=begin)
        assert (await process.wait()).exit_status == 0


async def test_files_go_in_and_out(member: LocalMember, tmp_path: Path) -> None:
    large = os.urandom(MAX_WHOLE_BYTES * 3 + 7)
    here = tmp_path / "here"
    (here / "a").mkdir(parents=True)
    (here / "a" / "名 'x' $y").write_text("small")
    (here / "a" / "large").write_bytes(large)
    (here / "a" / "large").chmod(0o751)
    async with client_of(member, tmp_path) as client, client.start_sftp_client() as sftp:
        await sftp.put(str(here), "there", recurse=True, preserve=True)
        await sftp.get("there", str(tmp_path / "back"), recurse=True, preserve=True)
        assert await sftp.getcwd() == str(member.folder)
        assert sorted(map(str, await sftp.listdir("there/a"))) == ["large", "名 'x' $y"]
        async with sftp.open("there/a/large", "rb") as file:
            part: Any = await file.read(5, 1000)
            assert part == large[1000:1005]
    for folder in (member.folder / "there", tmp_path / "back"):
        assert (folder / "a" / "名 'x' $y").read_text() == "small"
        assert (folder / "a" / "large").read_bytes() == large
        assert (folder / "a" / "large").stat().st_mode & 0o777 == 0o751
        assert int((folder / "a").stat().st_mtime) == int((here / "a").stat().st_mtime)


async def test_files_are_changed_in_place(member: LocalMember, tmp_path: Path) -> None:
    os.umask(umask := os.umask(0o022))
    file = member.folder / "f"
    file.write_bytes(b"0123456789")
    async with client_of(member, tmp_path) as client, client.start_sftp_client() as sftp:
        async with sftp.open("f", "r+b") as opened:
            await opened.write(b"ab", 4)
        async with sftp.open("f", "ab") as opened:
            await opened.write(b"end")
        assert file.read_bytes() == b"0123ab6789end"
        await sftp.truncate("f", 2)
        await sftp.symlink("f", "link")
        assert await sftp.readlink("link") == "f"
        await sftp.posix_rename("f", "g")
        await sftp.mkdir("d", asyncssh.SFTPAttrs(permissions=0o777))  # as OpenSSH's client asks
        assert not (member.folder / "d").stat().st_mode & umask, "a folder that everybody may write to"
        await sftp.rmdir("d")
        await sftp.remove("link")
    assert {path.name: path.read_bytes() for path in member.folder.iterdir()} == {"g": b"01"}


async def test_errors_are_those_of_the_member(member: LocalMember, tmp_path: Path) -> None:
    (member.folder / "there").write_text("x")
    async with client_of(member, tmp_path) as client, client.start_sftp_client() as sftp:
        with pytest.raises(asyncssh.SFTPNoSuchFile):
            await sftp.stat("missing")
        with pytest.raises(asyncssh.SFTPNoSuchFile):
            await sftp.get("missing", str(tmp_path / "x"))
        with pytest.raises(asyncssh.SFTPNoSuchFile):
            await sftp.listdir("missing")
        with pytest.raises(asyncssh.SFTPError, match="exist"):
            await sftp.open("there", "xb")
        with pytest.raises(asyncssh.SFTPError, match="exists"):
            await sftp.rename("there", "there")
        with pytest.raises(asyncssh.SFTPFailure, match="folder"):
            await sftp.open(".", "rb")
    shells: list[Any] = [command for command in member.started if list(command) == ["/bin/sh"]]
    assert len(shells) == 1
