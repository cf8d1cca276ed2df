"""How browsers come to a program's own origin, and what keeps other sites out of it."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.api.proxy.scene import FROM_LINK, Scene, dial
from websockets.exceptions import InvalidStatus

from kajitori.core.proxy.addresses import parse_origins


async def test_a_browser_comes_to_the_programs_own_origin(scene: Scene) -> None:
    """From a link in a chat, through the page's session, to a session of the program's origin."""
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    answer = await browser.follow(f"{browser.page}/proxy/team/nb/8888/lab?reset", headers=FROM_LINK)
    assert (answer.status_code, answer.text) == (200, "/proxy/team/nb/8888/lab?reset")
    assert set(browser.jars["8888--nb--team.localhost"]) == {"__Host-kaji-visit-0", "theme"}
    again = await browser.go(f"{browser.origin}/api", headers={"sec-fetch-site": "same-origin"})
    assert again.text == "/api"
    headers = scene.program.asked[-1].headers
    assert (headers["Cookie"], headers["X-Forwarded-Host"]) == ("theme=dark", urlsplit(browser.origin).netloc)
    assert "strict-transport-security" not in again.headers
    assert (await browser.follow(f"{browser.page}/proxy/team/plain/8888/x")).text == "/x"


async def test_programs_never_answer_browsers_at_the_pages_origin(scene: Scene) -> None:
    """Their scripts would have the rights of the page."""
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    for headers in (
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"},
        {"origin": "http://evil.example.org"},
    ):
        answer = await browser.go(f"{browser.page}/proxy/team/nb/8888/x", headers=headers)
        assert answer.status_code == 403, headers
    assert (await browser.go(f"{browser.page}/proxy/team/nb/8888/x", "POST")).status_code == 403
    scene.world.change("programs", origins=None)
    answer = await browser.go(f"{browser.page}/proxy/team/nb/8888/x")
    assert (answer.status_code, "kaji port-forward" in answer.text) == (403, True)
    assert not scene.program.asked


async def test_pages_of_programs_cannot_use_the_session_of_the_page(scene: Scene) -> None:
    """Browsers send cookies of a host to all of its ports, so the Origin header decides."""
    browser = scene.browser()
    await browser.sign_in(scene.world, "bob")
    for headers in ({"origin": browser.origin}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}):
        answer = await browser.go(f"{browser.page}/v1/runs", headers=headers)
        assert answer.status_code == 403, headers


async def test_other_sites_cannot_use_the_session_at_a_program(scene: Scene) -> None:
    browser = scene.browser()
    await browser.sign_in(scene.world, "ada")
    await browser.follow(f"{browser.page}/proxy/team/nb/8888/lab")
    count = len(scene.program.asked)
    sibling = f"http://8888--evil--team.localhost:{browser.port}"
    for method, headers in (
        ("POST", {"origin": sibling, "sec-fetch-site": "same-site"}),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}),
        ("POST", {**FROM_LINK, "origin": "null"}),
    ):
        assert (await browser.go(f"{browser.origin}/x", method, headers)).status_code == 403, headers
    cookie = "; ".join(f"{k}={v}" for k, v in browser.jars[urlsplit(browser.origin).hostname or ""].items())
    with pytest.raises(InvalidStatus) as refused:
        await dial(scene, browser.origin, {"Cookie": cookie, "Origin": sibling})
    assert refused.value.response.status_code == 403
    assert len(scene.program.asked) == count
    async with await dial(scene, browser.origin, {"Cookie": cookie, "Origin": browser.origin}) as socket:
        await socket.send(b"mine")
        assert await socket.recv() == b"mine"


async def test_a_code_works_once_in_one_browser_at_one_origin(scene: Scene) -> None:
    """Otherwise an attacker could make other people work in the session of the attacker."""
    browser, other = scene.browser(), scene.browser()
    await browser.sign_in(scene.world, "ada")
    begin = (await browser.go(f"{browser.page}/proxy/team/nb/8888/lab")).headers["location"]
    visit = (await browser.go(begin)).headers["location"]
    enter = (await browser.go(visit)).headers["location"]
    assert urlsplit(enter).path == "/.kaji/enter"
    code = parse_qs(urlsplit(enter).query)["code"][0]
    assert (await other.go(enter)).status_code == 401  # began nothing
    elsewhere = f"http://8888--plain--team.localhost:{browser.port}/.kaji/enter?code={code}"
    assert (await browser.go(elsewhere)).status_code == 401
    assert (await browser.go(enter)).status_code == 303
    assert (await browser.go(enter)).status_code == 401  # a second time
    assert (await browser.go(f"{browser.origin}/.kaji/else")).status_code == 404


async def test_browsers_without_a_session_are_asked_to_sign_in(scene: Scene) -> None:
    browser = scene.browser()
    answer = await browser.go(f"{browser.page}/proxy/team/nb/8888/lab")
    assert "text/html" in answer.headers["content-type"]
    assert "default-src 'none'" in answer.headers.get("content-security-policy", "default-src 'none'")
    at_origin = await browser.go(f"{browser.origin}/lab")
    assert urlsplit(at_origin.headers["location"]).path == "/sign-in/program"
    script = await browser.go(f"{browser.origin}/lab", headers={"sec-fetch-site": "same-origin"})
    assert script.status_code == 401
    assert not scene.program.asked


async def test_programs_that_share_an_origin_are_shown_to_their_owners_only(scene: Scene) -> None:
    scene.world.change("programs", origins=parse_origins("http://programs.localhost"))
    for user, status in (("ada", 200), ("bob", 403)):
        browser = scene.browser()
        await browser.sign_in(scene.world, user)
        answer = await browser.follow(f"{browser.page}/proxy/team/plain/8888/x")
        assert answer.status_code == status
        if user == "ada":
            assert answer.text == "/x"
            assert answer.headers.get_list("set-cookie") == ["theme=dark; Path=/proxy/team/plain/8888/"]
