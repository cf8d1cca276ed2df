"""Readable names for runs that nobody named."""

from __future__ import annotations

import re
from hashlib import sha256

from kajitori.core.names import RUN_NAME_MAX_LENGTH

_STEM_LENGTH = 20


def make_name(image: str, taken_randomness: str) -> str:
    """A name such as `bert-brisk-heron` for a run of `registry/bert:3`: a pure function of its two arguments.

    `taken_randomness` is any random text; whoever finds the name taken calls again with another one.
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
