"""Files and start scripts of an MPI run's members, with this machine's own OpenSSH."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kajitori.api.start.ssh_keys import attempt_keys
from kajitori.core.naming import first_step
from kajitori.member import mpi_files
from kajitori.member.server import Server

SEARCH = f"{os.environ['PATH']}:/usr/sbin"
needs_openssh = pytest.mark.skipif(
    any(shutil.which(name, path=SEARCH) is None for name in ("sshd", "ssh", "ssh-keyscan")),
    reason="ssh, ssh-keyscan or sshd is not installed: apt-get install openssh-client openssh-server",
)


class Keys(Server):
    """A Web API with the keys of one attempt."""

    def __init__(self, attempt: int = 1) -> None:
        keys = attempt_keys(bytes([attempt]) * 32, bytes([100 + attempt]) * 32)
        self.said = {
            "clientKey": keys.client_key,
            "clientPublicKey": keys.client_public_key,
            "hostKey": keys.host_key,
            "hostPublicKey": keys.host_public_key,
        }

    def document(self, path: str, names: Sequence[str], seconds: float) -> dict[str, str]:
        assert path == "/v1/members/ssh?rank=1" and set(names) == set(self.said)
        return self.said


def a_free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Member:
    """A folder as the first step leaves it, and the step in the user's image."""

    def __init__(self, folder: Path, *, attempt: int = 1, port: int = 0, from_address: str = "127.0.0.1") -> None:
        hosts, addresses = ["10.0.0.1", "127.0.0.1"], ["10.0.0.1", from_address]
        mpi_files.make(str(folder), Keys(attempt), 1, hosts, addresses, 1.0)
        self.mpi = folder / first_step.MPI_FOLDER
        self.port = port or a_free_port()
        self.environment = {
            "PATH": os.environ["PATH"],
            "KAJI_RANK": "1",
            "KAJI_HOSTS": "/hosts",
            "KAJI_HOSTS_MPICH": "/hosts-mpich",
            first_step.MPI_ENV: str(self.mpi),
            first_step.MPI_PORT_ENV: str(self.port),
            first_step.MPI_PATIENCE_ENV: "20",
        }

    def launch(self, *words: str, **more: str) -> subprocess.Popen[str]:
        environment = self.environment | more
        command = ["/bin/sh", str(self.mpi / "launch"), *words]
        return subprocess.Popen(
            command, env=environment, cwd=self.mpi, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ssh(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ssh as rank 0 does, without a home folder."""
        return subprocess.run(
            [str(self.mpi / "ssh"), "127.0.0.1", *words],
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )


@contextlib.contextmanager
def serving(member: Member, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Run the member's sshd, which answers when the block begins."""
    process = member.launch("never", **more)
    try:
        waits = Member(member.mpi.parent / "rank-0", port=member.port)
        with waits.launch("echo", "all there", KAJI_RANK="0") as first:
            assert first.communicate(timeout=30) == ("all there\n", "")
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stderr.close()


def test_one_member_per_address_has_an_sshd() -> None:
    """Members of one address are one machine to MPI; rank 0's has mpirun itself."""
    assert mpi_files.ranks_with_sshd(["a", "b", "c"]) == [1, 2]
    assert mpi_files.ranks_with_sshd(["a", "a", "b", "b", "c"]) == [2, 4]
    assert mpi_files.ranks_with_sshd(["a"]) == []


def test_the_hostfile_has_each_machine_once() -> None:
    """With the slots of all members there, or mpirun refuses it."""
    text = "pi-1-0.pi slots=8\npi-1-1.pi slots=8\npi-1-2.pi slots=8\n"
    assert mpi_files.merge_hostfile(text, ["a", "b", "c"]) == text
    assert mpi_files.merge_hostfile(text, ["a", "b", "a"]) == "pi-1-0.pi slots=16\npi-1-1.pi slots=8\n"
    assert mpi_files.merge_hostfile("10.0.0.1 slots=1\n" * 2, ["10.0.0.1"] * 2) == "10.0.0.1 slots=2\n"


def test_the_hostfile_is_written_in_both_formats() -> None:
    """mpirun finds itself by the name of its machine."""
    hostfile = "pi-1-0.pi slots=8\npi-1-1.pi slots=4\n"
    assert mpi_files.as_mpich_hostfile(hostfile, 0, "pi-1-0") == "pi-1-0:8\npi-1-1.pi:4\n"
    assert mpi_files.as_mpich_hostfile(hostfile, 1, "gpu-7") == "pi-1-0.pi:8\ngpu-7:4\n"


@needs_openssh
def test_members_accept_only_the_keys_of_their_attempt(tmp_path: Path) -> None:
    """A command gets the member's environment. Another attempt's sshd is not accepted either."""
    member = Member(tmp_path)
    with serving(member, LR="3e-4 'and' \"more\"", KAJI_RUN="pi"):
        found = member.ssh('echo "$LR|$KAJI_RANK|$(pwd)"; exit 3')
        assert (found.stdout, found.returncode) == (f"3e-4 'and' \"more\"|1|{member.mpi}\n", 3)
        assert "only commands" in member.ssh().stderr
        other = Member(tmp_path / "other", attempt=2, port=member.port)
        with other.launch("true", KAJI_RANK="0", KAJI_MPI_PATIENCE="0") as late:
            _, why = late.communicate(timeout=30)
        assert late.returncode == 1 and "the first is 127.0.0.1" in why, "it has the host key of another attempt"
        refused = other.ssh("echo", "in")
        assert refused.returncode == 255 and "Host key verification failed" in refused.stderr
        shutil.copy(member.mpi / "known_hosts", other.mpi / "known_hosts")
        refused = other.ssh("echo", "in")
        assert refused.returncode == 255 and "Permission denied" in refused.stderr


@needs_openssh
def test_only_members_addresses_may_log_in(tmp_path: Path) -> None:
    """A stolen key is useless elsewhere."""
    member = Member(tmp_path, from_address="10.0.0.9")
    with serving(member):
        refused = member.ssh("echo", "in")
        assert refused.returncode == 255 and "Permission denied" in refused.stderr


@needs_openssh
def test_a_terminating_member_waits_for_rank_0s_programs(tmp_path: Path) -> None:
    """So that a program may write its checkpoint; without one it ends at once."""
    member = Member(tmp_path)
    with serving(member) as process:
        with subprocess.Popen([str(member.mpi / "ssh"), "127.0.0.1", "echo there; cat"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as session:  # fmt: skip
            assert session.stdout is not None and session.stdout.readline() == "there\n"
            process.terminate()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        assert process.wait(timeout=60) == 0


@needs_openssh
def test_an_sshd_that_ends_ends_the_member(tmp_path: Path) -> None:
    """For example if its port is in use: the member fails with the reason."""
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        member = Member(tmp_path, port=taken.getsockname()[1])
        with socket.socket(socket.AF_INET6) as too:
            too.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            too.bind(("::", member.port))
            too.listen()
            with member.launch("never") as process:
                _, why = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Address already in use" in why and "sshd ended with exit code 255" in why


def test_a_member_that_shares_the_address_of_another_waits(tmp_path: Path) -> None:
    member = Member(tmp_path, from_address="10.0.0.1")
    assert not (member.mpi / "serves").exists()
    with member.launch("never") as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.terminate()
        assert process.wait(timeout=60) == 0


def check(folder: Path, *before: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the step in the user's image, and return its messages about this machine."""
    given = {"PATH": os.environ["PATH"], "KAJI_MPI_PASSWD": "", first_step.UNFIT_ENV: "24", "HOME": "/h", **environment}
    command = [*before, "/bin/sh", f"{mpi_files.SCRIPTS}/check"]
    return subprocess.run(command, env=given, cwd=folder, capture_output=True, text=True, check=False, timeout=30)


@needs_openssh
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run as root")
def test_a_user_without_a_passwd_line_gets_one(tmp_path: Path) -> None:
    """Everything else stays; if the file cannot be replaced, the message says what helps."""
    passwd = Path("/etc/passwd").read_text()
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o711)
    copy = tmp_path / "passwd"
    somebody = ("setpriv", "--reuid", "54321", "--regid", "100", "--clear-groups")
    scripts = shutil.copytree(mpi_files.SCRIPTS, tmp_path / "scripts")
    command = [*somebody, "/bin/sh", str(scripts / "check")]
    given = {"PATH": os.environ["PATH"], first_step.UNFIT_ENV: "24", "HOME": "/h"}
    told = {"capture_output": True, "text": True, "check": False, "timeout": 30}
    lacks = subprocess.run(command, env=given, **told)  # type: ignore[call-overload]
    assert lacks.returncode == first_step.UNFIT_IMAGE and 'user: "54321"' in lacks.stderr
    made = subprocess.run(command, env=given | {"KAJI_MPI_PASSWD": str(copy)}, **told)  # type: ignore[call-overload]
    assert (made.returncode, made.stderr) == (0, "")
    assert copy.read_text() == f"{passwd}kaji:x:54321:100::/h:/bin/sh\n"
    assert check(tmp_path).returncode == 0, "root has a line"


@needs_openssh
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide /usr/sbin: run as root")
def test_an_image_without_sshd_says_what_to_install(tmp_path: Path) -> None:
    hidden = ("unshare", "-m", "/bin/sh", "-c", 'mount -t tmpfs none /usr/sbin && exec "$@"', "x")
    found = check(tmp_path, *hidden)
    assert (found.returncode, found.stderr.count("\n")) == (first_step.UNFIT_IMAGE, 1)
    assert "this image has no sshd" in found.stderr and "install" in found.stderr
