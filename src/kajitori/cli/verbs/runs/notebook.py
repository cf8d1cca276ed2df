"""`kaji notebook`: JupyterLab in a run, opened in the browser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kajitori.cli.context import Cli
from kajitori.cli.options import (
    complete_image,
    complete_template,
    env_option,
    namespace_option,
    server_options,
    volume_option,
)

if TYPE_CHECKING:
    from kajitori.client.submit.request import RunRequest
    from kajitori.client.web_api import Api

POLL_SECONDS = 1.0
_SILENT = "its program does not answer yet; what it prints: kaji logs {}"
_TRIES = re.compile(r"; (?:\d+ starts failed, )?tried again in \d+ s$")
"""End of the message about a failed start, which is another one each time."""
_MAX_NAME = 48


@click.command(
    epilog="\b\nExamples:\n  kaji notebook\n  kaji notebook --gpus h100:1 --time-limit 8h\n"
    "  kaji notebook vision --image quay.io/jupyter/pytorch-notebook:cuda12-latest --gpus 2\n"
    "  kaji stop vision         # its files are kept; kaji notebook vision goes on\n"
    "  kaji notebook --print    # for a browser elsewhere",
)
@click.argument("name", required=False)
@click.option(
    "--image", metavar="IMAGE", shell_complete=complete_image, help="Image with JupyterLab; default: the policy's."
)
@click.option("--gpus", metavar="N|TYPE:N", help="GPUs, such as 2 or h100:2.")
@click.option("--gpu-type", metavar="TYPE", help="GPU type, such as h100; see kaji gpus.")
@click.option("--cpus", metavar="N", help="Cores, such as 8.")
@click.option("-m", "--memory", metavar="SIZE", help="Memory limit, such as 64g.")
@click.option("--shm-size", metavar="SIZE", help="Size of /dev/shm, taken from memory.")
@env_option
@volume_option
@click.option("--checkpoint", metavar="PATH[:SIZE]", help="Path of the notebook's folder; default: the policy's.")
@click.option("--time-limit", metavar="TIME", help="The notebook ends after this time, such as 8h; its files are kept.")
@click.option("--priority", metavar="high|normal|low", help="Runs of higher priority start first.")
@click.option(
    "--template", metavar="NAME", shell_complete=complete_template, help="Begin with a template of the policy."
)
@click.option("--print", "print_only", is_flag=True, help="Print the link, and open no browser.")
@namespace_option("Namespace of the run.")
@server_options
@click.pass_obj
def command(cli: Cli, /, name: str | None, print_only: bool, namespace: str | None, **words: Any) -> None:
    """Open your notebook, and start it if it does not run.

    NAME is by default notebook- with your name. Its files are kept when it ends, or loses its node.
    """
    from kajitori.cli.opening import open_place, program_path
    from kajitori.cli.terminal import say
    from kajitori.client.views import is_final, phase_of
    from kajitori.client.web_api import run_path

    with cli.api() as api:
        name = name or default_name(str(api.get("/v1/whoami")["user"]))
        view = _existing(cli, api, name, namespace)
        if view is None:
            view = _start(cli, api, name, namespace, words)
        elif is_final(view):
            _refuse_other_options(cli, api, view, words, "has ended")
            failure = str((view.get("status") or {}).get("message") or "") if phase_of(view) == "Failed" else ""
            say(f"{name} has ended{f' (Failed: {failure})' if failure else ''}, and is started again")
            view = api.post(run_path(view, "/resume"), uid=view["uid"])
        else:
            _refuse_other_options(cli, api, view, words, f"is {phase_of(view)}")
        view = _wait(cli, api, view)
        open_place(cli, api, program_path(view, None), print_only=print_only, is_program=True)


def default_name(user: str) -> str:
    """Return the name of a user's notebook that has no other name."""
    own = re.sub(r"[^a-z0-9]+", "-", user.lower().rpartition(":")[2].partition("@")[0]).strip("-")
    return f"notebook-{own}"[:_MAX_NAME].rstrip("-")


def _existing(cli: Cli, api: Api, name: str, namespace: str | None) -> dict[str, Any] | None:
    """Return the notebook of this very name; None if there is none. One that is being stopped or deleted has ended
    first. Raises WrongState if the run of this name is no notebook."""
    from kajitori.cli.terminal import say
    from kajitori.client.views import is_final
    from kajitori.errors import WrongState

    home, told = namespace or api.target.namespace, False
    query = {"name": name, "namespace": home or None, "limit": 20}
    while True:
        found: dict[str, Any] | None = next(
            (run for run in api.get("/v1/runs", query)["items"] if run["name"] == name), None
        )
        if found is None:
            return None
        spec = found["spec"]
        if spec.get("type") != "notebook":
            raise WrongState(f"{name} is a run, but no notebook", hint="choose another name: kaji notebook NAME")
        is_stopping = (spec.get("stopped") or spec.get("parked") or _is_resumed(found)) and not is_final(found)
        if not (found.get("deleting") or is_stopping):
            return found
        if not told:
            say(f"{name} is still ending, and is started again after that")
            told = True
        cli.sleep(POLL_SECONDS)


def _refuse_other_options(cli: Cli, api: Api, view: Mapping[str, Any], words: Mapping[str, Any], state: str) -> None:
    """Raise WrongState if options ask for something that this notebook does not have: they could not take effect."""
    from kajitori.client.submit.comparison import differences
    from kajitori.errors import WrongState

    if not any(words.values()):
        return
    name, spec = str(view["name"]), view["spec"]
    others = differences(_request(cli, api, name, None, words, image=spec.get("image")), spec)
    if others:
        listed = "; ".join(f"{fault.field} would have no effect ({fault.message})" for fault in others)
        hint = f"open it as it is: kaji notebook {name}; to change it: kaji rm -f {name}, then the same again (its "
        hint += "files are kept); or choose another name"
        raise WrongState(f"{name} {state}: {listed}", hint=hint)


def _start(cli: Cli, api: Api, name: str, namespace: str | None, words: Mapping[str, Any]) -> dict[str, Any]:
    from kajitori.cli.submit.notes import notes
    from kajitori.cli.terminal import say
    from kajitori.client.submit import sending

    request = sending.at_home(_request(cli, api, name, namespace, words), api.target.namespace)
    view = sending.submit(api, request)
    for line in notes((view.get("status") or {}).get("findings") or ()):
        say(line)
    return view


def _request(
    cli: Cli, api: Api, name: str, namespace: str | None, words: Mapping[str, Any], image: str | None = None
) -> RunRequest:
    """Return the request that the options ask for. The image is that of the options, else of the template, else
    `image`, else that of the policy. Raises InvalidInput if the options have faults."""
    from kajitori.client.submit import sending
    from kajitori.client.submit.request import build_request
    from kajitori.client.submit.run_options import RunWords

    template = sending.template_spec(api, words["template"]) if words["template"] else None
    image = words["image"] or (template or {}).get("image") or image or default_image(api)
    request = build_request(
        RunWords(**{**words, "image": image}, name=name, namespace=namespace, type="notebook", detach=True),
        environment=cli.environment,
        folder=Path.cwd(),
        read_text=lambda path: Path(path).read_text(),
        pack=lambda folder: "",
        template=template,
    )
    if request.faults:
        raise sending.all_faults(api, request).renamed({"--name": "NAME"})
    return replace(request, sources={**request.sources, "spec.image": "--image"})


def default_image(api: Api) -> str:
    """Return the image of notebooks that name none, by policy."""
    from kajitori.core.policy.runs.notebooks import Notebooks

    rules = api.get("/v1/policy")["policy"].get("notebooks") or {}
    return str(rules.get("image") or Notebooks().image)


def _wait(cli: Cli, api: Api, view: dict[str, Any]) -> dict[str, Any]:
    """Wait until the notebook answers, and say what it waits for and why attempts failed meanwhile. Raises WrongState
    if it ends before."""
    from kajitori.cli.terminal import say
    from kajitori.client.views import is_final, phase_of, status_of
    from kajitori.client.web_api import run_path
    from kajitori.errors import WrongState

    told, name, setback = "", view["name"], status_of(view).get("setback")
    while not (programs := view.get("programs")) or not api.program_answers(programs[0]):
        status = status_of(view)
        if (newest := status.get("setback")) and newest != setback:
            say(f"{name}: attempt {newest['attempt']} ended: {newest.get('message') or newest.get('reason')}")
            setback = newest
        words = _SILENT.format(name) if programs else _TRIES.sub("", str(status.get("message") or ""))
        if newest and words == newest.get("message") and not is_final(view):
            words = ""  # it was told when the attempt ended
        now = f"{phase_of(view)}: {words}" if words else phase_of(view)
        if is_final(view):
            if not _is_resumed(view):
                raise WrongState(f"{name} has ended: {now}", hint=f"see what it printed: kaji logs {name}")
        elif now != told:
            say(f"{name}: {now}")
            told = now
        cli.sleep(POLL_SECONDS)
        view = api.get(run_path(view))
    return view


def _is_resumed(view: Mapping[str, Any]) -> bool:
    """Whether the controller has yet to start it again, which it does once the notebook has ended."""
    from kajitori.client.views import status_of

    return int(view["spec"].get("resumes") or 0) > int(status_of(view).get("resumes") or 0)
