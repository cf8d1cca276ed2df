"""The embedded API server is killed during writes: everything that it acknowledged is there afterwards."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
from tests.harness.servers.embedded_server import MERGE, TOKEN, embedded_server

MAPS = "/api/v1/namespaces/default/configmaps"
ROOT = Path(__file__).resolve().parents[3]
SERVER = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from tests.harness.servers.embedded_server import embedded_server

async def main():
    async with embedded_server(Path(sys.argv[1])) as api:
        print(api.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    """Many clients create, change and delete; the server is killed and started three times on one store."""
    expected: dict[str, str] = {}
    unsure: set[str] = set()
    for life in range(3):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVER, str(tmp_path), str(ROOT), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            url = (await process.stdout.readline()).decode().strip()
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False), headers={"Authorization": f"Bearer {TOKEN}"}
            ) as session:
                enough = asyncio.Event()
                writers = [
                    asyncio.create_task(_write(session, url, f"w{life}-{number}", expected, unsure, enough))
                    for number in range(8)
                ]
                await enough.wait()
                process.kill()
                await asyncio.gather(*writers)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
        async with embedded_server(tmp_path) as api:
            answer = await api.call("GET", MAPS)
            found = {item["metadata"]["name"]: item["data"]["x"] for item in answer.body["items"]}
        assert len(expected) > 20
        assert {name: value for name, value in found.items() if name not in unsure} == {
            name: value for name, value in expected.items() if name not in unsure
        }


async def _write(
    session: aiohttp.ClientSession,
    url: str,
    prefix: str,
    expected: dict[str, str],
    unsure: set[str],
    enough: asyncio.Event,
) -> None:
    """Create, change and delete until the server is gone. Requests without an answer may have been carried out or
    not."""
    for index in range(1_000_000):
        name = f"{prefix}-{index}"
        try:
            body = {"metadata": {"name": name}, "data": {"x": "1"}}
            async with session.post(url + MAPS, json=body) as response:
                assert response.status == 201
                expected[name] = "1"
            if index % 2:
                headers = {"Content-Type": MERGE}
                unsure.add(name)
                async with session.patch(f"{url}{MAPS}/{name}", json={"data": {"x": "2"}}, headers=headers) as response:
                    assert response.status == 200
                    expected[name] = "2"
                unsure.discard(name)
            if index % 3 == 0:
                unsure.add(name)
                async with session.delete(f"{url}{MAPS}/{name}") as response:
                    assert response.status == 200
                    del expected[name]
                unsure.discard(name)
        except aiohttp.ClientError:
            unsure.add(name)
            return
        if index == 8:
            enough.set()
