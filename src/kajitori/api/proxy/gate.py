"""Entry of the proxy: recognises requests for programs, checks rights, and leads browsers to a program's origin.

A browser gives every page the rights of its origin. So a program's answers never reach a browser at the origin of
Kajitori's own page: their scripts could call the Web API with the rights of the person who looks at them. At that
origin only callers with a token in a header, which no browser sends by itself, are passed on. Browsers are led to the
program's own origin, where they get a session of its own (`api.programs.visits`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from urllib.parse import parse_qs, quote, urlencode

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kajitori.api.answers.problems import bug_response, problem_of
from kajitori.api.auth import entered
from kajitori.api.browsers.same_origin import is_same_origin
from kajitori.api.browsers.sessions import own_path
from kajitori.api.context import Api
from kajitori.api.lookup import find_run, no_such_run
from kajitori.api.programs.connections import TUNNEL, NotReached, PortOfPod
from kajitori.api.proxy.exchange import Exchange
from kajitori.api.proxy.notebooks import notebook_token
from kajitori.api.proxy.pages import error_answer
from kajitori.api.rendering.runs import phase_of
from kajitori.api.rights import User
from kajitori.api.runs.members.lists import newest_pods
from kajitori.api.web_page import page
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.cluster.runs.members import member_of
from kajitori.core.gang import MemberState
from kajitori.core.proxy import addresses
from kajitori.core.proxy.addresses import HashedRun, ProgramOrigins, Target
from kajitori.core.proxy.headers import Forwarding, is_navigation, wants_page
from kajitori.core.spec.reading.stored import read_stored
from kajitori.errors import Busy, Forbidden, KajitoriError, NotFound, Unauthenticated, Unavailable, WrongState
from kajitori.kube.resources import PODS

VISIT = "/sign-in/program"
"""Path of the server's page that hands a browser a code for a program's origin."""
OWN = "/.kaji/"
"""Beginning of the paths at a program's origin that its program does not get."""
_NO_STORE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_TITLES = {
    401: "You are not signed in",
    403: "You may not open this",
    404: "There is no such program",
    409: "The program does not run",
    429: "Too many connections",
    502: "The program does not answer",
    503: "The program does not answer yet",
}
NO_ORIGIN = (
    "this server has no origin for programs, so it shows their pages to no browser: their scripts could act with your "
    "session"
)
NO_ORIGIN_HINT = "use kaji port-forward, or ask the operators to start kaji server with --programs-url"


class Programs:
    """ASGI middleware that answers requests for programs, and passes all others on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_for_programs(scope, _api(scope).programs.origins):
            await self._app(scope, receive, send)
            return
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        request = _Request(scope, receive, noted)
        try:
            response = await request.answer()
        except KajitoriError as error:
            response = request.describe(error)
        except Exception as error:
            response = bug_response(error)
        if response is not None and not started:
            for cookie in scope.get("state", {}).get("cookies", ()) if request.is_at_page else ():
                response.raw_headers.append((b"set-cookie", cookie.encode("latin-1")))
            await response(scope, receive, send)


def is_for_programs(scope: Scope, origins: ProgramOrigins | None) -> bool:
    """Whether a request goes to a program, or belongs to a browser's sign-in for one."""
    path = str(scope["path"])
    if path.startswith(addresses.PREFIX) or path == VISIT:
        return True
    return origins is not None and origins.label_of(_host(scope)) is not None


class _Request:
    """One request for a program, or for a browser's sign-in at its origin."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._api = _api(scope)
        self._connection = HTTPConnection(scope)
        self._host = _host(scope)
        self._path = bytes(scope.get("raw_path") or quote(scope["path"]).encode()).partition(b"?")[0].decode("ascii")
        self._query = bytes(scope["query_string"])
        self._origins = self._api.programs.origins
        self._label = self._origins.label_of(self._host) if self._origins is not None else None
        self._may_come = False

    @property
    def is_at_page(self) -> bool:
        """Whether the request came to the origin of Kajitori's own page."""
        return self._label is None

    async def answer(self) -> Response | None:
        """Answer the request; return the answer unless it was already sent."""
        if self._label is None or self._origins is None:
            return await self._at_page()
        return await self._at_origin(self._origins)

    def describe(self, error: KajitoriError) -> Response:
        """Return the answer about an error."""
        title = _TITLES.get(problem_of(error).status, "This does not work")
        return error_answer(error, for_person=self._for_person, title=title, again=self._may_come)

    # ------------------------------------------------------------------------------------ at the page's origin

    async def _at_page(self) -> Response | None:
        """Answer a request at the origin of Kajitori's own page: pass it on for a caller with a token, lead a browser
        to the program's origin, or let the person sign in."""
        if self._path == VISIT:
            return await self._hand_over()
        named = addresses.read_path(self._path)
        if named is None:
            hint = "write /proxy/NAMESPACE/RUN/PORT/, or PORT-RANK for another member than rank 0"
            raise NotFound("this is no address of a program", hint=hint)
        target, rest = named
        if not rest:
            return self._redirect(f"{target.path}/{self._query_text}")
        authorization = self._connection.headers.get("authorization")
        if authorization is not None:
            async with self._entered(authorization) as user:
                await self._pass(user, target, rest, is_own_origin=False)
            return None
        if not await self._is_signed_in():
            return await self._sign_in()
        async with self._entered(await self._page_session()) as user:
            run = await self._run(user, target)
            origins = self._origins
            if origins is None:
                raise Forbidden(NO_ORIGIN, hint=NO_ORIGIN_HINT)
            to = rest if origins.is_own and not _has_whole_path(run) else self._path
            begin = {"to": f"{to}{self._query_text}"} | ({"page": self._host} if origins.is_local else {})
            return self._redirect(f"{self._origin_of(target)}{OWN}begin?{urlencode(begin)}")

    async def _hand_over(self) -> Response:
        """Send a browser that is signed in back to a program's origin, with a code for the session there."""
        query = parse_qs(self._query.decode("ascii", "replace"))
        text, state = query.get("target", [""])[0], query.get("state", [""])[0]
        named = addresses.read_target(text) or addresses.read_label(text)
        if named is None or not state or self._origins is None:
            raise NotFound("this is no address of a program", hint="open the run's address again")
        if not await self._is_signed_in():
            return await self._sign_in()
        authorization = await self._page_session()
        async with self._entered(authorization) as user:
            target = await self._resolved(user, named)
            await self._run(user, target)
        origin = self._origin_of(target)
        code = self._api.programs.visits.code(authorization, origin, state)
        return self._redirect(f"{origin}{OWN}enter?{urlencode({'code': code})}")

    async def _is_signed_in(self) -> bool:
        try:
            return await self._api.callers.browsers.enter(self._connection, from_anywhere=True) is not None
        except Unauthenticated:
            return False

    async def _page_session(self) -> str:
        """Return the Authorization header that stands for the browser's session.

        A link in another site's page may lead here, but its scripts and frames may not.
        """
        headers: Sequence[tuple[bytes, bytes]] = self._scope["headers"]
        method = self._scope["method"]
        is_typed = "sec-fetch-site" not in self._connection.headers and method in ("GET", "HEAD")
        if not is_navigation(headers, method) and not (is_typed and self._connection.headers.get("origin") is None):
            message = "with the session of a browser, pages of programs are opened in a tab of their own"
            raise Forbidden(message, hint="scripts send a token instead of a cookie")
        session = await self._api.callers.browsers.enter(self._connection, from_anywhere=True)
        if session is None:
            raise Unauthenticated("you are not signed in", hint="kaji open")
        self._connection.state.cookies = session.cookies
        return session.authorization

    async def _sign_in(self) -> Response:
        """Answer with Kajitori's page, which signs people in and then loads this address again."""
        if self._for_person:
            return await page(self._connection)
        hint = "send `Authorization: Bearer …` with your Kubernetes token"
        raise Unauthenticated("the request carries no credentials", hint=hint)

    # -------------------------------------------------------------------------------- at the origin of programs

    async def _at_origin(self, origins: ProgramOrigins) -> Response | None:
        """Answer a request at the origin of programs: pass it on for a caller with a session there, or fetch one from
        the server's page."""
        origin = f"{self._scheme}://{self._host}"
        if self._path == f"{OWN}enter":
            code = parse_qs(self._query.decode("ascii", "replace")).get("code", [""])[0]
            to, cookies = await self._api.programs.visits.enter(self._connection, origin, code)
            return self._redirect(own_path(to), cookies)
        to, page_host = f"{self._path}{self._query_text}", ""
        if self._path == f"{OWN}begin":
            query = parse_qs(self._query.decode("ascii", "replace"))
            to, page_host = own_path(query.get("to", ["/"])[0]), query.get("page", [""])[0]
        elif self._path.startswith(OWN):
            raise NotFound("this is no address of a program", hint="open the run's address again")
        named, rest = self._named_at(origins, to.partition("?")[0])
        authorization = self._api.programs.visits.authorization(self._connection, origin)
        if authorization is None:
            authorization = self._connection.headers.get("authorization")
        elif not self._is_own_request:
            raise Forbidden("a page of another site sent this request with your session")
        if authorization is None:
            return self._begin(origin, named, to, page_host)
        if self._path == f"{OWN}begin":
            return self._redirect(to)
        try:
            async with self._entered(authorization) as user:
                target = await self._resolved(user, named)
                await self._pass(user, target, rest, is_own_origin=origins.is_own)
        except Unauthenticated:
            if not self._for_person:
                raise
            return self._begin(origin, named, to, page_host)
        return None

    def _named_at(self, origins: ProgramOrigins, path: str) -> tuple[Target | HashedRun, str]:
        """Return what a path at an origin names, and the path that its program gets if it has its own origin."""
        if not origins.is_own:
            target_and_path = addresses.read_path(path)
            if target_and_path is None or not target_and_path[1]:
                raise NotFound("this is no address of a program", hint="write /proxy/NAMESPACE/RUN/PORT/")
            return target_and_path
        named = addresses.read_label(self._label or "")
        if named is None:
            raise _no_program()
        return named, path

    async def _resolved(self, user: User, named: Target | HashedRun) -> Target:
        """Return the target. Raises NotFound for the hash of a run that does not exist or that the user may not see:
        hashes can be made of guessed names."""
        if isinstance(named, Target):
            return named
        target = addresses.find_hashed(named, self._api.mirror.runs)
        if target is None or not await user.may("get", target.namespace, target.run):
            raise _no_program()
        return target

    def _begin(self, origin: str, named: Target | HashedRun, to: str, page_host: str) -> Response:
        """Send a browser without a session to the server's page, to fetch a code."""
        if not self._for_person:
            message = "your session at this origin has ended"
            raise Unauthenticated(message, hint="load the page again")
        state, cookie = self._api.programs.visits.begin(origin, to)
        text = named.path.removeprefix(addresses.PREFIX) if isinstance(named, Target) else self._label or ""
        query = urlencode({"target": text, "state": state})
        return self._redirect(f"{self._page_url(page_host)}{VISIT}?{query}", [cookie])

    def _page_url(self, named: str) -> str:
        """Return the address of Kajitori's page. For names below localhost, that is the browser's own address for it,
        if it is a loopback address at the same port."""
        url = self._api.programs.page_url
        if url:
            return url.rstrip("/")
        _, port = addresses.split_host(self._host)
        name, named_port = addresses.split_host(named)
        if named_port != port or name not in ("localhost", "127.0.0.1", "::1"):
            name = "127.0.0.1"
        host = f"[{name}]" if ":" in name else name
        return f"{self._scheme}://{host}" + (f":{port}" if port is not None else "")

    @property
    def _is_own_request(self) -> bool:
        """Whether the program's own pages sent the request, or a person followed a link."""
        headers, method = self._connection.headers, self._scope["method"]
        if is_navigation(self._scope["headers"], method) and self._tunnel is None:
            return True
        return is_same_origin(headers, method, host=self._host, is_websocket=self._tunnel is not None)

    # ------------------------------------------------------------------------------------------ the program

    async def _pass(self, user: User, target: Target, rest: str, *, is_own_origin: bool) -> None:
        """Pass the request to its program. Raises KajitoriError if nothing was answered."""
        run = await self._run(user, target)
        if not is_own_origin and self._label is not None and run.owner != user.name:
            message = f"{target.run} is not your run, and programs share this server's origin for them"
            raise Forbidden(message, hint="use kaji port-forward")
        pod = self._pod(run, target)
        if self._api.programs.is_new_visit(user.name, run.metadata.uid, target.segment):
            about = f"run {run.metadata.name} port {target.segment}"
            namespace = pod.metadata.namespace
            self._api.audit.note(self._scope, user.name, "open program", namespace=namespace, object=about)
        exchange = self._exchange(user, run, pod, target, rest, is_own_origin=is_own_origin)
        revoked: asyncio.Future[KajitoriError] = asyncio.get_running_loop().create_future()

        def end(error: KajitoriError) -> None:
            if not revoked.done():
                revoked.set_result(error)

        with self._api.callers.sessions.streaming(self._connection.state.session, user, end):
            try:
                await exchange.carry(self._api.programs.connections, revoked)
            except Busy:
                raise
            except Unavailable as error:
                if exchange.began:
                    return
                self._may_come = True
                raise NotReached(error.message, hint=error.hint) from error
            except NotFound as error:  # the Pod was deleted, and this server has not heard of it yet
                self._may_come = True
                name = run.metadata.name
                message = f"rank {target.rank} of {name} is gone, and may come again"
                raise Unavailable(message, hint=f"kaji describe {name}") from error
        if revoked.done() and not exchange.began:
            raise revoked.result()

    def _exchange(
        self, user: User, run: RunObject, pod: Pod, target: Target, rest: str, *, is_own_origin: bool
    ) -> Exchange:
        """Return the exchange of this request and its answer with the program. `rest` is the path behind the target."""
        meta, has_whole_path = pod.metadata, is_own_origin or _has_whole_path(run)
        forwarding = Forwarding(
            scheme=self._scheme,
            host=self._host,
            address=self._scope["client"][0] if self._scope.get("client") else "",
            prefix="" if has_whole_path else target.path,
            cookie_path="/" if is_own_origin else target.path,
            authorization=self._authorization(run, pod, target),
        )
        path = self._path if has_whole_path else rest
        return Exchange(
            self._scope,
            self._receive,
            self._send,
            target=path.encode("ascii") + self._query_text.encode("ascii"),
            forwarding=forwarding,
            place=PortOfPod(user.name, meta.namespace, run.metadata.uid, meta.name, meta.uid, target.port),
            open_stream=lambda: self._api.programs.open_port(user.client, meta.namespace, meta.name, target.port),
        )

    def _authorization(self, run: RunObject, pod: Pod, target: Target) -> str:
        """Return the `Authorization` header by which a notebook recognises this proxy; empty for other programs."""
        token = notebook_token(self._api, run, pod, target.port)
        return f"token {token}" if token else ""

    async def _run(self, user: User, target: Target) -> RunObject:
        """Return the run of a target. Raises NotFound, and Forbidden if the user may not connect to its ports."""
        run = await find_run(self._api, user, target.namespace, target.run)
        if run.metadata.name != target.run:
            raise no_such_run(self._api, target.namespace, target.run)
        await user.require("create", target.namespace, resource=PODS, subresource="portforward")
        return run

    def _pod(self, run: RunObject, target: Target) -> Pod:
        """Return the Pod of a member that is running. Raises WrongState if the run has ended, Unavailable if the member
        may still come."""
        name, phase = run.metadata.name, phase_of(run)
        if phase.is_final:
            hint = f"start it again: kaji resume {name}"
            raise WrongState(f"{name} has ended: {phase.value}", hint=hint)
        pod = newest_pods(self._api.mirror.pods_of_run(run)).get(target.rank)
        member = member_of(pod, self._api.mirror.nodes) if pod is not None else None
        if pod is not None and member is not None and member.state is MemberState.RUNNING:
            return pod
        self._may_come = True
        message = run.status.message if run.status is not None else ""
        why = f"{phase.value}: {message}" if message else phase.value
        raise Unavailable(f"rank {target.rank} of {name} does not run yet ({why})", hint=f"kaji explain {name}")

    # ------------------------------------------------------------------------------------------ the request

    def _entered(self, authorization: str) -> AbstractAsyncContextManager[User]:
        return entered(self._connection, authorization)

    @property
    def _tunnel(self) -> object:
        return self._scope.get("extensions", {}).get(TUNNEL)

    @property
    def _for_person(self) -> bool:
        return self._tunnel is None and wants_page(self._scope["headers"], self._scope["method"])

    @property
    def _query_text(self) -> str:
        return f"?{self._query.decode('ascii', 'replace')}" if self._query else ""

    @property
    def _scheme(self) -> str:
        """The scheme as the browser sees it: TLS may end before this server."""
        if self._label is not None and self._origins is not None:
            return self._origins.scheme
        return str(self._scope["scheme"])

    def _origin_of(self, target: Target) -> str:
        assert self._origins is not None  # callers have checked it
        return self._origins.origin_of(target, addresses.split_host(self._host)[1])

    def _redirect(self, to: str, cookies: Sequence[str] = ()) -> Response:
        response = RedirectResponse(to, 303, _NO_STORE)
        for cookie in cookies:
            response.raw_headers.append((b"set-cookie", cookie.encode("latin-1")))
        return response


def _no_program() -> NotFound:
    return NotFound("this is no address of a program", hint="open the run's address again: kaji open RUN PORT")


def _has_whole_path(run: RunObject) -> bool:
    """Whether the run's program was told its path, and expects it in requests."""
    return read_stored(run.spec).is_notebook


def _host(scope: Scope) -> str:
    return Headers(scope=scope).get("host", "").lower()


def _api(scope: Scope) -> Api:
    api: Api = scope["app"].state.kajitori
    return api
