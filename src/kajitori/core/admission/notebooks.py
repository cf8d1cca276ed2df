"""Notebooks: what a run of type notebook becomes before it is admitted like any other.

A notebook is a batch run of one member: its Pod comes back after the loss of its node, and it ends when its program
does. This module fills in what the spec leaves out: the folder that is kept, the port, and the program that starts
JupyterLab.
"""

from __future__ import annotations

import zlib
from pathlib import PurePosixPath

from kajitori.core.formats.quantities import format_duration
from kajitori.core.pods.resolved import Findings, RunIdentity
from kajitori.core.policy.model import Policy
from kajitori.core.proxy.addresses import Target
from kajitori.core.spec.parts import Checkpoint
from kajitori.core.spec.run import RunSpec

PORT = 8888
PORTS_OF_A_MACHINE = 10_000
"""Number of ports, from PORT on, that notebooks use if no network plugin enforces policies, as with `kaji up`: members
may then share the network of their node, so each notebook needs a port of its own. The rendezvous ports follow."""

_SCRIPT = r"""
folder=${KAJI_CHECKPOINT_DIR:-$PWD}
cd "$folder" || exit 1
own="$folder/.jupyterlab"
taken='
import errno, socket, sys
with socket.socket() as own:
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind(("127.0.0.1", int(sys.argv[1])))
        own.listen()
    except OSError as error:
        sys.exit(error.errno == errno.EADDRINUSE)
'
if [ -n "$KAJI_NOTEBOOK_TOKEN_FILE" ] && ! [ -s "$KAJI_NOTEBOOK_TOKEN_FILE" ]; then
  echo "The token of this notebook is missing. Start it again: kaji stop, then kaji notebook"
  exit 1
fi
if [ "$KAJI_NOTEBOOK_HOME" = folder ]; then export HOME="$folder"; fi
if command -v jupyter-lab >/dev/null 2>&1; then lab=jupyter-lab
elif [ -x "$own/bin/jupyter-lab" ]; then lab="$own/bin/jupyter-lab"
elif command -v python3 >/dev/null 2>&1; then
  echo "JupyterLab is not installed here. Installing it into $own, once: pip install jupyterlab"
  if python3 -m venv --system-site-packages "$own" && "$own/bin/python" -m pip install --quiet jupyterlab; then
    lab="$own/bin/jupyter-lab"
  else
    rm -rf "$own"
    echo "JupyterLab is missing, and could not be installed. Use an image that has it (kaji notebook --image"
    echo "quay.io/jupyter/minimal-notebook), or on your own machine: python3 -m pip install jupyterlab"
    exit 127
  fi
else
  echo "This image has neither JupyterLab nor Python. Use one that has, for example:"
  echo "kaji notebook --image quay.io/jupyter/minimal-notebook"
  exit 127
fi
if command -v python3 >/dev/null 2>&1 && ! python3 -c "$taken" "$KAJI_NOTEBOOK_PORT"; then
  echo "Port $KAJI_NOTEBOOK_PORT is taken by another program: end it, or take another name: kaji notebook NAME"
  exit 1
fi
set -- --no-browser --ServerApp.ip=127.0.0.1 --ServerApp.port="$KAJI_NOTEBOOK_PORT" --ServerApp.port_retries=0 \
  --ServerApp.base_url="$KAJI_PROXY_PATH/" --ServerApp.root_dir="$folder" --ServerApp.allow_remote_access=True \
  --ServerApp.password= --ServerApp.allow_root=True --ServerApp.trust_xheaders=True \
  --ServerApp.use_redirect_file=False
if [ -n "$KAJI_NOTEBOOK_TOKEN_FILE" ]; then export JUPYTER_TOKEN_FILE="$KAJI_NOTEBOOK_TOKEN_FILE"
else set -- "$@" --IdentityProvider.token=
fi
unset JUPYTER_TOKEN
if [ -n "$KAJI_IDLE_KERNELS" ]; then
  set -- "$@" --MappingKernelManager.cull_idle_timeout="$KAJI_IDLE_KERNELS" --MappingKernelManager.cull_connected=True
fi
exec "$lab" "$@"
"""


def notebook_port(spec: RunSpec, policy: Policy, run: RunIdentity) -> int:
    """Return the port at which a notebook's program listens: the first that it names, else one by policy."""
    if spec.ports:
        return spec.ports[0]
    if not policy.network.enforced:  # the server tells several clusters of one machine apart
        identity = f"{policy.start.server}/{run.namespace}/{run.name}"
        return PORT + zlib.crc32(identity.encode()) % PORTS_OF_A_MACHINE
    return PORT


def written_out(spec: RunSpec, policy: Policy, run: RunIdentity, findings: Findings) -> RunSpec:
    """Return the spec of a notebook with everything that its type implies. Other specs are returned unchanged.

    A notebook with a command of its own keeps it, and finds port and path of its address in KAJI_NOTEBOOK_PORT and
    KAJI_PROXY_PATH. If members have a first step, KAJI_NOTEBOOK_TOKEN_FILE names a file with the token that the proxy
    adds to its requests (`Authorization: token …`).
    """
    if spec.type != "notebook":
        return spec
    rules, port = policy.notebooks, notebook_port(spec, policy, run)
    path = Target(run.namespace, run.name, port).path
    update: dict[str, object] = {"ports": spec.ports or [port]}
    if spec.checkpoint is None:
        size = rules.size_bytes if policy.checkpoint.kind == "claim" else None
        update["checkpoint"] = Checkpoint(path=rules.path, size=size)
        findings.add("NotebookFolder", f"files in {PurePosixPath(rules.path)} are kept", "spec.checkpoint")
    env = {"KAJI_NOTEBOOK_PORT": str(port), "KAJI_PROXY_PATH": path, "KAJI_NOTEBOOK_HOME": rules.home or "folder"}
    if rules.idle_kernels_after_seconds is not None:
        env["KAJI_IDLE_KERNELS"] = str(rules.idle_kernels_after_seconds)
        words = format_duration(rules.idle_kernels_after_seconds)
        findings.add("IdleKernels", f"kernels that compute nothing for {words} are shut down", "spec.type")
    update["env"] = env | spec.env
    if not spec.command and not spec.args:
        update["command"] = ["/bin/sh", "-c", _SCRIPT.strip()]
    return spec.model_copy(update=update)


def notebook_time_limit(spec: RunSpec, policy: Policy) -> int | None:
    """Return the time limit of a notebook that sets none; None for other runs."""
    limit, ceiling = policy.notebooks.time_limit_seconds, policy.ceilings.run.time_limit_seconds
    if spec.type != "notebook" or limit is None:
        return None
    return limit if ceiling is None else min(limit, ceiling)
