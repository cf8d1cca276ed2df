"""The token of a notebook: the proxy adds it to requests, and users who may forward the notebook's port can ask for it.

JupyterLab demands the token, so that programs and users that reach its port without the proxy are refused.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from kajitori.api.auth import Caller
from kajitori.api.context import Api, Shared, answer, describes
from kajitori.api.lookup import find_run
from kajitori.api.runs.members.streams import running_pod
from kajitori.api.views.base import View
from kajitori.cluster.objects import Pod
from kajitori.cluster.run_object import RunObject
from kajitori.core.naming import names
from kajitori.core.proxy.addresses import Target
from kajitori.errors import WrongState
from kajitori.kube.resources import PODS

router = APIRouter(tags=["runs"])


class NotebookAddress(View):
    """The port and the path at which the program of a notebook answers."""

    port: int
    path: str
    """Path of JupyterLab at that port."""
    token: str
    """JupyterLab demands it as `Authorization: token …`, or as `?token=…` from a browser. Each attempt has its own."""


def notebook_token(api: Api, run: RunObject, pod: Pod, port: int) -> str:
    """Return the token that the program at a port of a Pod demands; empty if the port is not a notebook's.

    Raises Unavailable if this server does not know the key of tickets yet.
    """
    meta, member = run.metadata, pod.member
    if member is None or pod.metadata.annotations.get(names.ANNOTATION_NOTEBOOK_PORT) != str(port):
        return ""
    return api.start.tickets.notebook_token(meta.namespace, meta.name, meta.uid, member.attempt)


@router.get(
    "/v1/runs/{namespace}/{name}/notebook",
    responses=describes(NotebookAddress),
    summary="Path and token of a notebook, for a forwarded port",
)
async def address_of_notebook(api: Shared, user: Caller, request: Request, namespace: str, name: str) -> Response:
    """Needs the right to forward ports (`create pods/portforward`). Browsers at the proxy need no token."""
    run = await find_run(api, user, namespace, name)
    await user.require("create", namespace, resource=PODS, subresource="portforward")
    pod = await running_pod(api, user, run, 0)
    port = pod.metadata.annotations.get(names.ANNOTATION_NOTEBOOK_PORT, "")
    if not port.isdecimal():
        raise WrongState(
            f"{run.metadata.name} has no token", hint="only notebooks that begin with a first step have one"
        )
    about = f"run {run.metadata.name}"
    api.audit.note(request.scope, user.name, "read notebook token", namespace=namespace, object=about)
    target = Target(run.metadata.namespace, run.metadata.name, int(port))
    view = NotebookAddress(port=target.port, path=target.path, token=notebook_token(api, run, pod, target.port))
    response = answer(view)
    response.headers["Cache-Control"] = "no-store"
    return response
