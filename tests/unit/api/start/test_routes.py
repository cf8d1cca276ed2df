"""Starting members get the addresses of all members from the mirror, once all are known."""

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
from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.fake_programs import Object
from tests.unit.api.test_openapi import assert_fits

from kajitori.api.app import openapi_document
from kajitori.api.start import routes as discovery
from kajitori.api.streams.host_lists import KEPT_GANGS, UNSEEN_SECONDS
from kajitori.blobs.code import CodeStore
from kajitori.blobs.stores.opening import open_blobs
from kajitori.cluster.platform.ticket_key import REREAD_SECONDS
from kajitori.codepack.packing import pack
from kajitori.codepack.parts import ARCHIVE_BYTES, compress, decompressed
from kajitori.core.pods.tickets import Ticket, sign

KEY = b"k" * 32
HOSTS = "/v1/members/hosts"
KEY_IS_READ = ("GET", "/api/v1/namespaces/kajitori/secrets/kajitori-tickets", "server")


def secret(key: bytes = KEY) -> Object:
    """Return the Secret that the controller creates."""
    meta = {"name": "kajitori-tickets", "namespace": "kajitori"}
    return {"metadata": meta, "data": {"key": base64.b64encode(key).decode()}}


class Gang:
    """A run of three members, and their Pods."""

    def __init__(self, world: World, name: str = "bert", attempt: int = 1) -> None:
        self.world, self.attempt = world, attempt
        self.run = world.kubernetes.put("runs", run(name, replicas=3) | {"status": attempts(attempt, phase="Starting")})
        self.ticket = Ticket("team", name, self.run["metadata"]["uid"], attempt, 3)

    def start(self, rank: int, address: str = "", **status: Any) -> None:
        """Put the member into its first step; without an address its Pod has not started on its node."""
        member = pod(self.run, attempt=self.attempt, rank=rank, phase="Pending")
        member["status"] |= {"podIP": address, **status}
        self.world.kubernetes.put("pods", member)

    def run_program(self, rank: int, address: str, phase: str = "Running") -> None:
        """Let the member's first step be done, and its program be started."""
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
    """Answer at once, even if addresses are missing."""
    monkeypatch.setattr(discovery, "POLL_SECONDS", 0.0)


async def test_addresses_are_returned_by_rank(gang: Gang) -> None:
    """As JSON, or compressed on request."""
    for rank in (2, 0, 1):
        gang.start(rank, f"10.0.0.{rank}")
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()) == (200, {"addresses": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]})
    async with gang.world.http.stream("GET", HOSTS, headers=gang.headers() | {"Accept-Encoding": "gzip"}) as packed:
        raw = b"".join([piece async for piece in packed.aiter_raw()])
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(raw)) == answer.json()


async def test_answers_match_the_openapi_document(gang: Gang, impatient: None) -> None:
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


async def test_waiting_members_are_answered_when_the_last_address_is_known(gang: Gang) -> None:
    """All are answered together, without another request."""
    gang.start(0, "10.0.0.0")
    gang.start(1)
    await gang.world.caught_up()
    asking = [asyncio.create_task(gang.ask()) for _ in range(5)]
    await asyncio.sleep(0)
    gang.start(1, "10.0.0.1")
    gang.start(2, "10.0.0.2")
    answers = await asyncio.gather(*asking)
    assert {answer.text for answer in answers} == {'{"addresses":["10.0.0.0","10.0.0.1","10.0.0.2"]}'}


async def test_missing_members_are_named_before_a_proxys_timeout(gang: Gang, impatient: None) -> None:
    """Then the member asks again."""
    gang.start(0, "10.0.0.0")
    gang.start(1)
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()) == (
        202,
        {"known": 1, "total": 3, "missing": ["bert-1-1", "bert-1-2"]},
    )


async def test_the_api_server_is_not_asked_for_each_member(gang: Gang) -> None:
    """It is asked once for the key, however many members there are."""
    for rank in range(3):
        gang.start(rank, f"10.0.0.{rank}")
    await gang.world.caught_up()
    gang.world.kubernetes.requests.clear()
    answers = await asyncio.gather(*(gang.ask() for _ in range(50)))
    assert {answer.status_code for answer in answers} == {200}
    assert gang.world.kubernetes.requests == [KEY_IS_READ]


async def test_only_active_members_of_the_present_attempt_are_listed(gang: Gang, impatient: None) -> None:
    """Members of other attempts, foreign Pods, and failed or leaving members are left out (rules 1 and 6)."""
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


async def test_no_foreign_pod_is_listed(gang: Gang, impatient: None) -> None:
    """Foreign Pods with a member's name and the run's labels: one in another namespace with the run's owner reference,
    one in the run's namespace with the labels alone. torchrun meets at rank 0."""
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


async def test_a_member_that_has_succeeded_already_is_still_listed(gang: Gang) -> None:
    """The others still need its address."""
    gang.run_program(0, "10.0.0.0", phase="Succeeded")
    gang.run_program(1, "10.0.0.1")
    gang.start(2, "10.0.0.2")
    await gang.world.caught_up()
    assert (await gang.ask()).json() == {"addresses": ["10.0.0.0", "10.0.0.1", "10.0.0.2"]}


async def test_a_member_of_an_earlier_attempt_is_refused_at_once(gang: Gang) -> None:
    """It does not wait for members that will never start."""
    gang.start(0, "10.0.0.0")
    Gang(gang.world, attempt=2)
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()["code"]) == (403, "AttemptOver")


async def test_a_waiting_member_is_told_when_its_attempt_is_over(gang: Gang) -> None:
    gang.start(0, "10.0.0.0")
    await gang.world.caught_up()
    asking = asyncio.create_task(gang.ask())
    await asyncio.sleep(0)
    gang.world.kubernetes.change("runs", "bert", status=attempts(1, phase="Restarting"))
    answer = await asking
    assert (answer.status_code, answer.json()["code"]) == (403, "AttemptOver")


async def test_a_ticket_is_refused_once_all_programs_run(gang: Gang) -> None:
    """Otherwise anyone who can read the Pods could use it."""
    for rank in range(3):
        gang.run_program(rank, f"10.0.0.{rank}")
    await gang.world.caught_up()
    answer = await gang.ask()
    assert (answer.status_code, answer.json()["code"]) == (403, "NotStarting")


async def test_a_ticket_without_pods_is_refused_after_a_while(gang: Gang, impatient: None) -> None:
    """The mirror may be late, but only for a short time."""
    assert (await gang.ask()).status_code == 202
    gang.world.clock.now += UNSEEN_SECONDS
    assert (await gang.ask()).json()["code"] == "NotStarting"
    gang.start(0, "10.0.0.0")
    await gang.world.caught_up()
    assert (await gang.ask()).status_code == 202


async def test_no_ticket_is_refused_while_the_mirror_is_stale(
    gang: Gang, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its watch is broken, the server does not see new Pods."""
    monkeypatch.setattr(gang.world.mirror, "age_seconds", lambda: 2 * UNSEEN_SECONDS)
    assert (await gang.ask()).status_code == 202
    gang.world.clock.now += 2 * UNSEEN_SECONDS
    assert (await gang.ask()).status_code == 202
    monkeypatch.setattr(gang.world.mirror, "age_seconds", lambda: 0.0)
    assert (await gang.ask()).json()["code"] == "NotStarting"


async def test_a_ticket_does_not_count_for_a_later_run_of_the_same_name(gang: Gang, impatient: None) -> None:
    """A ticket is for a UID."""
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
async def test_a_caller_without_a_ticket_is_refused(gang: Gang, header: str) -> None:
    """Credentials of the cluster are no ticket."""
    answer = await gang.world.http.get(HOSTS, headers={"Authorization": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "Unauthenticated")
    assert "kaji1" not in answer.text


async def test_forged_tickets_cause_few_requests_to_the_api_server(gang: Gang) -> None:
    """An unknown signature may be that of a new key, so the Secret is read again, but not for every ticket."""
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


async def test_a_new_key_replaces_the_old_one(gang: Gang) -> None:
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


async def test_a_server_without_rights_is_reported_as_unavailable(gang: Gang) -> None:
    """The member is not at fault and tries again."""
    gang.world.kubernetes.unknown_tokens.add("server")
    answer = await gang.ask()
    assert (answer.status_code, answer.json()["code"]) == (503, "Unavailable")
    assert "refuses this server" in answer.json()["detail"]


async def test_a_stopping_server_answers_waiting_members(gang: Gang) -> None:
    gang.start(0, "10.0.0.0")
    await gang.world.caught_up()
    asking = asyncio.create_task(gang.ask())
    await asyncio.sleep(0.05)
    gang.world.api.break_off()
    assert (await asking).status_code == 503


async def test_the_number_of_remembered_answers_is_limited(gang: Gang, impatient: None) -> None:
    for number in range(KEPT_GANGS + 10):
        other = Gang(gang.world, name=f"run-{number}")
        await other.ask()
    assert len(gang.world.api.start.host_lists._gangs) == KEPT_GANGS


SSH = "/v1/members/ssh"


async def ask_for_keys(gang: Gang, rank: int) -> httpx2.Response:
    return await gang.world.http.get(SSH, params={"rank": rank}, headers=gang.headers())


async def test_all_members_of_an_attempt_get_the_same_keys(gang: Gang) -> None:
    """OpenSSH's format contains a random number, so only public keys are compared. Another attempt gets other keys."""
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


async def test_an_attempt_of_a_notebook_has_a_token_of_its_own(gang: Gang) -> None:
    """It can be fetched only while the member is in its first step."""
    tokens = []
    for attempt in (1, 2):
        each = Gang(gang.world, attempt=attempt)
        each.start(0)
        await gang.world.caught_up()
        found = await gang.world.http.get("/v1/members/notebook", params={"rank": 0}, headers=each.headers())
        tokens.append(found.json()["token"])
        each.run_program(0, "10.0.0.1")
        await gang.world.caught_up()
        late = await gang.world.http.get("/v1/members/notebook", params={"rank": 0}, headers=each.headers())
        assert (late.status_code, late.json()["code"]) == (403, "NotStarting")
    assert len({*tokens}) == 2 and all(len(token) == 64 for token in tokens)


async def test_only_starting_members_get_keys(gang: Gang) -> None:
    """A ticket from a Pod that runs its program is refused."""
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
    """The same gang, with code in the store."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)")
    store = CodeStore(await open_blobs((tmp_path / "blobs").as_uri()))
    gang.world.change("stores", code=store)
    packed = pack(folder)
    part = packed.part(0)
    sha256 = hashlib.sha256(part).hexdigest()
    await store.put_part("team", packed.digest, 0, sha256, compress(part))
    await store.complete("team", packed.digest, [sha256], packed.size_bytes)
    gang.ticket = replace(gang.ticket, code=packed.digest)
    return gang


async def ask_for_code(gang: Gang, rank: int) -> httpx2.Response:
    return await gang.world.http.get(CODE, params={"rank": rank}, headers=gang.headers())


async def test_a_member_of_a_sweep_gets_code_by_its_index(coded: Gang) -> None:
    """Its world size is 1, but its index is higher."""
    coded.start(7)
    coded.ticket = replace(coded.ticket, world_size=1)
    await coded.world.caught_up()
    assert (await ask_for_code(coded, 7)).status_code == 200


async def test_a_starting_member_gets_the_code_of_its_attempt(coded: Gang) -> None:
    """Members that run their program, unknown members, and tickets of other runs are refused."""
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
    assert (await ask_for_code(coded, 2)).status_code == 503  # the Pod is not shown yet: the member may ask again
    coded.ticket = replace(coded.ticket, run_uid="another")
    assert (await ask_for_code(coded, 0)).status_code == 403


async def test_the_api_server_is_not_asked_for_each_member_that_fetches_code(coded: Gang) -> None:
    """It is asked once for the key, however many members start together."""
    for rank in range(3):
        coded.start(rank)
    await coded.world.caught_up()
    coded.world.kubernetes.requests.clear()
    answers = await asyncio.gather(*(ask_for_code(coded, rank) for rank in range(3)))
    assert [(answer.status_code, answer.content) for answer in answers] == [(200, answers[0].content)] * 3
    assert coded.world.kubernetes.requests == [KEY_IS_READ]


async def test_missing_code_is_not_found(coded: Gang) -> None:
    coded.start(0)
    await coded.world.caught_up()
    coded.ticket = replace(coded.ticket, code="sha256:" + "0" * 64)
    assert (await ask_for_code(coded, 0)).status_code == 404
    coded.ticket = replace(coded.ticket, code="")
    assert (await ask_for_code(coded, 0)).status_code == 404
