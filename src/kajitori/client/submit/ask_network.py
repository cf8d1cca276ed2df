"""From options of `kaji run` to a spec's network and ports."""

from __future__ import annotations

from kajitori.client.submit.filling import SpecFilling
from kajitori.client.submit.run_options import RunWords
from kajitori.core.documents.fields import BUILT_IN_NETWORKS


def ask_for_network(spec: SpecFilling, words: RunWords) -> None:
    """Write into the spec the ports, `--network` and the peers that members may reach or be reached by."""
    if words.network == "host":
        spec.put("hostNetwork", True, "--network host")
    if words.network in (None, *BUILT_IN_NETWORKS):
        if words.network_alias:
            hint = "name one: --network NAME; all runs of the namespace that name the same one find each other by name"
            spec.complain("--network-alias", "is a name in a network, and there is none", words.network_alias[0], hint)
    else:
        use: dict[str, object] = {"name": words.network}
        networks = spec.items("networks")
        where = f"spec.networks[{len(networks)}]"
        spec.sources |= {where: "--network", f"{where}.name": "--network", f"{where}.aliases": "--network-alias"}
        networks.append(use | ({"aliases": list(words.network_alias)} if words.network_alias else {}))
    _ask_for_reach(spec, words)
    for option, values in (("--publish", words.publish), ("--expose", words.expose)):
        for word in values:
            _ask_for_port(spec, word, option)


def _ask_for_reach(spec: SpecFilling, words: RunWords) -> None:
    """Classes and ranges, with commas between them; `none` alone is an empty list."""
    given = (("from", words.allow_from, "--allow-from"), ("to", words.allow_to, "--allow-to"))
    for name, values, option in given:
        places = [place for word in values for place in word.split(",") if place]
        none = ["none"] in (places, [words.network])
        if words.network == "none" and values:
            hint = "leave one of them out"
            spec.complain(option, f"{','.join(values)!r:.80}, but --network none allows nobody", values[0], hint)
        elif values or none:
            spec.mapping("network")[name] = [] if none else places
            source = f"{option} {','.join(values)}" if values else "--network none"
            spec.sources |= {"spec.network": source, f"spec.network.{name}": source}


def _ask_for_port(spec: SpecFilling, word: str, option: str) -> None:
    text, _, protocol = word.partition("/")
    if protocol not in ("", "tcp"):
        spec.leave_unread("ports", word)
        spec.complain(option, f"{word!r:.80}: only TCP is there", word, "leave the protocol out")
        return
    host, _, inside = text.rpartition(":")
    if not inside.isascii() or not inside.isdigit():
        hint = "name the port the program listens on: -p 8888"
        spec.leave_unread("ports", word)
        spec.complain(option, f"{word!r:.80} is not a port", word, hint)
    elif host and host != inside:
        spec.leave_unread("ports", word)
        hint = f"name the port the program listens on: -p {inside}"
        spec.complain(option, f"{word!r:.80}: ports are not mapped to others", word, hint)
    else:
        ports = spec.items("ports")
        if int(inside) not in ports:
            spec.sources[f"spec.ports[{len(ports)}]"] = option
            ports.append(int(inside))
