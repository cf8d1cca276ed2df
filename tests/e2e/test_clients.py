"""Other clients of `kaji up`: Python programs, assistants, kubectl."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.harness.kaji_up import KajiUp

pytestmark = pytest.mark.xdist_group("e2e-up")


def test_the_page_about_python_does_what_it_says(up: KajiUp) -> None:
    """All blocks of the page, as one program: runs, errors, asyncio, functions, maps, pools, and a call found again."""
    page = (Path(__file__).parents[2] / "docs/howto/from-python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?<!-->\n)^```python\n(.*?)^```", page, re.S | re.M)
    assert len(blocks) >= 7
    (up.home / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"], env=up.environment, cwd=up.home, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(": Succeeded")


async def test_an_assistant_reads_a_run_through_kaji_mcp(up: KajiUp) -> None:
    """`kaji mcp` as a child of the SDK's own client, which speaks over stdin and stdout, and checks the answers."""
    import mcp
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    assert up.kaji("run", "-q", "--name", "told", "python:3.12", "python3", "-c", "print(6 * 7)").returncode == 0
    child = StdioServerParameters(
        command=str(Path(sys.executable).parent / "kaji"), args=["mcp"], env=up.environment, cwd=up.home
    )
    async with mcp.Client(stdio_client(child)) as client:
        assert "list_runs" in (client.instructions or "")
        read = await client.call_tool("read_logs", {"run": "told"})
        assert read.structured_content is not None and not read.is_error
        assert [line["line"] for line in read.structured_content["lines"]] == ["42"]
        done = await client.call_tool("get_run", {"run": "told"})
        assert done.structured_content is not None
        assert done.structured_content["run"]["phase"] == "Succeeded"
        assert (await client.call_tool("get_run", {"run": "nobody"})).is_error


def test_kubectl_sees_the_runs(up: KajiUp) -> None:
    up.kaji("run", "-q", "--name", "seen", "busybox", "true")
    environment = {**up.environment, "KUBECONFIG": str(up.data / "kubeconfig")}
    command = ["kubectl", "get", "run", "seen", "-o", "jsonpath={.status.phase}"]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert answer.stdout == "Succeeded", answer.stderr
