"""The proxy for runs' programs: who gets through, and what callers get instead of a program."""

from __future__ import annotations

import base64

from tests.unit.api.fake_kubernetes import attempts, pod, run
from tests.unit.api.proxy.scene import Scene, ada
from tests.unit.api.test_openapi import assert_fits

from kajitori.api.app import openapi_document
from kajitori.core.pods.tickets import Ticket, derive
from kajitori.core.proxy.addresses import Target, host_label
from kajitori.history.audit import AuditFilter


async def test_callers_with_a_token_are_passed_on_at_the_path(scene: Scene) -> None:
    """Their token does not reach the program. Plain programs get paths without the prefix, notebooks with it."""
    headers = ada(Cookie="a=1")
    for name, path in (("plain", "/x/%2F?q=1"), ("nb", "/proxy/team/nb/8888/x/%2F?q=1")):
        answer = await scene.http.get(f"{scene.server.url}/proxy/team/{name}/8888/x/%2F?q=1", headers=headers)
        assert (answer.text, "authorization" in scene.program.asked[-1].headers) == (path, False)
        assert answer.headers.get_list("set-cookie") == [f"theme=dark; Path=/proxy/team/{name}/8888/"]
    away = await scene.http.get(f"{scene.server.url}/proxy/team/plain/8888/away", headers=headers)
    assert away.headers["location"] == "/proxy/team/plain/8888/elsewhere"
    slash = await scene.http.get(f"{scene.server.url}/proxy/team/plain/8888?q", headers=headers)
    assert slash.headers["location"] == "/proxy/team/plain/8888/?q"
    assert scene.program.opened == 2  # one for each run: connections are kept
    await scene.world.api.audit._flush()
    assert scene.world.api.stores.history is not None
    entries = [entry for _, entry in await scene.world.api.stores.history.audit(AuditFilter(), 10)]
    assert [(entry.action, entry.object) for entry in entries].count(("open program", "run plain port 8888")) == 1


async def test_who_may_not_connect_to_ports_gets_403(scene: Scene) -> None:
    scene.world.kubernetes.denied.add(("eve", "create", "pods/portforward", "team"))
    url = f"{scene.server.url}/proxy/team/nb/8888/"
    answer = await scene.http.get(url, headers={"Authorization": "Bearer eve"})
    assert (answer.status_code, "create pods/portforward" in answer.json()["detail"]) == (403, True)
    browser = scene.browser()
    await browser.sign_in(scene.world, "eve")
    page = await browser.follow(f"{browser.page}/proxy/team/nb/8888/lab")
    assert (page.status_code, "You may not open this" in page.text) == (403, True)
    assert (await scene.http.get(f"{scene.server.url}/proxy/team/none/8888/", headers=ada())).status_code == 404
    assert (await scene.http.get(f"{scene.server.url}/proxy/team/n/8888/", headers=ada())).status_code == 404
    assert (await scene.http.get(url)).status_code == 401
    assert not scene.program.asked


async def test_a_program_that_does_not_listen_yet_is_waited_for(scene: Scene) -> None:
    scene.program.port = 0
    world = scene.world
    refused = await scene.http.get(f"{scene.server.url}/proxy/team/nb/8888/", headers=ada(Accept="text/html"))
    found = (refused.status_code, "nothing listens on port 8888" in refused.text, "refresh" in refused.text)
    assert found == (502, True, True)
    world.kubernetes.put("runs", run("waits", phase="Queued"))
    world.kubernetes.put("runs", run("ended", phase="Succeeded"))
    await world.caught_up()
    answer = await scene.http.get(f"{scene.server.url}/proxy/team/waits/80/", headers=ada(Accept="text/html"))
    assert (answer.status_code, 'http-equiv="refresh"' in answer.text, "Queued" in answer.text) == (503, True, True)
    answer = await scene.http.get(f"{scene.server.url}/proxy/team/ended/80/", headers=ada(Accept="text/html"))
    assert (answer.status_code, "kaji resume ended" in answer.text, "refresh" in answer.text) == (409, True, False)


async def test_a_pod_that_was_just_deleted_may_come_again(scene: Scene) -> None:
    """JupyterLab takes 404 for a folder that is not there: it left the folder, and showed "Directory not found"."""
    scene.program.is_gone = True
    answer = await scene.http.get(f"{scene.server.url}/proxy/team/nb/8888/api/contents/work", headers=ada())
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "rank 0 of nb is gone, and may come again" in answer.json()["detail"]
    shown = await scene.http.get(f"{scene.server.url}/proxy/team/nb/8888/", headers=ada(Accept="text/html"))
    assert (shown.status_code, 'http-equiv="refresh"' in shown.text) == (503, True)


async def test_the_proxy_adds_a_notebooks_token(scene: Scene) -> None:
    """Only at the notebook's port of an attempt that has a token. The visitor's own credentials never pass."""
    world = scene.world
    key = {"key": base64.b64encode(b"k" * 32).decode()}
    world.kubernetes.put("secrets", {"metadata": {"name": "kajitori-tickets", "namespace": "kajitori"}, "data": key})
    await world.api.start.tickets._read()
    made = world.kubernetes.put("runs", run("lab", type="notebook") | {"status": attempts(2, phase="Running")})
    member = pod(made, attempt=2)
    member["metadata"].setdefault("annotations", {})["kajitori.dev/notebook-port"] = "8888"
    world.kubernetes.put("pods", member)
    await world.caught_up()
    ticket = Ticket("team", "lab", made["metadata"]["uid"], 2, 1)
    token = derive(ticket, b"k" * 32, "notebook").hex()
    for port, expected in ((8888, [f"token {token}"]), (8889, [])):
        await scene.http.get(f"{scene.server.url}/proxy/team/lab/{port}/", headers=ada())
        assert scene.program.asked[-1].headers.getall("Authorization", []) == expected
    browser = scene.browser()
    await browser.sign_in(world, "ada")
    await browser.follow(f"{browser.page}/proxy/team/lab/8888/lab")
    assert scene.program.asked[-1].headers["Authorization"] == f"token {token}"
    told = await scene.http.get(f"{scene.server.url}/v1/runs/team/lab/notebook", headers=ada())
    assert told.json() == {"port": 8888, "path": "/proxy/team/lab/8888", "token": token}
    assert told.headers["cache-control"] == "no-store"
    document, path = openapi_document(), "/v1/runs/{namespace}/{name}/notebook"
    described = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert_fits(document, described, told.json(), path)
    plain = await scene.http.get(f"{scene.server.url}/v1/runs/team/nb/notebook", headers=ada())
    assert plain.status_code == 409
    await world.api.audit._flush()
    assert world.api.stores.history is not None
    entries = [entry for _, entry in await world.api.stores.history.audit(AuditFilter(), 10)]
    assert ("read notebook token", "run lab") in [(entry.action, entry.object) for entry in entries]
    assert token not in repr(entries)
    world.kubernetes.denied.add(("eve", "create", "pods/portforward", "team"))
    refused = await scene.http.get(
        f"{scene.server.url}/v1/runs/team/lab/notebook", headers={"Authorization": "Bearer eve"}
    )
    assert refused.status_code == 403


async def test_the_hash_of_a_run_tells_only_its_readers_that_it_exists(scene: Scene) -> None:
    """Visitors without a session were sent to sign in for a run that exists, with its names in the address, and got
    404 for any other."""
    named = "a-run-with-a-name-that-does-not-fit-into-a-host-name-at-all"
    made = scene.world.kubernetes.put("runs", run(named) | {"status": attempts(1, phase="Running")})
    scene.world.kubernetes.put("pods", pod(made))
    await scene.world.caught_up()
    label = host_label(Target("team", named, 8888, 0))
    other = host_label(Target("team", f"{named}-2", 8888, 0))
    for wanted in (label, other):
        answer = await scene.browser().go(f"http://{wanted}.localhost:{scene.server.port}/")
        assert (answer.status_code, named in answer.headers["location"]) == (303, False)
    scene.world.kubernetes.denied.add(("eve", "get", "runs", "*"))
    for user, statuses in (("ada", (200, 404)), ("eve", (404, 404))):
        asked = [
            await scene.http.get(
                f"{scene.server.url}/x",
                headers={"Authorization": f"Bearer {user}", "host": f"{wanted}.localhost:{scene.server.port}"},
            )
            for wanted in (label, other)
        ]
        assert tuple(answer.status_code for answer in asked) == statuses, user
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    assert (await browser.follow(f"http://{label}.localhost:{scene.server.port}/x")).text.startswith("/x")
