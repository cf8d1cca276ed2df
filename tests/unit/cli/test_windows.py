"""The client on Windows, as far as Linux can show it: no module, signal or function that Windows lacks is needed."""

from __future__ import annotations

import subprocess
import sys

IMPORTS = """
import importlib.abc, os, pkgutil, signal, subprocess, sys, sysconfig, types
import aiohttp, asyncssh, click, cloudpickle, msgspec, pydantic, rich, websockets.asyncio.client
sysconfig.get_config_vars()
MISSING = {"fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"}
class NotThere(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotThere())
for name in MISSING:
    sys.modules.pop(name, None)
sys.platform = "win32"
sys.modules["msvcrt"] = types.ModuleType("msvcrt")
KEPT = ("SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM")
for name in [name for name in dir(signal) if name.startswith(("SIG", "pthread")) and name not in KEPT]:
    delattr(signal, name)
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "fork", "getegid", "geteuid", "getgid", "getuid", "killpg"):
    delattr(os, name)
import kajitori.cli
import kajitori.client
for package in (kajitori.client, kajitori.cli):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            try:
                __import__(module.name)
            except Exception as error:
                print(module.name, repr(error))
from kajitori.cli.connection.execution import can_be_raw
print("raw terminals:", can_be_raw())
"""


def test_client_and_command_line_can_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("raw terminals: False\n", "")
