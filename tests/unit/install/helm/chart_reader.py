"""A reader of templates of our Helm chart, for exactly the forms that `kajitori.install.helm` writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_TAG = re.compile(r"\s*{{-\s*((?:(?!}}).)*?)\s*}}\s*$")
_EXPRESSION = re.compile(r"{{-?\s*(.*?)\s*-?}}")
_MADE_BY_HELM = re.compile(r"{{ if \$\w+ }}.*{{ else }}.*{{ end }}")
"""A value that Helm keeps or makes."""


def rendered_by_reader(chart: Path, namespace: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of the chart with these values, without certificates that Helm makes itself."""
    values = _merged(yaml.safe_load((chart / "values.yaml").read_text()), given)
    found = []
    for path in sorted((chart / "templates").glob("*.yaml")):
        text = "\n".join(_rendered(iter(path.read_text().splitlines()), values, namespace, None)) + "\n"
        found += [document for document in yaml.safe_load_all(text) if document]
    return found


def _rendered(lines: Iterator[str], values: Any, namespace: str, one: Any, *, on: bool = True) -> list[str]:
    """Render lines up to the `end` of the block that they are in."""
    out: list[str] = []
    for line in lines:
        tag = _TAG.match(line)
        word, _, rest = tag[1].partition(" ") if tag else ("", "", "")
        if word == "end":
            return out
        if word == "if":
            inner = _rendered(lines, values, namespace, one, on=on and _holds(rest, values))
            out += inner
        elif word == "range":
            block = list(_block(lines))
            for value in _value(rest, values) if on else ():
                out += _rendered(iter(block), values, namespace, value)
        elif on and word and not word.startswith(("$", "fail")):
            out += _evaluated(f"{word} {rest}".strip(), values, namespace, one).removeprefix("\n").split("\n")
        elif on and not word:
            kept = _MADE_BY_HELM.sub("bWFkZQ==", line)
            out.append(_EXPRESSION.sub(lambda match: _evaluated(match[1], values, namespace, one), kept))
    return out


def _block(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if _TAG.match(line) and "end" in line:
            return
        yield line


def _holds(condition: str, values: Any) -> bool:
    if match := re.fullmatch(r'eq \(include "kajitori\.alerts" \.\) "(.*)"', condition):
        chosen = values["monitoring"]["alerts"]
        return match[1] == ("configMap" if chosen == "auto" else chosen)
    if match := re.fullmatch(r"(eq|not \(has) \.Values\.(\S+) (.*?)\)?", condition):
        text = _value(f".Values.{match[2]}", values)
        return text not in match[3] if match[1] != "eq" else match[3] == f'"{text}"'
    if condition.startswith("not "):
        return not _value(condition.removeprefix("not "), values)
    return bool(_value(condition, values))


def _evaluated(expression: str, values: Any, namespace: str, one: Any) -> str:
    steps = [step.strip() for step in re.split(r"\|(?![^(]*\))", expression)]
    result = _first(steps[0], values, namespace, one)
    for step in steps[1:]:
        word, _, rest = step.partition(" ")
        if word == "quote":
            result = yaml.safe_dump(result, default_style='"').strip()
        elif word == "squote":
            result = f"'{result}'"
        elif word == "nindent":
            result = "\n" + "\n".join(" " * int(rest) + line for line in str(result).rstrip("\n").split("\n"))
        elif word == "default":
            result = result or _first(rest.strip("()"), values, namespace, one)
        else:
            raise AssertionError(f"the chart uses {step!r}, which this reader does not know")
    return str(result)


def _first(step: str, values: Any, namespace: str, one: Any) -> Any:
    if step == ".":
        return one
    if step == ".Release.Namespace":
        return namespace
    if step.startswith(".Values."):
        return _value(step, values)
    if step.startswith("toYaml "):
        return yaml.safe_dump(_value(step.split()[1], values), sort_keys=False)
    if match := re.fullmatch(r'printf "(.*)" \.Release\.Namespace', step):
        return match[1] % namespace
    if match := re.fullmatch(r'include "kajitori\.image" \(list \$ "(.*)"\)', step):
        return _image(values["images"], match[1])
    if match := re.fullmatch(r'"(.*)"', step):
        return match[1]
    raise AssertionError(f"the chart uses {step!r}, which this reader does not know")


def _image(images: Any, which: str) -> str:
    """Return the image as `_helpers.tpl` builds it."""
    prefix = f"{images['prefix'].removesuffix('/')}/" if images["prefix"] else ""
    name, digest = images[which], images[f"{which}Digest"]
    return f"{prefix}{re.sub(':[^:/]*$', '', name)}@{digest}" if digest else f"{prefix}{name}"


def _value(path: str, values: Any) -> Any:
    found = values
    for part in path.removeprefix(".Values.").split("."):
        found = found[part]
    return found


def _merged(defaults: Any, given: Any) -> Any:
    if not isinstance(defaults, dict) or not isinstance(given, dict):
        return given
    return defaults | {key: _merged(defaults.get(key), value) for key, value in given.items()}
