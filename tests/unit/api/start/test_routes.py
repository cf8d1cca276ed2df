"""Members that are starting learn where all of them are: from the mirror, once all addresses are known."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key
from tests.unit.api.conftest import World
from tests.unit.api.fake_kubernetes import Object, attempts, pod, run
from tests.unit.api.test_openapi import assert_fits

from kajitori.api.app import openapi_document
from kajitori.api.start import routes as discovery
from kajitori.api.start.host_lists import KEPT_GANGS, UNSEEN_SECONDS
from kajitori.blobs.code import CodeStore
from kajitori.blobs.opening import open_blobs
from kajitori.codepack.packing import pack
from kajitori.codepack.parts import ARCHIVE_BYTES, compress, decompressed
from kajitori.core.pods.tickets import Ticket, sign
from kajitori.kube.platform.ticket_key import REREAD_SECONDS

KEY = b"k" * 32
HOSTS = "/v1/members/hosts"
KEY_IS_READ = ("GET", "/api/v1/namespaces/kajitori/secrets/kajitori-tickets", "server")


def secret(key: bytes = KEY) -> Object:
    """The Secret that the controller has made."""
    meta = {"name": "kajitori-tickets", "namespace": "kajitori"}
    return {"metadata": meta, "data": {"key": base64.b64encode(key).decode()}}


class Gang:
    """A run of three members, and what they show."""

    def __init__(self, world: World, name: str = "bert", attempt: int = 1) -> None:
        self.world, self.attempt = world, attempt
        self.run = world.kubernetes.put("runs", run(name, replicas=3) | {"status": attempts(attempt, phase="Starting")})
        self.ticket = Ticket("team", name, self.run["metadata"]["uid"], attempt, 3)

    def start(self, rank: int, address: str = "", **status: Any) -> None:
        """The member is in its first step; without an address its node has not begun yet."""
        member = pod(self.run, attempt=self.attempt, rank=rank, phase="Pending")
        member["status"] |= {"podIP": address, **status}
        self.world.kubernetes.put("pods", member)

    def run_program(self, rank: int, address: str, phase: str = "Running") -> None:
        """The member's first step is done, and its program was started."""
        member = pod(self.run, attempt=self.attempt, rank=rank, phase=phase)
        member["status"]["podIP"] = address
        self.world.kubernetes.put("pods", member)

    def headers(self, key: bytes = KEY) -> dict[str, str]:
        return {"Authorization": f"Bearer {sign(self.ticket, key)}"}

    async def ask(self) -> httpx2.Response:
        return await self.world.http.get(HOSTS, headers=self.headers())


@pytest.fixture
async def gang(world: World) -> AsyncIterator[Gang]:
    world.kubernetes.put("secrets", secret())
    gang = Gang(world)
    await world.caught_up()
    yield gang


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for what is still missing."""
    monkeypatch.setattr(discovery, "POLL_SECONDS", 0.0)


async def test_all_addresses_by_rank(gang: Gang) -> None:
    """As JSON, and packed for whoever can unpack."""
    for rank in (2, 0, 1):
        gang.start(rank, f"10.0.0.{rank}")
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()) == (200, {"addresses": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]})
    async with gang.world.http.stream("GET", HOSTS, headers=gang.headers() | {"Accept-Encoding": "gzip"}) as packed:
        raw = b"".join([piece async for piece in packed.aiter_raw()])
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(raw)) == answer.json()


async def test_answers_are_as_described(gang: Gang, impatient: None) -> None:
    document = openapi_document()
    described = document["paths"][HOSTS]["get"]["responses"]
    assert document["paths"][HOSTS]["get"]["security"] == [{"ticket": []}]
    for rank in range(3):
        answer = await gang.ask()
        assert answer.status_code == 202
        assert_fits(document, described["202"]["content"]["application/json"]["schema"], answer.json(), HOSTS)
        gang.start(rank, "10.0.0.1")
        await gang.world.caught_up()
    answer = await gang.ask()
    assert_fits(document, described["200"]["content"]["application/json"]["schema"], answer.json(), HOSTS)


async def test_it_answers_when_the_last_one_is_known(gang: Gang) -> None:
    """All who wait are answered together, without asking again."""
    gang.start(0, "10.0.0.0")
    gang.start(1)
    await gang.world.caught_up()
    asking = [asyncio.create_task(gang.ask()) for _ in range(5)]
    await asyncio.sleep(0)
    gang.start(1, "10.0.0.1")
    gang.start(2, "10.0.0.2")
    answers = await asyncio.gather(*asking)
    assert {answer.text for answer in answers} == {'{"addresses":["10.0.0.0","10.0.0.1","10.0.0.2"]}'}


async def test_who_is_missing_is_told_in_time(gang: Gang, impatient: None) -> None:
    """Before a proxy hangs up; then the member asks again."""
    gang.start(0, "10.0.0.0")
    gang.start(1)
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()) == (
        202,
        {"known": 1, "total": 3, "missing": ["bert-1-1", "bert-1-2"]},
    )


async def test_the_api_server_is_not_asked_for_each_member(gang: Gang) -> None:
    """Once for the key, whatever the number of members."""
    for rank in range(3):
        gang.start(rank, f"10.0.0.{rank}")
    await gang.world.caught_up()
    gang.world.kubernetes.requests.clear()
    answers = await asyncio.gather(*(gang.ask() for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert gang.world.kubernetes.requests == [KEY_IS_READ]


async def test_what_lingers_of_other_attempts_is_in_no_list(gang: Gang, impatient: None) -> None:
    """Nor is a member that failed, is on its way out, or is none of ours (rules 1 and 6)."""
    old = Gang(gang.world, attempt=1)
    old.start(0, "10.9.9.9")
    new = Gang(gang.world, attempt=2)
    for rank in range(3):
        new.start(rank, f"10.0.0.{rank}")
    stranger = pod(new.run, attempt=2, rank=1, phase="Pending")
    stranger["metadata"]["name"] = "stranger"
    stranger["status"]["podIP"] = "10.6.6.6"
    gang.world.kubernetes.put("pods", stranger)
    await gang.world.caught_up()
    assert (await new.ask()).json() == {"addresses": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]}

    new.start(1, "10.0.0.1", phase="Failed")
    leaving = gang.world.kubernetes.get("pods", "bert-2-2")
    leaving["metadata"]["deletionTimestamp"] = "2026-11-21T10:01:00Z"
    gang.world.kubernetes.put("pods", leaving)
    await gang.world.caught_up()
    assert (await new.ask()).json()["missing"] == ["bert-2-1", "bert-2-2"]


async def test_no_foreign_pod_is_in_a_list(gang: Gang, impatient: None) -> None:
    """Pods under a member's name with the run's labels: in another namespace even with its owner reference, in its own
    with the labels alone. Rank 0 is where torchrun meets."""
    for rank in (1, 2):
        gang.start(rank, f"10.0.0.{rank}")
    elsewhere, unowned = pod(gang.run, phase="Pending"), pod(gang.run, phase="Pending")
    elsewhere["metadata"]["namespace"] = "mallory"
    del unowned["metadata"]["ownerReferences"]
    for foreign in (elsewhere, unowned):
        foreign["status"]["podIP"] = "10.6.6.6"
        gang.world.kubernetes.put("pods", foreign)
    await gang.world.caught_up()
    assert (await gang.ask()).json() == {"known": 2, "total": 3, "missing": ["bert-1-0"]}


async def test_a_quick_member_that_has_ended_is_still_in_the_list(gang: Gang) -> None:
    """The others have yet to learn where it was."""
    gang.run_program(0, "10.0.0.0", phase="Succeeded")
    gang.run_program(1, "10.0.0.1")
    gang.start(2, "10.0.0.2")
    await gang.world.caught_up()
    assert (await gang.ask()).json() == {"addresses": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]}


async def test_an_old_attempt_is_told_at_once(gang: Gang) -> None:
    """A member that was cut off does not wait for what will never come."""
    gang.start(0, "10.0.0.0")
    Gang(gang.world, attempt=2)
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()["code"]) == (403, "AttemptOver")


async def test_who_waits_learns_that_the_attempt_is_over(gang: Gang) -> None:
    gang.start(0, "10.0.0.0")
    await gang.world.caught_up()
    asking = asyncio.create_task(gang.ask())
    await asyncio.sleep(0)
    gang.world.kubernetes.change("runs", "bert", status=attempts(1, phase="Restarting"))
    answer = await asking
    assert (answer.status_code, answer.json()["code"]) == (403, "AttemptOver")


async def test_a_ticket_is_worth_nothing_once_all_programs_run(gang: Gang) -> None:
    """Whoever can read the Pods afterwards finds it there."""
    for rank in range(3):
        gang.run_program(rank, f"10.0.0.{rank}")
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()["code"]) == (403, "NotStarting")


async def test_a_ticket_without_pods_is_worth_nothing(gang: Gang, impatient: None) -> None:
    """The mirror may be late by a moment, not for long."""
    assert (await gang.ask()).status_code == 202
    gang.world.clock.now += UNSEEN_SECONDS
    assert (await gang.ask()).json()["code"] == "NotStarting"
    gang.start(0, "10.0.0.0")
    await gang.world.caught_up()
    assert (await gang.ask()).status_code == 202


async def test_a_server_that_cannot_follow_the_cluster_refuses_nobody(
    gang: Gang, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its watch is broken it does not see what was made meanwhile: that is no fault of a gang's."""
    monkeypatch.setattr(gang.world.mirror, "age_seconds", lambda: 2 * UNSEEN_SECONDS)
    assert (await gang.ask()).status_code == 202
    gang.world.clock.now += 2 * UNSEEN_SECONDS
    assert (await gang.ask()).status_code == 202
    monkeypatch.setattr(gang.world.mirror, "age_seconds", lambda: 0.0)
    assert (await gang.ask()).json()["code"] == "NotStarting"


async def test_a_run_of_the_same_name_is_another_one(gang: Gang, impatient: None) -> None:
    """The ticket is for a UID."""
    gang.start(0, "10.0.0.0")
    gang.world.kubernetes.remove("runs", "bert")
    gang.world.kubernetes.remove("pods", "bert-1-0")
    other = Gang(gang.world)
    for rank in range(3):
        other.start(rank, f"10.0.0.{rank}")
    await gang.world.caught_up()
    assert (await other.ask()).status_code == 200
    assert (await gang.ask()).json()["known"] == 0
    gang.world.clock.now += UNSEEN_SECONDS
    assert (await gang.ask()).status_code == 403


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer  ", "Basic eDp5", "Bearer ada", "Bearer kaji1.e30.AAAA", f"Bearer kaji1.e30.{'A' * 43}"],
)
async def test_who_shows_no_ticket_learns_nothing(gang: Gang, header: str) -> None:
    """Credentials of the cluster are none, either."""
    answer = await gang.world.http.get(HOSTS, headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "Unauthenticated")
    assert "kaji1" not in answer.text


async def test_forged_tickets_do_not_trouble_the_api_server(gang: Gang) -> None:
    """An unknown signature may be that of a new key, so the Secret is read again, but not for each."""
    gang.start(0, "10.0.0.0")
    await gang.world.caught_up()
    gang.world.kubernetes.requests.clear()
    forged = {"Authorization": f"Bearer {sign(gang.ticket, b'x' * 32)}"}
    answers = [await gang.world.http.get(HOSTS, headers=forged) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [401, 503, 503, 503, 503]
    assert answers[1].headers["retry-after"]
    assert len(gang.world.kubernetes.requests) == 1
    gang.world.clock.now += REREAD_SECONDS
    assert (await gang.world.http.get(HOSTS, headers=forged)).status_code == 401


async def test_a_new_key_counts_and_the_old_one_no_more(gang: Gang) -> None:
    for rank in range(3):
        gang.start(rank, "10.0.0.1")
    await gang.world.caught_up()
    assert (await gang.ask()).status_code == 200
    gang.world.kubernetes.put("secrets", secret(b"n" * 32))
    gang.world.clock.now += REREAD_SECONDS
    new = gang.headers(b"n" * 32)
    assert (await gang.world.http.get(HOSTS, headers=new)).status_code == 200
    gang.world.clock.now += REREAD_SECONDS
    assert (await gang.ask()).status_code == 401


async def test_a_server_without_rights_says_so(gang: Gang) -> None:
    """It is no fault of the member's: it tries again."""
    gang.world.kubernetes.unknown_tokens.add("server")
    answer = await gang.ask()
    assert (answer.status_code, answer.json()["code"]) == (503, "Unavailable")
    assert "refuses this server" in answer.json()["detail"]


async def test_a_server_that_goes_down_keeps_nobody_waiting(gang: Gang) -> None:
    gang.start(0, "10.0.0.0")
    await gang.world.caught_up()
    asking = asyncio.create_task(gang.ask())
    await asyncio.sleep(0.05)
    gang.world.api.break_off()
    assert (await asking).status_code == 503


async def test_answers_of_old_gangs_are_forgotten(gang: Gang, impatient: None) -> None:
    """What is kept does not grow with what has passed through."""
    for number in range(KEPT_GANGS + 10):
        other = Gang(gang.world, name=f"run-{number}")
        await other.ask()
    assert len(gang.world.api.host_lists._gangs) == KEPT_GANGS


SSH = "/v1/members/ssh"


async def ask_for_keys(gang: Gang, rank: int) -> httpx2.Response:
    return await gang.world.http.get(SSH, params={"rank": rank}, headers=gang.headers())


async def test_all_members_of_an_attempt_get_the_same_keys(gang: Gang) -> None:
    """In OpenSSH's own form, which has a random number in it; another attempt has others."""
    for rank in range(3):
        gang.start(rank)
    await gang.world.caught_up()
    answers = [await ask_for_keys(gang, rank) for rank in range(3)]
    keys = answers[0].json()
    publics = [(answer.json()["clientPublicKey"], answer.json()["hostPublicKey"]) for answer in answers]
    assert publics == [(keys["clientPublicKey"], keys["hostPublicKey"])] * 3
    document = openapi_document()
    described = document["paths"][SSH]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert_fits(document, described, keys, SSH)
    for which in ("client", "host"):
        private = load_ssh_private_key(keys[f"{which}Key"].encode(), None)
        public = private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        assert public.decode() == keys[f"{which}PublicKey"]
    later = Gang(gang.world, attempt=2)
    later.start(0)
    await gang.world.caught_up()
    other = (await ask_for_keys(later, 0)).json()
    assert not {*other.values()} & {*keys.values()} and keys["clientKey"] != keys["hostKey"]


async def test_keys_are_for_members_that_are_starting(gang: Gang) -> None:
    """And for nobody else who found a ticket in a Pod."""
    gang.start(0)
    gang.run_program(1, "10.0.0.1")
    await gang.world.caught_up()
    assert (await ask_for_keys(gang, 0)).headers["cache-control"] == "no-store"
    refused = await ask_for_keys(gang, 1)
    assert (refused.status_code, refused.json()["code"]) == (403, "NotStarting")
    assert (await gang.world.http.get(SSH, params={"rank": 0})).status_code == 401


CODE = "/v1/members/code"


@pytest.fixture
async def coded(gang: Gang, tmp_path: Path) -> Gang:
    """The same gang, with code that is in the store."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)")
    store = gang.world.api.code = CodeStore(await open_blobs((tmp_path / "blobs").as_uri()))
    packed = pack(folder)
    part = packed.part(0)
    sha256 = hashlib.sha256(part).hexdigest()
    await store.put_part("team", packed.digest, 0, sha256, compress(part))
    await store.complete("team", packed.digest, [sha256], packed.size_bytes)
    gang.ticket = replace(gang.ticket, code=packed.digest)
    return gang


async def ask_for_code(gang: Gang, rank: int) -> httpx2.Response:
    return await gang.world.http.get(CODE, params={"rank": rank}, headers=gang.headers())


async def test_a_member_of_a_sweep_gets_it_by_its_index(coded: Gang) -> None:
    """Though each is alone in its world."""
    coded.start(7)
    coded.ticket = replace(coded.ticket, world_size=1)
    await coded.world.caught_up()
    assert (await ask_for_code(coded, 7)).status_code == 200


async def test_a_member_that_starts_gets_the_code_of_its_attempt(coded: Gang) -> None:
    """And nobody else: not one whose program runs, not one that is unknown, not with another run's ticket."""
    coded.start(0)
    coded.run_program(1, "10.0.0.2")
    await coded.world.caught_up()
    response = await ask_for_code(coded, 0)
    assert response.status_code == 200
    archive = b"".join(decompressed([response.content]))
    assert f"sha256:{hashlib.sha256(archive).hexdigest()}" == coded.ticket.code
    assert int(response.headers[ARCHIVE_BYTES]) == len(archive)

    response = await ask_for_code(coded, 1)
    assert (response.status_code, response.json()["code"]) == (403, "NotStarting")
    assert (await ask_for_code(coded, 2)).status_code == 503  # not seen yet: it may ask again
    coded.ticket = replace(coded.ticket, run_uid="another")
    assert (await ask_for_code(coded, 0)).status_code == 403


async def test_the_api_server_is_not_asked_for_each_member_that_fetches_code(coded: Gang) -> None:
    """Once for the key, however many start together."""
    for rank in range(3):
        coded.start(rank)
    await coded.world.caught_up()
    coded.world.kubernetes.requests.clear()
    answers = await asyncio.gather(*(ask_for_code(coded, rank) for rank in range(3)))
    assert [(answer.status_code, answer.content) for answer in answers] == [(200, answers[0].content)] * 3
    assert coded.world.kubernetes.requests == [KEY_IS_READ]


async def test_code_that_is_not_there(coded: Gang) -> None:
    coded.start(0)
    await coded.world.caught_up()
    coded.ticket = replace(coded.ticket, code="sha256:" + "0" * 64)
    assert (await ask_for_code(coded, 0)).status_code == 404
    coded.ticket = replace(coded.ticket, code="")
    assert (await ask_for_code(coded, 0)).status_code == 404
