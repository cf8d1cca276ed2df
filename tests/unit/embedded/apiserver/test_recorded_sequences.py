"""Recorded sequences in which the embedded server once differed from a real one."""

from __future__ import annotations

import json
import ssl
from pathlib import Path

from tests.harness.servers.embedded_server import embedded_server
from tests.helpers.differential import recorded
from tests.helpers.differential.generate import fences
from tests.helpers.differential.lockstep import connection, replay
from tests.helpers.differential.normalise import differences
from tests.helpers.differential.servers import DEFINITIONS, definitions

CASES = Path(__file__).parent / "cases" / "sequences.jsonl"


async def test_recorded_sequences_get_the_real_servers_answers() -> None:
    """Found by `tests.helpers.differential.explore --record`, in their shortest form."""
    wrong = []
    async with embedded_server(controllers=False) as embedded:
        for body in definitions():
            assert (await embedded.call("POST", DEFINITIONS, body)).code == 201
        trust = ssl.create_default_context(cafile=str(embedded.certificates.ca))
        async with connection("ours", embedded.url, embedded.token, trust) as server:
            for case in recorded.load(CASES):
                answer = await replay(
                    server,
                    case.operations,
                    fences(),
                    prefix=case.prefix,
                    index=case.index,
                    watched=case.watched,
                )
                lines = differences(json.loads(json.dumps(answer)), case.really)
                if lines:
                    wrong.append("\n  ".join((case.name, *map(str, case.operations), *lines)))
    assert not wrong, f"{len(wrong)}\n" + "\n\n".join(wrong)
