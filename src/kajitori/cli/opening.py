"""Opening a place of the web page, or a program of a run, in the user's browser."""

from __future__ import annotations

from urllib.parse import quote

from kajitori.cli.context import Cli
from kajitori.cli.terminal import echo, say
from kajitori.cli.words.runs import require_member
from kajitori.client.views import View, is_final, phase_of
from kajitori.client.web_api import Api
from kajitori.core.proxy.addresses import Target
from kajitori.errors import InvalidInput, WrongState


def open_place(cli: Cli, api: Api, place: str, *, print_only: bool, is_program: bool = False) -> None:
    """Open a path of the server in the browser, or print the link if there is no browser here.

    The link signs the browser in as the user. It works once, and for two minutes. A program's path is named after the
    code: it is opened once the page has used the code.
    """
    from kajitori.client.sign_in.starting import has_browser

    code = api.post("/v1/sign-in-links")["code"]
    link = f"{api.target.url}{place}#sign-in={code}"
    if is_program:
        link = f"{api.target.url}/#sign-in={code}&to={quote(place)}"
    if not print_only and has_browser(cli.environment):
        say(f"{api.target.url}{place} opens in your browser. If it does not: kaji open --print")
    open_address(cli, link, print_only=print_only)


def open_address(cli: Cli, address: str, *, print_only: bool) -> None:
    """Open an address in the browser, or print it if there is no browser here."""
    from kajitori.client.sign_in.starting import has_browser

    if print_only or not has_browser(cli.environment):
        echo(address)
        return
    import webbrowser

    webbrowser.open(address)


def program_path(view: View, port: str | None) -> str:
    """Return the path of a program of a run: at this port, else at the first that the run names.

    `port` may be PORT-RANK for another member than rank 0. Raises InvalidInput and WrongState.
    """
    namespace, name = str(view["namespace"]), str(view["name"])
    if port is not None:
        number, _, rank = port.partition("-")
        digits = number + (rank or "0")
        if not (digits.isascii() and digits.isdigit() and 0 < int(number) < 65_536):
            hint = "write PORT, such as 8888, or PORT-RANK for another member than rank 0"
            raise InvalidInput.one("PORT", f"{port!r:.40} is no port", value=port, hint=hint)
        require_member(view, int(rank or 0), "PORT")
        if is_final(view):
            hint = f"start it again: kaji resume {name}"
            raise WrongState(f"{name} is {phase_of(view)}: nothing listens there", hint=hint)
        return f"{Target(namespace, name, int(number), int(rank or 0)).path}/"
    programs: list[str] = view.get("programs") or []
    if programs:
        return programs[0]
    ports: list[int] = (view.get("spec") or {}).get("ports") or []
    if ports:
        return f"{Target(namespace, name, ports[0]).path}/"
    raise WrongState(f"{name} names no port that it serves", hint=f"name it: kaji open {name} 8888")
