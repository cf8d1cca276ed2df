"""Takes pictures of the web page's pages, light and dark, for docs/figures and the README. They are to be looked at.

    python docs/screenshots.py              all pages
    python docs/screenshots.py run/events   these only

It starts a `kaji up` with simulated nodes in a temporary folder, starts runs, waits until their figures have some
minutes, and opens every page in a browser (Debian's chromium): each in a folder of its subject, also before there are
runs. It takes about ten minutes. Usage of a month is a written answer.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urljoin

from playwright.sync_api import Browser, StorageState, sync_playwright
from playwright.sync_api import Error as BrowserError

log = logging.getLogger(__name__)

FIGURES = Path(__file__).resolve().parent / "figures"
KAJI = Path(sys.executable).with_name("kaji")
SIZE = (1280, 800)
NARROW = (360, 740)
FIGURES_SECONDS = 240.0
"""Time until the figures of a run have a few points."""
STARTED_SECONDS = 30.0
"""Time until all runs have started."""
NEEDS_FIGURES = {"run/figures", "run/time", "usage/usage"}
UP_SECONDS = 60.0
SETTLED_MILLISECONDS = 2500.0
LOADED_MILLISECONDS = 60_000.0

PAGES = {
    "runs/list": "/runs",
    "run/log": "/runs/default/llama",
    "run/figures": "/runs/default/llama?tab=figures",
    "run/members": "/runs/default/bert-large?tab=members",
    "run/members-many": "/runs/default/crowd?tab=members&rank=300",
    "run/events": "/runs/default/llama?tab=events",
    "run/terminal": "/runs/default/llama?tab=terminal&rank=0",
    "run/attempts": "/runs/default/llama?tab=attempts",
    "run/files": "/runs/default/llama?tab=files",
    "run/time": "/runs/default/llama?tab=time",
    "runs/start": "/start?from=default/llama",
    "cluster/map": "/cluster",
    "cluster/board": "/board",
    "cluster/networks": "/networks?part=registry",
    "queue/timeline": "/queue",
    "queue/run": "/queue/default/gpt-long",
    "queue/table": "/queue?as=table",
    "sweeps/list": "/sweeps",
    "sweeps/one": "/sweeps/default/search",
    "usage/usage": "/usage?by=run",
    "usage/history": "/history",
    "usage/audit": "/audit",
    "mine/mine": "/mine",
}
"""Addresses by the folder and name of their picture."""
EMPTY = {
    "runs/list": "/runs",
    "cluster/map": "/cluster",
    "queue/timeline": "/queue",
    "sweeps/list": "/sweeps",
    "usage/usage": "/usage",
    "usage/history": "/history",
    "mine/mine": "/mine",
}
"""Pages that are shown before there are runs, too."""
ON_A_PHONE = (
    *("runs/list", "run/log", "run/members-many", "run/events", "runs/start", "cluster/map", "cluster/board"),
    *("queue/timeline", "sweeps/one", "usage/usage", "mine/mine"),
)
SHOWS = {
    "run/figures": ".uplot",
    "run/files": "table",
    "run/members-many": "[role=region] strong",
    "run/terminal": ".xterm-rows :text('#')",
    "cluster/board": "section li",
    "usage/usage": "h2",
}
"""CSS selectors of what a page has to show before its picture is taken."""
WHOLE = ("run/members-many", "cluster/board-phone")
"""Pictures of the whole page, also of what has to be scrolled to."""
TYPES = {"run/terminal": "echo rank $KAJI_RANK of $KAJI_WORLD_SIZE; ls -l $KAJI_CHECKPOINT_DIR\n"}
"""What is typed before the picture is taken."""

TYPE_SECONDS = {"h100": 612_345_600, "a100": 287_654_400}
TEAM_SECONDS = {"vision": 401_234_400, "speech": 255_600_000, "default": 168_480_000, "protein-folding": 74_685_600}


def month() -> dict[str, object]:
    """Return the written answer about the GPU-hours of a month."""
    until = datetime.now(UTC)
    return {
        "since": (until - timedelta(days=30)).isoformat(),
        "until": until.isoformat(),
        "gpuSeconds": sum(TYPE_SECONDS.values()),
        "types": [{"name": name, "gpuSeconds": seconds} for name, seconds in TYPE_SECONDS.items()],
        "teams": [{"name": name, "gpuSeconds": seconds} for name, seconds in TEAM_SECONDS.items()],
        "teamCount": len(TEAM_SECONDS),
    }


NETWORKS = """
researchers: ["10.0.0.0/16"]
natHosts: [{name: nat-a, addresses: ["10.0.1.1"]}]
clusters:
  - name: paris
    nodes: ["10.16.0.0/20"]
    pods: ["10.32.0.0/14"]
    services: ["172.20.0.0/16"]
    publicServices: ["10.112.0.0/16"]
    natHost: nat-a
    gateways: ["10.16.0.1"]
    size: {nodes: 1000, nodePrefix: 24}
  - name: tokyo
    nodes: ["10.17.0.0/20"]
    pods: ["10.40.0.0/14"]
    services: ["172.21.0.0/16"]
    gateways: ["10.17.0.1"]
"""

TRAINING = """
import json, math, os, random, time
rank = int(os.environ["KAJI_RANK"])
if rank == 0:
    for step in (1000, 2000):
        folder = os.path.join(os.environ["KAJI_CHECKPOINT_DIR"], f"step-{step}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "model.pt"), "wb") as file:
            file.truncate(step * 100_000)
    with open(os.path.join(os.environ["KAJI_CHECKPOINT_DIR"], "latest"), "w") as file:
        file.write("step-2000")
with open(os.environ["KAJI_METRICS"], "a", buffering=1) as figures:
    for step in range(1, 100_000):
        loss = 0.6 + 3 * math.exp(-step / 300) + random.random() * 0.08 + rank * 0.02
        figures.write(json.dumps({"step": step, "loss": loss, "tokens": 4096}) + "\\n")
        print(f"step {step}: loss {loss:.3f}", flush=True)
        time.sleep(0.5 + random.random() * 0.05 * rank)
"""

SEARCH = """
import json, math, os, random
random.seed(int(os.environ["KAJI_ARRAY_INDEX"]))
lr, dropout = 10 ** random.uniform(-5, -1), round(random.uniform(0, 0.5), 2)
layers, optimizer = random.choice([6, 12, 24]), random.choice(["adamw", "lion", "sgd"])
if lr > 0.05:
    raise SystemExit("FloatingPointError: the loss is not finite")
loss = 1.5 + 0.4 * (math.log10(lr) + 3) ** 2 + 0.6 * dropout - layers / 40 + random.gauss(0, 0.08)
found = {"lr": lr, "dropout": dropout, "layers": layers, "optimizer": optimizer, "val_loss": round(loss, 4)}
with open(os.environ["KAJI_RESULT"], "w") as file:
    json.dump(found, file)
"""

SIMULATED = "node.kubernetes.io/instance-type=simulated"
SMALL = ("--cpus", "0.1", "-m", "64m")
LLAMA = ("--name", "llama", "-n", "4", *SMALL, "--checkpoint", "/ckpt", "--code", ".")
RUNS: tuple[tuple[str, ...], ...] = (
    (*LLAMA, "python:3.11", "python3", "train.py"),
    ("--name", "bert-large", "-n", "16", "--gpus", "8", "--gpu-type", "h100", "--time-limit", "8h", "bert:3", "train"),
    ("--name", "vit", "-n", "8", "--gpus", "8", "--gpu-type", "a100", "--time-limit", "3h", "vit:1", "train"),
    ("--name", "ablation", "--array", "0-31%12", "--gpus", "1", "--gpu-type", "a100", "vit:1", "train"),
    ("--name", "whisper", "-n", "4", "--gpus", "8", "--gpu-type", "h100", "--time-limit", "2h", "asr:2", "train"),
    ("--name", "gpt-long", "-n", "20", "--gpus", "8", "--gpu-type", "h100", "--time-limit", "24h", "gpt:4", "train"),
    ("--name", "evaluate", "--after", "whisper", "-n", "1", *SMALL, "--time-limit", "1h", "asr:2", "evaluate"),
    ("--name", "tokenizer", "--cpus", "0.1", "-m", "64m", "python:3.11", "python3", "-c", "print('32000 tokens')"),
    ("--name", "search", "--array", "0-59%8", *SMALL, "--code", ".", "python:3.11", "python3", "search.py"),
    ("--name", "crowd", "-n", "1200", *SMALL, "--node-selector", SIMULATED, "crowd:1", "train"),
    ("--name", "mistake", "--cpus", "0.1", "-m", "64m", "python:3.11", "python3", "-c", "raise SystemExit(3)"),
)


def main() -> int:
    """Take all pictures. Returns the exit code: 1 if a page did not show what it should; the others are taken."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    chromium = shutil.which("chromium")
    if chromium is None:
        log.error("there is no chromium: apt-get install chromium")
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="kajitori-") as folder,
        cluster(Path(folder)),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        signed_in = sign_in(browser, folder)
        missing = 0
        wanted = set(sys.argv[1:]) or {*PAGES, *(f"{name}-empty" for name in EMPTY)}
        for name, address in EMPTY.items():
            if f"{name}-empty" not in wanted:
                continue
            missing += not taken(signed_in, f"{name}-empty", address)
        code = Path(folder) / "code"
        code.mkdir()
        (code / "train.py").write_text(TRAINING)
        (code / "search.py").write_text(SEARCH)
        for words in RUNS:
            kaji(folder, "run", "-d", "-q", *words, within=code)
        log.info("waiting until there are figures")
        time.sleep(FIGURES_SECONDS if wanted & NEEDS_FIGURES else STARTED_SECONDS)
        for name, address in PAGES.items():
            if name not in wanted:
                continue
            missing += not taken(signed_in, name, address)
            if name in ON_A_PHONE:
                missing += not taken(signed_in, f"{name}-phone", address, size=NARROW)
        browser.close()
        kaji(folder, "rm", "-f", *kaji(folder, "ps", "-a", "-q").split())
    return 1 if missing else 0


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """Run `kaji up` with 48 simulated nodes."""
    (folder / "networks.yaml").write_text(NETWORKS)
    words = ("up", "--data", str(folder), "--nodes", "48", "--gpu-type", "h100", "--gpu-type", "a100")
    words += ("--networks", "networks.yaml")  # the page shows this path
    with subprocess.Popen([KAJI, *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as up:
        try:
            until = time.monotonic() + UP_SECONDS
            while not (folder / "kaji.json").exists():
                if up.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("kaji up did not start")
                time.sleep(0.2)
            yield
        finally:
            up.terminate()


def kaji(folder: str, *words: str, within: Path | None = None) -> str:
    """Return what a command printed that ran within a folder."""
    command = [KAJI, "--cluster", folder, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=within).stdout


@dataclass(frozen=True)
class SignedIn:
    """A browser and the session that its pages use."""

    browser: Browser
    server: str
    session: StorageState


def sign_in(browser: Browser, folder: str) -> SignedIn:
    """Sign in by a link of the command line."""
    context = browser.new_context()
    page = context.new_page()
    link = kaji(folder, "open", "--print").strip()
    page.goto(link)
    page.get_by_role("navigation").wait_for(timeout=LOADED_MILLISECONDS)
    session = context.storage_state()
    context.close()
    return SignedIn(browser, link, session)


def taken(signed_in: SignedIn, name: str, address: str, *, size: tuple[int, int] = SIZE) -> bool:
    """Take the pictures of a page, light and dark. Return whether the page showed what it should."""
    try:
        take(signed_in, name, address, size=size)
    except BrowserError as error:
        log.error("%s: %s", name, error)
        return False
    return True


def take(signed_in: SignedIn, name: str, address: str, *, size: tuple[int, int] = SIZE) -> None:
    """Take the pictures of a page, light and dark."""
    for scheme in ("light", "dark"):
        width, height = size
        context = signed_in.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, storage_state=signed_in.session
        )
        page = context.new_page()
        page.route("**/v1/board/usage", lambda route: route.fulfill(json=month()))
        page.goto(urljoin(signed_in.server, address))
        shows = SHOWS.get(name, "h1") if not name.endswith("-empty") else "h1"
        page.locator(shows).first.wait_for(timeout=LOADED_MILLISECONDS)
        page.locator(".MuiSkeleton-root").first.wait_for(state="detached", timeout=LOADED_MILLISECONDS)
        page.keyboard.type(TYPES.get(name, ""))
        page.wait_for_timeout(SETTLED_MILLISECONDS)
        page.screenshot(path=FIGURES / f"{name}-{scheme}.png", full_page=name in WHOLE)
        context.close()
    log.info("%s", name)


if __name__ == "__main__":
    sys.exit(main())
