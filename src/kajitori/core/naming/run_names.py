"""Names of runs: generated names, and candidates for completion in a shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

from kajitori.core.naming.names import RUN_NAME_MAX_LENGTH

_STEM_LENGTH = 20


def make_name(image: str, taken_randomness: str) -> str:
    """Return a name such as `bert-brisk-heron` for a run of `registry/bert:3`. It depends on the arguments only.

    `taken_randomness` is any random text. If the name is already taken, call again with another text.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", image.split("@")[0].rsplit("/", 1)[-1].split(":")[0].lower())
    stem = re.sub(r"^[^a-z]+", "", stem)[:_STEM_LENGTH].strip("-") or "run"
    number = int.from_bytes(sha256(taken_randomness.encode()).digest()[:8], "big")
    number, adjective = divmod(number, len(_ADJECTIVES))
    name = f"{stem}-{_ADJECTIVES[adjective]}-{_NOUNS[number % len(_NOUNS)]}"
    return name[:RUN_NAME_MAX_LENGTH]


_ADJECTIVES = """
able agile amber ample apt aqua ardent azure bold brave breezy bright brisk calm candid chief civil clear
clever cosy crisp curious daring deft eager early easy elated epic fair fancy fast fine firm fleet fluent fond
frank free fresh gentle giddy glad golden grand green happy hardy hearty humble ideal jolly jovial keen kind
lasting lively loyal lucid lucky lunar mellow merry mighty modest neat nimble noble novel open patient placid
playful polite prime proud quick quiet rapid ready robust rosy royal sharp silent silver sleek smart smooth
snug solar solid steady still stout sunny swift tidy trusty upbeat vivid warm wise witty zesty
""".split()  # noqa: SIM905

_NOUNS = """
albatross anchor anemone atoll auk barge bay beacon beluga bosun bow brig buoy canoe capstan captain cay clam
cliff clipper coast cockle compass conch coral cove crab crane creek current cutter delta dinghy dock dolphin
dune eel egret ferry fjord fleet gannet grebe gull gulf halyard harbour heron hull island jetty jib kayak keel
kelp ketch kittiwake lagoon lantern limpet lobster lugger manatee marina mast mole mussel narwhal nautilus oar
ocean octopus osprey otter oyster paddle pearl pelican pier pilot plover porpoise puffin quay raft reef rudder
sail salmon schooner seal sextant shoal skiff skipper sloop squid starfish stern stork strait tern tide tiller
trawler tuna turtle walrus wave whale wharf yacht yawl
""".split()  # noqa: SIM905


def branches(names: Iterable[str], most: int) -> tuple[list[str], list[str]]:
    """Return completion candidates for a shell: names and, if there are more than `most`, common prefixes of names.

    Each prefix is the longest that its names share, so that a shell that inserts the common part of its candidates
    never inserts too much. Both lists are sorted. There may be slightly more than `most` candidates, if a prefix has
    that many continuations.
    """
    groups = {"": sorted(set(names))}
    open_groups = [""]
    while open_groups:
        widest = max(open_groups, key=lambda prefix: len(groups[prefix]))
        open_groups.remove(widest)
        parts = _group_by_next_character(groups[widest])
        if len(groups) > 1 and len(groups) - 1 + len(parts) > most:
            continue
        del groups[widest]
        groups |= parts
        open_groups += [prefix for prefix, members in parts.items() if len(members) > 1]
    whole = [members[0] for members in groups.values() if len(members) == 1]
    return sorted(whole), sorted(prefix for prefix, members in groups.items() if len(members) > 1)


def _group_by_next_character(names: Sequence[str]) -> dict[str, list[str]]:
    """Group sorted names by the character after their common prefix. The key of a single name ends with a character
    that no name contains, so that a name is not confused with the prefix of others."""
    common = _common_length(names)
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name[: common + 1], []).append(name)
    return {_prefix_key(group): group for group in found.values()}


def _prefix_key(names: Sequence[str]) -> str:
    return names[0][: _common_length(names)] if len(names) > 1 else f"{names[0]}\n"


def _common_length(names: Sequence[str]) -> int:
    """Return the length of the common prefix of sorted names, which is that of the first and the last one."""
    if not names:
        return 0
    pairs = zip(names[0], names[-1], strict=False)
    shorter = min(len(names[0]), len(names[-1]))
    return next((place for place, (one, other) in enumerate(pairs) if one != other), shorter)
