"""Functions as runs, called by people who signed in at an OpenID provider, on a real API server.

`tests/cluster/web/test_web_notebooks.py` has calls of an administrator, on both API servers.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.harness.cluster import Cluster, this_machine
from tests.harness.commands import clean_environment, kaji
from tests.harness.servers.identity_provider import SCOPES, IdentityProvider
from tests.harness.waiting import PATIENCE_SECONDS
from tests.harness.web_api import web_api
from tests.helpers.callers.two_teams import may_submit, teams_of
from tests.helpers.memory_blobs import MemoryBlobs

from kajitori.blobs.code import CodeLimits, CodeStore
from kajitori.blobs.logs import KeptLogs
from kajitori.configuration.sign_in import SignIn

BROWSER = Path(__file__).parents[2] / "helpers" / "callers" / "browse.py"
HELPER = "def triple(value):\n    return 3 * value\n"
PROGRAM = """
import sys
import kajitori
import helper


@kajitori.function(cpus=0.2, memory="128m", code=".", restarts=0, namespace=sys.argv[1])
def triple(value):
    if value == 5:
        raise ValueError("five")
    return helper.triple(value)


@kajitori.function(cpus=0.2, memory="128m", restarts=0, namespace=sys.argv[1])
def steps(count):
    yield from range(count)


results = triple.map(range(5), at_most=2)
assert list(results) == [0, 3, 6, 9, 12]
call = results.calls[4]
assert kajitori.Call.from_id(call.id).result() == 12
assert call.run.wait().phase == "Succeeded", call.run
try:
    triple.remote(5).result()
except ValueError as error:
    assert 'raise ValueError("five")' in str(error.__cause__), error.__cause__
else:
    raise AssertionError("no exception")
assert list(steps.remote(3)) == [0, 1, 2]
print(call.id)
"""
TAKEN = """
import sys
import kajitori

try:
    kajitori.Call.from_id(sys.argv[1]).result()
except kajitori.errors.KajitoriError as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize("teamed", [pytest.param("real", marks=pytest.mark.real)], indirect=True)
async def test_a_user_calls_functions_after_signing_in(
    teamed: Cluster, identity_provider: IdentityProvider, tmp_path: Path
) -> None:
    """The workers are processes of this machine. Somebody of another team reads no results."""
    await may_submit(teamed, await asyncio.to_thread(identity_provider.id_token, "alice"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "helper.py").write_text(HELPER)
    place = SignIn(identity_provider.issuer, scopes=SCOPES, ca=identity_provider.ca.read_text())
    blobs = MemoryBlobs()
    code = CodeStore(blobs, lambda: CodeLimits(size_bytes=1 << 24))
    stores: dict[str, Any] = {"code": code, "blobs": blobs, "kept_logs": KeptLogs(blobs), "sign_in": place}
    async with (
        this_machine(teamed, labels={}, rules={"teams": teams_of(teamed)}),
        web_api(teamed, for_members=True, **stores) as web,
    ):
        teamed.start_controller()

        async def signed_in(user: str, program: str, word: str) -> str:
            home = tmp_path / user
            home.mkdir()
            browser = {"BROWSER": f"{sys.executable} {BROWSER} %s", "SIGN_IN_CA": str(identity_provider.ca)}
            env = clean_environment(home, SIGN_IN_AS=user, **browser)
            login = await asyncio.to_thread(kaji, "login", web.url, env=env, timeout=PATIENCE_SECONDS)
            assert login.returncode == 0, login.stderr
            (tmp_path / "work" / f"{user}.py").write_text(program)
            command = [sys.executable, f"{user}.py", word]
            done = await asyncio.to_thread(
                subprocess.run, command, env=env, cwd=tmp_path / "work", capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, (done.stderr, teamed.describe())
            return str(done.stdout.strip())

        call = await signed_in("alice", PROGRAM, teamed.namespace)
        assert await signed_in("bob", TAKEN, call) == "Forbidden"
