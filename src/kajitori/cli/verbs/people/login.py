"""`kaji login`: sign in at a server."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import complete_file, connection_options

if TYPE_CHECKING:
    from kajitori.client.sign_in.starting import SignInPlace
    from kajitori.configuration.contexts import SignedIn
    from kajitori.openid.flows import Device
    from kajitori.openid.tokens import Tokens


@click.command(
    epilog="\b\nExamples:\n  kaji login https://kaji.example.org\n  kaji login kaji.example.org --device\n"
    "  kaji login kaji.example.org --token-stdin <token"
)
@click.argument("url", required=False)
@click.option("--device", is_flag=True, help="Show a code to enter in any browser; the default over SSH.")
@click.option("--no-browser", is_flag=True, help="Print the address instead of opening a browser.")
@click.option("--token-stdin", is_flag=True, help="For robots: read a token from stdin.")
@click.option("--name", metavar="NAME", help="Name of the context; default: the server's host.")
@click.option(
    "--ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    shell_complete=complete_file,
    help="Authority of the server's certificate (PEM); default: this machine's.",
)
@click.option("-N", "--namespace", metavar="NAME", help="Namespace of runs that name none; default: the server's own.")
@connection_options
@click.pass_obj
def command(
    cli: Cli,
    url: str | None,
    device: bool,
    no_browser: bool,
    token_stdin: bool,
    name: str | None,
    ca: Path | None,
    namespace: str | None,
) -> None:
    """Sign in at a server.

    A browser opens the page of your organisation; without one, you enter a code in any browser. From then on commands
    use this server (`kaji context`), and renew the sign-in by themselves. Tokens are kept in a file that only you can
    read. Without URL: sign in again where you were last.
    """
    if device + no_browser + token_stdin > 1:
        raise click.UsageError("--device, --no-browser and --token-stdin are different ways: choose one")
    from kajitori.cli.terminal import say
    from kajitori.client.sign_in.starting import context_name, server_url, signed_in_at, with_given_token
    from kajitori.client.target import Target, choose, sign_in_file
    from kajitori.configuration import contexts

    known = _sign_in_to_repeat(cli, name) if url is None else None
    server = known.server if known else server_url(url or "", insecure=cli.insecure_http)
    authorities = _read_authorities(cli, ca) or (known.ca if known else "")
    cli.target = Target(server, "", authorities=authorities)
    if token_stdin:
        with cli.api() as api:
            where = str(api.get("/v1/sign-in").get("namespace") or "")
        context = with_given_token(server, authorities, where, _token())
    else:
        place = _sign_in_place(cli)
        tokens = _sign_in(cli, place, device=device, no_browser=no_browser)
        context = signed_in_at(server, authorities, place, tokens)
    context = replace(context, namespace=namespace or (known.namespace if known else "") or context.namespace)
    cli.target = Target(server, context.token, context.namespace, authorities=authorities)
    who = _identity(cli)
    only = _only_namespace(who)
    takes_only = namespace is None and only not in ("", context.namespace)
    context = replace(context, namespace=only) if takes_only else context
    file = sign_in_file(name or context_name(server), cli.runtime_dir)
    contexts.write(file, replace(context, user=str(who["user"])))
    choose(file.stem, cli.runtime_dir)
    say(f"Signed in at {server} as {who['user']}. Commands use it from now on: context {file.stem}.")
    if takes_only:
        say(f"Runs that name no namespace go to {only}, the only one in which you have a role.")
    for line in _next_steps(cli, who, context):
        say(line)


def _sign_in_to_repeat(cli: Cli, name: str | None) -> SignedIn:
    """Return the sign-in to repeat."""
    from kajitori.client.target import chosen_sign_in, sign_in_file
    from kajitori.configuration import contexts

    file = sign_in_file(name, cli.runtime_dir) if name else chosen_sign_in(cli.runtime_dir)
    if file is None or not file.exists():
        raise click.UsageError("name the server: kaji login https://kaji.example.org")
    return contexts.read(file)


def _read_authorities(cli: Cli, ca: Path | None) -> str:
    from kajitori.errors import InvalidInput

    given = ca or (Path(cli.environment["KAJI_CA"]).expanduser() if cli.environment.get("KAJI_CA") else None)
    if given is None:
        return ""
    try:
        return given.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.one("--ca", f"{given} can't be read: {error}", value=str(given)) from error


def _sign_in_place(cli: Cli) -> SignInPlace:
    """Return the place at which people of this server sign in."""
    from kajitori.client.sign_in.starting import place_of

    with cli.api() as api:
        return place_of(api.get("/v1/sign-in"))


def _sign_in(cli: Cli, place: SignInPlace, *, device: bool, no_browser: bool) -> Tokens:
    """Sign in at the provider, in the way that fits this terminal."""
    from kajitori.client.sign_in.asking import Asker
    from kajitori.client.sign_in.starting import by_browser, by_device, has_browser
    from kajitori.openid.flows import Client

    ask = Asker(place.ca, cli.environment)
    client = Client(ask.provider(place.issuer), place.client_id, place.scopes)
    opens = not no_browser and has_browser(cli.environment)
    if device or (not opens and not no_browser and client.provider.device_endpoint):
        return by_device(ask, client, _show_device)
    return by_browser(ask, client, lambda url: _show_address(url, opens=opens))


def _show_address(url: str, *, opens: bool) -> None:
    from kajitori.cli.terminal import say

    if opens:
        import webbrowser

        say("Your browser opens to sign you in. If it does not, open this address on this machine:")
        say(f"  {url}")
        webbrowser.open(url)
    else:
        say("Open this address in a browser on this machine:")
        say(f"  {url}")


def _show_device(device: Device) -> None:
    from kajitori.cli.terminal import say

    say(f"Open {device.address} in any browser and enter the code {device.user_code}")
    if device.complete_address:
        say(f"  or open {device.complete_address}")
    say(f"Waiting; the code is valid for {device.lasts_seconds / 60:.0f} minutes.")


def _token() -> str:
    from kajitori.errors import InvalidInput

    token = sys.stdin.readline().strip()
    if not token:
        raise InvalidInput.one("--token-stdin", "stdin holds no token", hint="kaji login URL --token-stdin <FILE")
    return token


def _identity(cli: Cli) -> dict[str, Any]:
    """Return the caller as the API server knows them. Raises Unauthenticated if it does not accept the token."""
    from kajitori.client.roles import who_am_i
    from kajitori.errors import Unauthenticated

    try:
        with cli.api() as api:
            return who_am_i(api)
    except Unauthenticated as error:
        hint = "ask its operators: its API server must accept this provider (--authentication-config)"
        raise Unauthenticated("you signed in, but the cluster does not accept the token", hint=hint) from error


def _only_namespace(who: dict[str, Any]) -> str:
    """Return the namespace of a person with a role in one alone; empty for others."""
    allowed = [namespace["namespace"] for namespace in who["namespaces"]]
    return allowed[0] if len(allowed) == 1 and not who["operator"] else ""


def _next_steps(cli: Cli, who: dict[str, Any], context: SignedIn) -> list[str]:
    """Return hints about the next steps."""
    from kajitori.client.roles import missing_role

    notes = [
        f"note: ${name} is set, and counts before this sign-in"
        for name in ("KAJI_SERVER", "KAJI_CONTEXT")
        if cli.environment.get(name)
    ]
    allowed = [namespace["namespace"] for namespace in who["namespaces"]]
    if missing := missing_role(who):
        notes.append(f"note: {missing}")
    elif context.namespace not in allowed and allowed:
        notes.append(f"note: you have no role in namespace {context.namespace}; yours: {', '.join(allowed)}")
        notes.append(f"      to use another: kaji login {context.server} -N {allowed[0]}")
    if context.issuer and not context.refresh_token:
        notes.append(
            "note: the provider gave no refresh token, so you will have to sign in again when this one expires"
        )
    return notes
