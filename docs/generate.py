"""Generate docs/reference, the pages of docs/troubleshooting that follow from the code, and manifests below deploy/.

Everything comes from code that users meet: click's commands, the types of Run and policy, the definition of the custom
resource, the OpenAPI document. The same code always gives the same text. `make reference` and `make docs` run it.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from kajitori import __version__
from kajitori.cli.app import SECTIONS, kaji
from kajitori.cli.help.other_words import WORDS
from kajitori.client.submit.borrowed_options import DOCKER, SLURM
from kajitori.cluster.mirror.mirror import Mirror
from kajitori.configuration.policy_file import PolicyFile
from kajitori.core.documents.reference import reference_page
from kajitori.core.naming.names import API_VERSION, KIND
from kajitori.core.network.registry.model import Networks
from kajitori.core.policy.model import Policy
from kajitori.core.spec.definition import custom_resource_definition
from kajitori.core.spec.parts import Resources
from kajitori.core.spec.reasons import (
    COUNTS_AS_RESTART,
    NEVER_COUNTED,
    NEVER_RESTARTED,
    START_FAILURES,
    Phase,
    Reason,
)
from kajitori.core.spec.run import RunSpec
from kajitori.core.spec.status import RunStatus
from kajitori.core.spec.status_parts.node_request import NodeRequest, RequestState
from kajitori.entrypoints.parts.web_api import ApiDependencies, web_app
from kajitori.install import kustomize
from kajitori.install.helm import chart
from kajitori.install.settings import InstallSettings
from kajitori.kube.client import KubeClient
from kajitori.kube.connection.config import KubeConfig

sys.path.insert(0, str(Path(__file__).resolve().parent))  # tests load this file by its path

import code_map
import dashboards
import diagnostics
import outputs
from markdown_pages import DOCS, page, table

REFERENCE = DOCS / "reference"
DEPLOY = DOCS.parent / "deploy"
DASHBOARDS = DOCS.parent / "src" / "kajitori" / "monitoring" / "dashboards"
SCHEMAS = DOCS.parent / "tests" / "unit" / "install" / "released"
_WIDTH = 100
_API_RULES = """
## Rules of all calls

- **Credentials.** `Authorization: Bearer TOKEN`, with the caller's own Kubernetes token. The API server decides who
  the caller is (SelfSubjectReview) and what the caller may do (SelfSubjectAccessReview on `runs.kajitori.dev`).
  Reading runs, members, events and explanations needs `get`, lists need `list`. Writes, logs (`pods/log`) and exec
  (`pods/exec`) are done with the caller's own credentials. The board, nodes and the policy are open to everybody
  who is authenticated. `/healthz`, `/readyz` and `/metrics` need no credentials. The calls below `/v1/members` take
  a member's ticket as the token.
- **Errors** are `application/problem+json`: `{type, title, status, code, detail, hint, faults: [{field, message,
  value, hint, code}]}`. [Exit codes](exit-codes.md#errors) lists the codes. Unknown parameters are refused.
- **Names.** A `{name}` in a path may be a unique prefix if the call only reads; writes need the whole name.
  `owner=@me` is the caller. Without `namespace`, lists cover all namespaces that the caller may read, and a new run
  goes to the server's default namespace.
- **Limits.** 429 and 503 carry `Retry-After`. After 429 nothing was done.
- **Streams** are newline-delimited JSON. Empty lines keep the connection alive. A stream that breaks off is an
  incomplete HTTP answer: ask again. A follower of logs sends the last cursor of each member as `resume`, and misses
  nothing.
- **Fields** are in camelCase. Further fields may be added, so ignore those that you do not know.
"""
_METHODS = ("get", "post", "put", "patch", "delete")


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {
        "cli.md": cli_page(),
        "words.md": words_page(),
        "run.md": run_page(),
        "policy.md": page(
            reference_page("The policy file", Policy, documented_elsewhere={RunSpec.__module__, Resources.__module__})
        ),
        "settings.md": page(reference_page("Settings of an installation", InstallSettings)),
        "networks.md": page(reference_page("The networks file", Networks)),
        "api.md": api_page(openapi()),
        "output.md": outputs.output_page(),
        "output.schema.json": outputs.output_schemas(openapi()),
        "exit-codes.md": diagnostics.exit_codes_page(),
        "metrics.md": diagnostics.metrics_page(),
        "../troubleshooting/reasons.md": diagnostics.reasons_page(),
        "../operate/alerts.md": diagnostics.alerts_page(),
        "../architecture/code-map.md": code_map.map_page(),
    }


def manifests() -> dict[str, str]:
    """Every generated file below `deploy/` by its path."""
    return kustomize.base() | {f"helm/kajitori/{name}": text for name, text in chart.chart().items()}


def cli_page() -> str:
    """The help of `kaji` and of each verb, by purpose."""
    lines = ["# The command line", "", *_help(kaji, "kaji")]
    with click.Context(kaji, info_name="kaji") as parent:
        for title, verbs in SECTIONS.items():
            lines += ["", f"## {title}"]
            for verb in verbs:
                command = kaji.get_command(parent, verb)
                assert command is not None
                lines += ["", f"### kaji {verb}", "", *_help(command, verb, parent)]
                if isinstance(command, click.Group):
                    with click.Context(command, info_name=verb, parent=parent) as inner:
                        for name in command.list_commands(inner):
                            sub = command.get_command(inner, name)
                            assert sub is not None
                            lines += ["", f"#### kaji {verb} {name}", "", *_help(sub, name, inner)]
    return page("\n".join(lines))


def _help(command: click.Command, name: str, parent: click.Context | None = None) -> list[str]:
    with click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH, max_content_width=_WIDTH) as ctx:
        return ["```", *(line.rstrip() for line in command.get_help(ctx).splitlines()), "```"]


def words_page() -> str:
    """Verbs and options of other tools, and their equivalents here."""
    lines = [
        "# Verbs and options of other tools",
        "",
        "Many verbs are Docker's own and [do the same here](cli.md). If you type",
    ]
    lines += ["one of these, `kaji` answers with the command beside it.", ""]
    rows = [(f"`{verb}`", word.tool, word.instead, word.why) for verb, word in WORDS.items()]
    lines += [*table(("verb", "of", "write instead", "why"), rows), "", "## Options of kaji run", ""]
    lines += [
        "`--net`, `--expose`, `--restart no` and `on-failure:N`, `--stop-timeout` and `--platform` do what they do in"
    ]
    lines += [
        "docker. `--ipc host` makes `/dev/shm` as large as the member's memory. Each of these is accepted with a note,"
    ]
    lines += ["or refused with the option that does the same."]
    for title, options in (("docker run", DOCKER), ("sbatch", SLURM)):
        rows = [(", ".join(f"`{name}`" for name in each.names), each.why, each.instead or "a note") for each in options]
        lines += ["", *table((f"of {title}", "how it is here", "write instead"), rows)]
    return page("\n".join(lines))


def run_page() -> str:
    """Fields of a Run's spec and status, and the columns that `kubectl` shows."""
    definition = custom_resource_definition()["spec"]
    version, words = definition["versions"][0], definition["names"]
    spec = RunSpec.model_json_schema(by_alias=True)
    lines = ["# Run", "", _words(version["schema"]["openAPIV3Schema"]), ""]
    lines += ["```yaml", f"apiVersion: {API_VERSION}", f"kind: {KIND}", "metadata: {name: bert, namespace: vision}"]
    lines += ["spec: {image: registry/bert:3, command: [python, train.py]}", "```", ""]
    lines += [
        f"`kubectl get {words['plural']}`, in short `kubectl get {words['shortNames'][0]}`. Policy fills in the fields",
        "that are left out, again for each attempt.",
        *("", "## spec", ""),
    ]
    lines += [*_spec_fields(spec, spec)]
    for name, part in sorted(spec["$defs"].items()):
        lines += ["", f"### {name}", "", _words(part), "", *_spec_fields(part, spec)]
    lines += ["", "## status", "", "Only Kajitori writes it. Fields with their default value are left out.", ""]
    schema = msgspec.json.schema(RunStatus)
    lines += [*_status_fields(RunStatus, schema)]
    for part in _parts(RunStatus):
        text = _without_rules(" ".join((part.__doc__ or "").split()))
        lines += ["", f"### {part.__name__}", "", *([text, ""] if text else []), *_status_fields(part, schema)]
        if part is NodeRequest:
            lines += ["", "### RequestState", "", f"`{'`, `'.join(RequestState)}`."]
    lines += ["", "### Phase", "", "`" + "`, `".join(Phase) + "`. Final: "]
    lines[-1] += ", ".join(f"`{phase}`" for phase in Phase if phase.is_final) + "."
    lines += ["", "### Reason", "", "`" + "`, `".join(reason for reason in Reason if reason) + "`.", ""]
    for reasons, text in (
        (COUNTS_AS_RESTART, "Use up `restarts`"),
        (NEVER_COUNTED, "Cost nothing: the gang starts again"),
        (START_FAILURES, "Cost nothing: the gang starts again, after a pause that grows"),
        (NEVER_RESTARTED, "End the run, whatever `restarts` says"),
    ):
        lines += [f"- {text}: {', '.join(f'`{reason}`' for reason in Reason if reason in reasons)}."]
    lines += ["", "## What kubectl shows", ""]
    columns = version["additionalPrinterColumns"]
    rows = [(each["name"], f"`{each['jsonPath']}`", "-o wide" if each.get("priority") else "") for each in columns]
    return page("\n".join([*lines, *table(("column", "field", "with"), rows)]))


def _spec_fields(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[str]:
    required = set(schema.get("required", ()))
    rows = []
    for name, part in schema["properties"].items():
        default = part.get("default")
        shown = "required" if name in required else "" if default in (None, "") else f"`{json.dumps(default)}`"
        if isinstance(default, dict):
            shown = ""
        rows.append((f"`{name}`", _type(part), shown, _words(part) or _words(_referred(part, root))))
    yield from table(("field", "type", "default", "what"), rows)


def _referred(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for each in (part, part.get("items", {}), *part.get("anyOf", ())):
        if "$ref" in each:
            found: Mapping[str, Any] = root["$defs"][each["$ref"].rsplit("/", 1)[-1]]
            return found
    return {}


def _parts(whole: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """Structs inside `whole`, at any depth, in the order in which its fields name them."""
    found: dict[type[msgspec.Struct], None] = {}

    def visit(kind: msgspec.inspect.Type) -> None:
        if isinstance(kind, msgspec.inspect.StructType) and kind.cls not in found:
            if kind.cls is not whole:
                found[kind.cls] = None
            for field in kind.fields:
                visit(field.type)
        for name in ("item_type", "key_type", "value_type"):
            if hasattr(kind, name):
                visit(getattr(kind, name))
        for inner in getattr(kind, "types", ()):
            visit(inner)

    visit(msgspec.inspect.type_info(whole))
    return list(found)


def _status_fields(part: type[msgspec.Struct], schema: Mapping[str, Any]) -> Iterator[str]:
    texts = _attribute_docstrings(part)
    properties = schema["$defs"][part.__name__]["properties"]
    rows = [
        (f"`{field.encode_name}`", _type(properties[field.encode_name]), texts.get(field.name, ""))
        for field in msgspec.structs.fields(part)
    ]
    yield from table(("field", "type", "what"), rows)


def _attribute_docstrings(part: type) -> dict[str, str]:
    """The text below each attribute in the source of the class and of the structs that it extends."""
    texts = {}
    for level in reversed([base for base in part.__mro__ if inspect.get_annotations(base)]):
        body = ast.parse(textwrap.dedent(inspect.getsource(level))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, below in itertools.pairwise(body.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = _without_rules(" ".join(text.split()))
    return texts


def _without_rules(text: str) -> str:
    """Remove references to the numbered rules of the architecture, which readers of the reference do not know."""
    return re.sub(r" \(rules? [\d, ]+\)", "", text)


def openapi() -> Mapping[str, Any]:
    """The Web API's OpenAPI document, of a server that has no cluster and is never started."""
    client = KubeClient(KubeConfig(server="http://127.0.0.1:1"))
    parts = ApiDependencies(client=client, mirror=Mirror(client), policy=PolicyFile(None))
    return web_app(parts).openapi()


def api_page(document: Mapping[str, Any]) -> str:
    """Calls with their parameters and answers, then the shapes that they name."""
    lines = ["# The Web API", "", f"{document['info'].get('summary', '')}."]
    lines += ["", f"OpenAPI {document['openapi']} at `/openapi.json`.", *_API_RULES.splitlines(), "", "## Calls"]
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                lines += ["", *_operation(method, path, item[method], item.get("parameters", []))]
    lines += ["", "## Shapes"]
    for name, schema in sorted(document.get("components", {}).get("schemas", {}).items()):
        lines += ["", *_shape(name, schema)]
    return page("\n".join(lines))


def _operation(method: str, path: str, operation: Mapping[str, Any], shared: list[Any]) -> Iterator[str]:
    yield f"### {method.upper()} {path}"
    title, text = operation.get("summary", ""), operation.get("description", "").strip()
    if title or text:
        yield ""
        yield f"{title}. {text}".strip()
    parameters = [*shared, *operation.get("parameters", [])]
    if parameters:
        yield ""
        yield from table(
            ("parameter", "in", "type", "what"),
            [(f"`{each['name']}`", each["in"], _type(each.get("schema", {})), _words(each)) for each in parameters],
        )
    body = operation.get("requestBody")
    if body is not None:
        yield ""
        yield f"Body: {_content(body)}"
    yield ""
    yield from table(
        ("status", "answer", "what"),
        [(status, _content(answer), _words(answer)) for status, answer in sorted(operation["responses"].items())],
    )


def _shape(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    if _words(schema):
        yield ""
        yield _words(schema)
    if schema.get("properties"):
        required = set(schema.get("required", ()))
        yield ""
        yield from table(
            ("field", "type", "what"),
            [
                (f"`{field}`{'' if field in required else ' (optional)'}", _type(part), _words(part))
                for field, part in schema["properties"].items()
            ],
        )
    elif "properties" not in schema:
        yield ""
        yield f"Type: {_type(schema)}"


def _content(part: Mapping[str, Any]) -> str:
    kinds = part.get("content", {})
    return ", ".join(f"{_type(kind.get('schema', {}))} as `{media}`" for media, kind in kinds.items())


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[word] if each.get("type") != "null"))
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value, ensure_ascii=False)}`" for value in schema["enum"])
    if schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string"):
        return "number or text"
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"mapping to {_type(schema['additionalProperties'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _words(part: Mapping[str, Any]) -> str:
    return " ".join(str(part.get("description", "")).split())


def store_schema() -> None:
    """Store the schema of this version, with which later versions are compared. Done once, before a release."""
    (version,) = custom_resource_definition()["spec"]["versions"]
    text = yaml.safe_dump(version["schema"]["openAPIV3Schema"], sort_keys=True, width=150)
    about = f"# The schema of a Run in version {__version__}; docs/operate/run-compatibility.md has the rules.\n"
    SCHEMAS.mkdir(exist_ok=True)
    (SCHEMAS / f"{__version__}.yaml").write_text(about + text, encoding="utf-8")


def main() -> None:
    if sys.argv[1:] == ["--schema"]:
        store_schema()
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    (DOCS / "troubleshooting" / "messages.md").write_text(diagnostics.messages_page(), encoding="utf-8")
    for name, text in dashboards.dashboards().items():  # before the manifests, which contain them
        (DASHBOARDS / name).write_text(text, encoding="utf-8")
    for name, text in manifests().items():
        (DEPLOY / name).parent.mkdir(parents=True, exist_ok=True)
        (DEPLOY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
