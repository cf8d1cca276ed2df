"""JSON schemas of the output of `-o json`, for the shapes that only the command line has.

Every field in `required` is always there. `docs/generate.py` joins these shapes with those of the Web API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _object_schema(required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": required.split()}


def _whole_object(**fields: Any) -> dict[str, Any]:
    """Return the schema of an object that always has all of these fields."""
    return _object_schema(" ".join(fields), **fields)


def _array_schema(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _list_schema(**fields: Any) -> dict[str, Any]:
    return _array_schema(_whole_object(**fields))


def _map_of(values: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, "description": description}


def _with_description(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {**schema, "description": description}


_TEXT, _WHOLE, _NUMBER, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
_YEARS = {"type": ["number", "null"], "description": "Years until it is full; null if that is not in sight."}
_TEXTS = _array_schema(_TEXT)
_OF_RUN = {"namespace": _TEXT, "name": _TEXT, "uid": _TEXT}
_CONTEXT = {"name": _TEXT, "current": _FLAG, "because": _TEXT, "server": _TEXT, "namespace": _TEXT, "data": _TEXT}
_VERDICT = {"enum": ["yes", "on request", "no"]}
_FAMILY = {"enum": ["ipv4", "ipv6", "dual"]}

_FIGURE = _whole_object(
    value=_WHOLE,
    what=_with_description(_TEXT, "What the number limits."),
    source=_with_description(_TEXT, "The page that publishes the number."),
    asOf=_with_description(_TEXT, "When that page was read or written."),
)
_RANGES = {
    "nodeAddresses": _WHOLE,
    "nodePrefix": _with_description(_WHOLE, "Prefix length of the range for nodes."),
    "podPrefix": _with_description(_WHOLE, "Prefix length of the range for Pods."),
    "later": _with_description(
        _whole_object(nodes=_WHOLE, nodePrefix=_WHOLE, podPrefix=_WHOLE), "The same after the planned years of growth."
    ),
    "podPrefixYearsLeft": _YEARS,
}
_STOP = _object_schema(
    "nodes limit",
    nodes=_with_description(_WHOLE, "The limit allows this number of nodes."),
    limit=_FIGURE,
    nodesOnRequest=_with_description(_WHOLE, "The number of nodes after the provider has raised the limit."),
    limitOnRequest=_FIGURE,
)
_NETWORK_KIND = _object_schema(
    "kind family title carries mostNodes yearsLeft stops linkMtu podMtu goodput podGbit notes",
    kind=_TEXT,
    family=_TEXT,
    title=_TEXT,
    carries=_with_description(_VERDICT, "Whether this kind of network carries the cluster."),
    mostNodes=_WHOLE,
    yearsLeft=_YEARS,
    **_RANGES,
    podAddresses=_WHOLE,
    podAddressesPerNode=_WHOLE,
    ipv6=_whole_object(podPrefixPerNode=_WHOLE, **_RANGES),
    stops=_with_description(_array_schema(_STOP), "Limits to growth, the lowest first."),
    linkMtu=_WHOLE,
    podMtu=_WHOLE,
    goodput=_with_description(_NUMBER, "The share of a link's bits that a TCP program gets."),
    podGbit=_with_description(_NUMBER, "Throughput of each Pod if all Pods of a node send, in Gbit/s."),
    notes=_TEXTS,
)

OWN_SHAPES: Mapping[str, dict[str, Any]] = {
    "Error": _whole_object(
        error=_whole_object(
            code=_TEXT,
            message=_TEXT,
            hint=_TEXT,
            exitCode=_WHOLE,
            faults=_list_schema(field=_TEXT, message=_TEXT, value=_TEXT, hint=_TEXT),
        ),
    ),
    "Done": _whole_object(
        done={"type": "string", "description": "The verb, such as stop."},
        items=_array_schema(_object_schema("name", **_OF_RUN, key=_TEXT)),
    ),
    "InspectedRun": {
        "allOf": [{"$ref": "#/$defs/RunView"}, _whole_object(members=_array_schema({"$ref": "#/$defs/MemberView"}))],
    },
    "SignedIn": {
        "allOf": [
            {"$ref": "#/$defs/WhoAmI"},
            _whole_object(
                server=_with_description(_TEXT, "Address of the server."),
                tokenExpiresAt=_with_description(
                    {"type": ["string", "null"]}, "When the token ends; null if that is not known."
                ),
            ),
        ],
    },
    "Waited": _whole_object(items=_list_schema(**_OF_RUN, phase=_TEXT, exitCode=_WHOLE)),
    "Listening": _whole_object(items=_list_schema(rank=_WHOLE, address=_TEXT, port=_WHOLE)),
    "PathsChecked": _whole_object(
        **{"from": _with_description(_whole_object(kind=_TEXT, name=_TEXT), "The network that this machine is in.")},
        right=_with_description(_FLAG, "Whether all checks found what was expected."),
        items=_list_schema(where=_TEXT, what=_TEXT, expected=_TEXT, found=_TEXT, right=_FLAG),
        dropped=_map_of(_WHOLE, "Packets dropped since the rules were loaded, by counter."),
    ),
    "PathsMeasured": _whole_object(
        items=_list_schema(
            kind={"enum": ["pods", "hosts"]},
            source=_TEXT,
            target=_TEXT,
            address=_with_description(_TEXT, "Address of the receiving end."),
            bitsPerSecond=_WHOLE,
            mtu=_with_description(_WHOLE, "Largest packet that passes whole, in bytes; 0 if no datagram came back."),
        ),
        conclusions=_with_description(_TEXTS, "What the measurements mean, in sentences."),
    ),
    "NetworkPlan": _object_schema(
        "nodes podsPerNode ipFamily kinds notes",
        nodes=_WHOLE,
        podsPerNode=_WHOLE,
        ipFamily=_FAMILY,
        kinds=_array_schema(_NETWORK_KIND),
        notes=_TEXTS,
        cluster=_with_description(
            _array_schema({"$ref": "#/components/schemas/NodeNetwork"}),
            "Only with --from-cluster: the nodes of the cluster.",
        ),
        comparison=_with_description(
            _list_schema(
                kind=_TEXT, nodes=_map_of(_VERDICT, "Whether the kind carries this number of nodes, by number.")
            ),
            "Only with --compare.",
        ),
    ),
    "ClientAudit": _whole_object(
        log={
            "description": "What the audit logs contain; null without any.",
            "anyOf": [_whole_object(requests=_WHOLE, seconds=_NUMBER, clients=_WHOLE), {"type": "null"}],
        },
        nodes=_WHOLE,
        plannedNodes=_WHOLE,
        growing=_with_description(
            _list_schema(
                client=_TEXT,
                daemonSets=_TEXTS,
                instances=_WHOLE,
                requestsPerMinute=_with_description(_NUMBER, "Requests of one instance per minute."),
                watches=_with_description(_NUMBER, "Average number of open watches of one instance."),
                readsAll=_with_description(_TEXTS, "Kinds of which each instance reads all objects."),
                requestsPerSecondThen=_with_description(_NUMBER, "Requests of all instances with the planned nodes."),
                watchesThen=_with_description(_NUMBER, "Open watches of all instances with the planned nodes."),
                fixes=_with_description(_TEXTS, "Advice for the maintainer of the client."),
            ),
            "Clients that run on every node.",
        ),
        largest=_with_description(
            _list_schema(
                client=_TEXT, requestsPerSecond=_NUMBER, share=_with_description(_NUMBER, "Share of all requests.")
            ),
            "Other clients, those with the most requests first.",
        ),
        suspects=_with_description(
            _list_schema(namespace=_TEXT, name=_TEXT, account=_TEXT, pods=_WHOLE, reads=_TEXTS),
            "DaemonSets that may read all objects of some kind, and of which the log has no requests.",
        ),
        watched=_with_description(
            _list_schema(resource=_TEXT, open=_WHOLE, besidesKubelets=_WHOLE),
            "Kinds with about as many open watches as there are nodes.",
        ),
        notes=_TEXTS,
    ),
    "Findings": _whole_object(
        items=_list_schema(
            name=_with_description(_TEXT, "What was checked."),
            state={"enum": ["ok", "warn", "fail"]},
            text=_with_description(_TEXT, "What was found."),
            wayOut=_with_description(_TEXT, "What to do; empty if nothing has to be done."),
        )
    ),
    "KubernetesList": _whole_object(apiVersion=_TEXT, kind={"const": "List"}, items=_array_schema({"type": "object"})),
    "Backup": _whole_object(backup=_with_description(_TEXT, "Where the backup is.")),
    "BackupCheck": _whole_object(
        takenAt=_TEXT,
        version=_with_description(_TEXT, "Version of kaji that took the backup."),
        counts=_map_of(_WHOLE, "Number of records, by kind."),
    ),
    "BackupList": _whole_object(
        items=_list_schema(
            name=_TEXT,
            sizeBytes=_WHOLE,
            takenAt=_with_description({"type": ["string", "null"]}, "Null if it is not a complete backup."),
            fault=_with_description(_TEXT, "Why it is not a complete backup; empty if it is one."),
        )
    ),
    "Restored": _whole_object(
        queued=_with_description(_TEXTS, "Restored runs that are queued, as namespace/name."),
        ended=_with_description(_TEXTS, "Restored runs that had ended."),
        kept=_map_of(_WHOLE, "Number of runs that were not restored, by reason."),
        objects=_with_description(_TEXTS, "Namespaces, ConfigMaps and Secrets that were created."),
        rows=_map_of(_WHOLE, "Number of rows of history that were read, by table."),
        blobs=_with_description(_WHOLE, "Number of blobs that were stored."),
        notes=_TEXTS,
    ),
    "Context": _whole_object(**_CONTEXT),
    "Contexts": _whole_object(items=_list_schema(**_CONTEXT, running={"type": ["boolean", "null"]})),
    "Versions": _object_schema("client", client=_whole_object(version=_TEXT), server={"type": ["object", "null"]}),
    "Object": {"type": "object"},
}
"""Shapes that only the command line has, by name."""
