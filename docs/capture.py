"""Types the commands of the tutorial into a real shell and puts what they printed into the page. Runs the demo, for its
page and for the README's picture.

    python docs/capture.py             all pages
    python docs/capture.py --check     nothing is written; differences are shown, and the exit code is 1

It types each line that begins with `$ ` in a fence marked ```console (`> ` continues a line). After that word `server`
runs the command beside the shell, like a second terminal; `kubectl` marks commands that need that program; `cluster`
marks those that need a foreign API server; ~/cluster.yaml is then its kubeconfig. Hidden comments in the page:

    <!-- until: COMMAND -->            waits until the command succeeds
    <!-- stop -->                      ends the servers that were started

Homes, host names, process numbers, ports, times, ages, digests and notes differ from run to run: a page that differs
only in those is up to date.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import logging
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # tests load this file by its path

from terminal_picture import picture

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[1]
DEMO = ROOT / "docs" / "start" / "demo.md"
PICTURE = ROOT / "docs" / "figures" / "demo.svg"
TUTORIAL = ROOT / "docs" / "start" / "tutorial.md"
PATIENCE_SECONDS = 60.0
SETTLED_SECONDS = 5.0
"""A server that prints something else than the page counts as up when it has been silent for this long."""
HOME, HOST = "/home/ada", "laptop"
PICTURE_COLUMNS = 110
_PICTURED = ("A training that survives", "The board")
DEMO_LINE = 118
"""Columns. Longer lines of the demo are cut, so that the page needs no scrolling."""

_FENCE = re.compile(r"```console((?: \w+)*)")
_HIDDEN = re.compile(r"<!-- (until|stop):? ?(.*?) ?-->")
_DEMO = re.compile(r"(<!-- capture:demo -->\n).*?(<!-- /capture -->)", re.DOTALL)

# Text that differs from run to run and means nothing.
_VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.,]+Z?"), "TIME"),
    (re.compile(rf"{HOST}-\d+"), f"{HOST}-N"),
    (re.compile(r"(\d+|[Aa]n?|[Aa]bout an?|[Ll]ess than a) (second|minute|hour|day)s?( ago)?"), "AGE"),
    (re.compile(r"\b(\d+[smhd])+(?=\s|$)"), "AGE"),
    (re.compile(r"sha256:[0-9a-f]{64}"), "sha256:DIGEST"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"(process|port|pid|step|kill -9) \d+"), r"\1 N"),
    (re.compile(r"\bv?\d+\.\d+\.\d+\S*"), "VERSION"),
    (re.compile(r"[\d.]+[KMG]i of (\S+) \(rank \d+\)"), r"PEAK of \1"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"-{3,}|─{3,}"), "---"),
)

_PASSING = re.compile(
    r"note: .*|[-a-z0-9]+: (waiting|queued|starting|running|restarting)\b.*|\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING) .*"
)
"""Lines that a comparison ignores: notes that depend on the machine, progress of a slow start, and log lines that a
server prints later on a slow machine."""


class Broken(Exception):
    """A page cannot be captured: a command did not end, or a condition did not become true."""


@dataclass
class Step:
    """One thing to do, and the line numbers of its output in the page (none for hidden steps)."""

    kind: str
    words: str
    tags: tuple[str, ...] = ()
    output: tuple[int, int] = (0, 0)


def steps_of(page: str) -> Iterator[Step]:
    """Return the commands and conditions of a page in order."""
    lines = page.splitlines()
    number = 0
    while number < len(lines):
        hidden, fence = _HIDDEN.fullmatch(lines[number]), _FENCE.fullmatch(lines[number])
        number += 1
        if hidden:
            yield Step(hidden[1], hidden[2])
        if not fence:
            continue
        tags = tuple(fence[1].split())
        while lines[number] != "```":
            if not lines[number].startswith("$ "):
                raise Broken(f"line {number + 1}: a fence of commands begins with `$ `")
            words = [lines[number][2:]]
            number += 1
            while lines[number].startswith("> "):
                words.append(lines[number][2:])
                number += 1
            begin = number
            while lines[number] != "```" and not lines[number].startswith("$ "):
                number += 1
            yield Step("type", "\n".join(words), tags, (begin, number))


class Terminal:
    """A home folder with the examples, a shell in it, and servers beside it."""

    def __init__(
        self, folder: Path, cluster: Path | None = None, typed: Path | None = None, quick: Path | None = None
    ) -> None:
        self._quick = quick
        self.home = folder / HOME.lstrip("/")
        clone = self.home / "kajitori"
        shutil.copytree(ROOT / "examples", clone / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        if cluster is not None:
            shutil.copy(cluster, self.home / "cluster.yaml")
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "PATH", "TMPDIR")}
        programs = str(Path(sys.executable).parent)
        self.environment = kept | {
            "KAJI_ENGINE": "process",
            "HOME": str(self.home),
            "PATH": ":".join((*([str(typed)] if typed else ()), programs, kept.get("PATH", "/usr/bin:/bin"))),
            "COLUMNS": "110",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._servers: list[subprocess.Popen[bytes]] = []
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            cwd=clone,
            start_new_session=True,
        )

    def type(self, words: str) -> tuple[str, int]:
        """Return the output of the command on both streams, and its exit code. Raises Broken if it does not end."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        mark = f"=={time.monotonic_ns()}=="
        typed = f"{{\n(exit ${{last:-0}})\n{words}\n}} </dev/null\nlast=$?\necho; echo '{mark}' $last\n"
        self._shell.stdin.write(typed.encode())
        self._shell.stdin.flush()
        printed = b""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._shell.stdout, selectors.EVENT_READ)
            while not (end := re.search(rf"\n{mark} (\d+)\n".encode(), printed)):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise Broken(f"`{words}` did not end in {PATIENCE_SECONDS:.0f} s; it printed: {printed.decode()}")
                chunk = os.read(self._shell.stdout.fileno(), 65536)
                if not chunk:
                    raise Broken(f"the shell ended at `{words}`")
                printed += chunk
        return self.neutral(printed[: end.start()].decode()), int(end[1])

    def serve(self, words: str, shown: Sequence[str] = ()) -> str:
        """Start a server beside the shell and return its output once it has printed everything that the page shows."""
        file = self.home.parent / f"server-{len(self._servers)}.log"
        with file.open("wb") as output:
            folder = Path(f"/proc/{self._shell.pid}/cwd").resolve()
            process = subprocess.Popen(
                ["bash", "-c", f"exec {words}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment,
                cwd=folder,
            )
        self._servers.append(process)
        begun = changed = time.monotonic()
        said = ""
        while not said or not (_says(said, shown) or time.monotonic() - changed > SETTLED_SECONDS):
            if process.poll() is not None or time.monotonic() - begun > PATIENCE_SECONDS:
                raise Broken(f"`{words}` is not up: {said}")
            time.sleep(0.2)
            before, said = said, self.neutral(file.read_text())
            changed = changed if said == before else time.monotonic()
        return said

    def until(self, words: str) -> None:
        """Repeat a hidden command until it succeeds. Raises Broken if it does not succeed in time."""
        asked = f"( PATH={self._quick}:$PATH; {words} )" if self._quick else words
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            printed, code = self.type(asked)
            if code == 0:
                return
            if time.monotonic() > deadline:
                raise Broken(f"`{words}` did not succeed in {PATIENCE_SECONDS:.0f} s; it printed: {printed}")
            time.sleep(1.0)  # each time a command that starts from nothing

    def neutral(self, text: str) -> str:
        """Return the text without this machine's names."""
        return _without_host(text.replace(str(self.home), HOME))

    def stop_servers(self) -> None:
        """End every server, the last one first."""
        while self._servers:
            process = self._servers.pop()
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """Delete the runs (members outlive servers), then end the servers and the shell."""
        try:
            if self._servers:
                with contextlib.suppress(Broken):
                    self.type('runs=$(kaji ps -a -q) && [ -z "$runs" ] || kaji rm -f $runs')
                    self.until('[ -z "$(kaji ps -a -q)" ]')
        finally:
            self.stop_servers()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()


def _says(said: str, shown: Sequence[str]) -> bool:
    """Return whether a server has printed everything that a page shows, including its log."""
    return len(said.splitlines()) >= len(shown) and comparable(said) == comparable("\n".join(shown))


def _without_host(text: str) -> str:
    return re.sub(rf"\b{re.escape(socket.gethostname().lower())}\b", HOST, text)


def captured(
    page: str, folder: Path, cluster: Path | None = None, *, typed: Path | None = None, quick: Path | None = None
) -> str:
    """Return the page with the present output of its commands. Those without kubectl or cluster keep their text.

    typed: folder with the `kaji` that the page's commands use; default: the installed one.
    quick: folder with a `kaji` that starts faster, for hidden conditions that are asked repeatedly.
    """
    missing = {"cluster"} if cluster is None else set()
    if shutil.which("kubectl") is None:
        missing.add("kubectl")
    lines = page.splitlines()
    fresh: list[tuple[tuple[int, int], list[str]]] = []
    terminal = Terminal(folder, cluster, typed, quick)
    try:
        for step in steps_of(page):
            if missing & set(step.tags):
                continue
            if step.kind == "until":
                terminal.until(step.words)
            elif step.kind == "stop":
                terminal.stop_servers()
            elif "server" in step.tags:
                said = terminal.serve(step.words, lines[slice(*step.output)])
                fresh.append((step.output, said.rstrip().splitlines()))
            else:
                printed, _ = terminal.type(step.words)
                log.info("$ %s\n%s", step.words, printed)
                fresh.append((step.output, [line.rstrip() for line in printed.rstrip().splitlines()]))
    finally:
        terminal.close()
    for (begin, end), output in reversed(fresh):
        lines[begin:end] = output
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def foreign_cluster() -> Iterator[Path | None]:
    """Yield the kubeconfig of a real API server with a scheduler, or None if the binaries are not installed."""
    sys.path.insert(0, str(ROOT))
    from tests.harness.binaries import find_binary
    from tests.harness.servers.real_server import running_real_server

    names = ("kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager")
    if any(find_binary(name) is None for name in names):
        yield None
        return
    with running_real_server() as cluster, cluster.scheduler(), cluster.controller_manager():
        yield cluster.kubeconfig


def comparable(page: str) -> list[str]:
    """Return the page's lines without text that differs from run to run."""
    return [_without_volatile(line) for line in page.splitlines() if not _PASSING.fullmatch(line)]


def _without_volatile(line: str) -> str:
    for pattern, instead in _VOLATILE:
        line = pattern.sub(instead, line)
    return re.sub(r"\d", "N", line) if line.startswith(f"{HOST} ") else line.rstrip()


def with_old_lines(old: str, new: str) -> str:
    """Return the new page, with the old line wherever the two differ only in text that varies from run to run."""
    before, after = old.splitlines(), new.splitlines()
    sides = ([_without_volatile(line) for line in page] for page in (before, after))
    made: list[str] = []
    for kind, begin, end, new_begin, new_end in difflib.SequenceMatcher(None, *sides, autojunk=False).get_opcodes():
        made += before[begin:end] if kind == "equal" else after[new_begin:new_end]
    return "\n".join(made) + "\n"


def demo_output() -> str:
    """Run `kaji demo` and return its output without this machine's names. Raises Broken if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "kajitori.cli", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )
    if done.returncode:
        raise Broken(f"kaji demo ended with {done.returncode}: {done.stdout}{done.stderr}")
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).strip()
    text = re.sub(r"/tmp/kaji-demo-\w+", "/tmp/kaji-demo", text)
    for found, instead in ((str(ROOT), f"{HOME}/kajitori"), (str(Path.home()), HOME)):
        text = re.sub(rf"{re.escape(found)}(?![\w.-])", instead, text)
    return _without_host(text)


def demo_page(page: str, output: str) -> str:
    """Return the page with the demo's output, long lines cut at their end."""
    lines = [line if len(line) <= DEMO_LINE else f"{line[: DEMO_LINE - 2]} …" for line in output.splitlines()]
    block = "```console\n" + "\n".join(lines) + "\n```\n"
    return _DEMO.sub(lambda match: match[1] + block + match[2], page)


def demo_picture(output: str) -> str:
    """Return two chapters of the demo's output as a picture of a terminal."""
    chapters = re.split(r"\n(?=[^\n]+\n-{4,}\n)", f"\n{output}")
    lines: list[tuple[str, str]] = []
    for chapter in chapters:
        title, *rest = chapter.strip().splitlines() or [""]
        if title in _PICTURED:
            lines += [("", "")] if lines else []
            lines += [("heading", title)]
            lines += [(_kind_of(line), line) for line in rest[1:] if not line.startswith("That is all.")]
    while not lines[-1][1]:
        lines.pop()
    return picture(lines, title="kaji demo", columns=PICTURE_COLUMNS)


def _kind_of(line: str) -> str:
    if line.startswith("$ "):
        return "command"
    return "said" if re.fullmatch(r"[A-Z][a-z]+ .*[.:]", line) else "output"


def main() -> int:
    parser = argparse.ArgumentParser(prog="docs/capture.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("page", nargs="*", choices=["demo", "tutorial", []], help="else all")
    parser.add_argument("--check", action="store_true", help="write nothing; show what would change")
    parser.add_argument("--cluster", type=Path, metavar="KUBECONFIG", help="else kube-apiserver, if it is installed")
    parser.add_argument("--verbose", action="store_true", help="show each command and its output at once")
    options = parser.parse_args()
    logging.basicConfig(level="INFO" if options.verbose else "WARNING", format="%(asctime)s %(message)s")
    wanted = options.page or ["demo", "tutorial"]
    pages: Mapping[Path, str] = {}
    with tempfile.TemporaryDirectory(prefix="kaji-docs-") as folder:
        made = {}
        if "demo" in wanted:
            output = demo_output()
            made[DEMO] = demo_page(DEMO.read_text(encoding="utf-8"), output)
            if not options.check:
                PICTURE.write_text(demo_picture(output), encoding="utf-8")
        if "tutorial" in wanted:
            with contextlib.nullcontext(options.cluster) if options.cluster else foreign_cluster() as cluster:
                made[TUTORIAL] = captured(TUTORIAL.read_text(encoding="utf-8"), Path(folder), cluster)
        pages = made
    stale = False
    for path, text in pages.items():
        before = path.read_text(encoding="utf-8")
        if options.check:
            difference = list(difflib.unified_diff(comparable(before), comparable(text), path.name, "now", lineterm=""))
            sys.stdout.write("".join(f"{line}\n" for line in difference))
            stale = stale or bool(difference)
        else:
            path.write_text(with_old_lines(before, text), encoding="utf-8")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
