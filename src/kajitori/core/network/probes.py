"""What `kaji network check` tries from where it runs, and what has to come of it."""

from __future__ import annotations

from ipaddress import ip_address

from kajitori.core.network.registry_model import Address


def read_endpoint(text: str) -> tuple[Address, int]:
    """Address and port of `10.1.0.4:22` or `[fd00:1::4]:22`. Raises ValueError with the reason."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r:.80} names no port")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        raise ValueError(f"{text!r:.80} names no address") from None
    if bracketed != (address.version == 6):
        raise ValueError(f"{text!r:.80} is not written as an address with a port")
    return address, int(port)
