"""`kaji upgrade`: another version of the parts, without touching runs."""

from __future__ import annotations

from typing import Any

import click

from kajitori.cli.terminal import echo, say
from kajitori.cli.verbs.platform.install import installation_options


@click.command(epilog="\b\nExample:\n  kaji upgrade --image-prefix registry.example.org/ml")
@installation_options
@click.option("--certificates", is_flag=True, help="Only renew the parts' certificate if it ends soon.")
def command(certificates: bool, **options: Any) -> None:
    """Replace an installed version by this one.

    Running Pods of runs are not touched; nothing starts or restarts for some seconds. One minor version at a time, up
    or down. It refuses, and changes nothing, if stored runs would break under the new definition. Settings, policy and
    address registry stay as they are unless you give others.
    """
    from kajitori.configuration.options.operators import InstallOptions

    settings = InstallOptions(**options)
    from kajitori import __version__
    from kajitori.entrypoints.installation import installing, keys

    if certificates:
        keys.renew_certificates(settings, say)
        return
    installing.upgrade(settings, say)
    echo(f"Kajitori {__version__} is installed.")
