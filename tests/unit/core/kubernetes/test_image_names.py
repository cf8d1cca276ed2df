"""Names of images: one full form for all spellings, and patterns that every spelling of an image matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kajitori.core.kubernetes.image_names import full_image_name, parse_image_name, pattern_in_full
from kajitori.core.policy.file import parse_policy
from kajitori.core.policy.runs.images import Images
from kajitori.errors import InvalidInput

DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("python:3.11", "docker.io/library/python:3.11"),
        ("docker.io/python:3.11", "docker.io/library/python:3.11"),
        ("index.docker.io/python:3.11", "docker.io/library/python:3.11"),
        ("registry-1.docker.io/library/python:3.11", "docker.io/library/python:3.11"),
        ("DOCKER.IO:443/library/python:3.11", "docker.io/library/python:3.11"),
        ("registry/bert:3", "docker.io/registry/bert:3"),
        ("Registry/bert:3", "registry:443/bert:3"),
        ("registry:80/bert:3", "registry:443/bert:3"),
        ("python:5000/evil/img:1", "python:5000/evil/img:1"),
        ("localhost/a", "localhost/a:latest"),
        ("localhost:05000/a", "localhost:5000/a:latest"),
        ("GHCR.io:443/a/b", "ghcr.io/a/b:latest"),
        (f"ghcr.io/a/b@{DIGEST}", f"ghcr.io/a/b@{DIGEST}"),
        (f"ghcr.io/a/b:3@{DIGEST}", f"ghcr.io/a/b:3@{DIGEST}"),
        ("[0:0::1]:5000/a", "[::1]:5000/a:latest"),
    ],
)
def test_every_image_has_one_full_name(image: str, full: str) -> None:
    """As Docker completes it; the full name means the same image."""
    assert full_image_name(image) == full
    assert full_image_name(full) == full


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "Bert",
        "bert:",
        "bert@",
        "bert@sha256:00",
        "a..b/c",
        "my_host.io/a",
        "host:port/a",
        "host:/a",
        "-a",
        "ghcr.io/A",
        "a b",
        "a\n",
        "ghcr.io./a",
        "http://ghcr.io/a",
        "user@ghcr.io/a",
        "0" * 64,
        "a/" * 130 + "a",
    ],
)
def test_names_that_no_runtime_accepts_are_refused(text: str) -> None:
    assert parse_image_name(text) is None


LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,4}[a-z0-9])?", fullmatch=True)
PART = st.from_regex(r"[a-z0-9]{1,4}((\.|_|__|-{1,2})[a-z0-9]{1,3}){0,2}", fullmatch=True)
DOMAINS = st.one_of(st.just("docker.io"), st.lists(LABEL, min_size=2, max_size=3).map(".".join), st.just("localhost"))
PORTS = st.sampled_from(["", ":443", ":80", ":5000"])
TAGS = st.from_regex(r"[A-Za-z0-9_][-._A-Za-z0-9]{0,5}", fullmatch=True)


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """Draw domain with port, path and tag of an image, and one of its spellings."""
    domain, path, tag = draw(DOMAINS), "/".join(draw(st.lists(PART, min_size=1, max_size=3))), draw(TAGS)
    port = draw(PORTS) if domain != "docker.io" else ""
    full_path = f"library/{path}" if domain == "docker.io" and "/" not in path else path
    written = domain if domain != "docker.io" else draw(st.sampled_from(["docker.io", "index.docker.io"]))
    written = "".join(draw(st.sampled_from((letter, letter.upper()))) for letter in written)
    shown = port or draw(st.sampled_from(["", ":443", ":80", ":0443"]))
    spelling = f"{written}{shown}/{draw(st.sampled_from((path, full_path)))}"
    hidden = domain == "docker.io" and ("/" not in path or not any(sign in path.split("/")[0] for sign in ".:"))
    if hidden and path.split("/")[0] != "localhost" and draw(st.booleans()):
        spelling = path
    if tag != "latest" or draw(st.booleans()):
        spelling += f":{tag}"
    return domain + (port if port == ":5000" else ""), full_path, tag, spelling


@given(spellings())
def test_all_spellings_of_an_image_have_the_same_full_name(image: tuple[str, str, str, str]) -> None:
    """The registry's case, default ports, aliases of Docker Hub, and all parts that may be omitted."""
    domain, path, tag, spelling = image
    assert full_image_name(spelling) == f"{domain}/{path}:{tag}"


@given(spellings(), spellings())
def test_a_rule_matches_all_spellings_of_an_image(
    image: tuple[str, str, str, str], rule: tuple[str, str, str, str]
) -> None:
    """And no other image or repository."""
    domain, _, tag, spelling = image
    for pattern, means in (
        (rule[3] if rule[3].endswith(f":{rule[2]}") else f"{rule[3]}:{rule[2]}", rule[:3] == image[:3]),
        (f"{rule[0]}/{rule[1]}:*", rule[:2] == image[:2]),
        (f"{rule[0]}/{rule[1]}", rule[:2] == image[:2]),
        (f"{rule[0].upper()}/*", rule[0] == domain),
        (f"*:{rule[2]}", rule[2] == tag),
    ):
        assert bool(Images(deny=[pattern]).refusal(spelling)) == means, pattern
        assert bool(Images(allow=[pattern]).refusal(spelling)) != means, pattern


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_is_accepted_or_refused_as_a_name_and_a_pattern(text: str, pattern: str) -> None:
    """No other exception is raised, and a full name is its own full form."""
    assert full_image_name(full_image_name(text)) == full_image_name(text)
    assert pattern_in_full(pattern)


RULES = [
    # pattern, image, whether the pattern matches it
    ("python:*", "python:3.11", True),
    ("python:*", "python:5000/evil/img:1", False),
    ("python:*", "evil/python:3.11", False),
    ("python:*", "docker.io/library/python:3.11", True),
    ("python", "python:3.11", True),
    ("python", f"python@{DIGEST}", True),
    ("bert*", "bert.evil.example/x:1", False),
    ("bert*", "bert-large:1", True),
    ("lab/*", "lab/bert:3", True),
    ("lab/*", "lab.example/bert:3", False),
    ("lab/*", "lab:443/bert:3", False),
    ("lab:443/*", "lab:443/bert:3", True),
    ("docker.io/*", "index.docker.io/library/python:3", True),
    ("index.docker.io/*", "python", True),
    ("docker.io/nv*", "nvidia/cuda:12", True),
    ("ghcr.io/lab/*", "GHCR.IO:443/lab/bert:3", True),
    ("ghcr.io:80/lab/*", "ghcr.io/lab/bert:3", True),
    ("ghcr.io:5000/lab/*", "ghcr.io/lab/bert:3", False),
    ("reg.example:*/*", "reg.example/bert:3", True),
    ("reg.example:*/*", "reg.example:5000/bert:3", True),
    ("*.corp.example/*", "a.CORP.example/bert:3", True),
    ("*:latest", "bert", True),
    ("*:latest", f"bert@{DIGEST}", False),
    ("*/bert:*", "x.example:5000/a/bert:3", True),
]


@pytest.mark.parametrize(("pattern", "image", "means"), RULES)
def test_patterns_match_the_images_that_they_mean(pattern: str, image: str, means: bool) -> None:
    assert bool(Images(deny=[pattern]).refusal(image)) == means
    assert bool(Images(allow=[pattern]).refusal(image)) != means


def test_a_digest_decides_over_a_tag() -> None:
    """A rule that allows a tag allows no other content, and a rule that denies a tag denies it with a digest, too."""
    assert Images(allow=["python:3.11"]).refusal(f"python:3.11@{DIGEST}")
    assert Images(deny=["python:3.11"]).refusal(f"python:3.11@{DIGEST}")
    assert not Images(allow=["python:*"]).refusal(f"python:3.11@{DIGEST}")


@pytest.mark.parametrize("pattern", ["", "a b", "Bert*", "ghcr.io/Lab/*", "registry.example*"])
def test_a_pattern_that_can_match_nothing_is_refused(pattern: str) -> None:
    """It would silently deny nothing."""
    with pytest.raises(InvalidInput) as caught:
        parse_policy({"images": {"deny": [pattern]}})
    assert "registry.example.org/team/*" in caught.value.faults[0].hint
