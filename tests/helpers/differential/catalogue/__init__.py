"""The kinds in the random sequences of requests: paths, one valid object of each, and pieces that change it.

A piece is merged into an object, or sent alone as a patch. Valid and invalid pieces are mixed on purpose.
"""

from __future__ import annotations

from tests.helpers.differential.catalogue.cluster import EVENTS, LEASES, NAMESPACES, NODES
from tests.helpers.differential.catalogue.configuration import CONFIG_MAPS, SECRETS, SERVICES
from tests.helpers.differential.catalogue.custom import BOATS, OLD_BOATS, RUNS
from tests.helpers.differential.catalogue.pods import PODS
from tests.helpers.differential.catalogue.policies import BUDGETS, LIMITS, NETWORK_POLICIES, PRIORITIES, QUOTAS
from tests.helpers.differential.catalogue.sample import META, KindSample, Object
from tests.helpers.differential.catalogue.storage import CLAIMS, VOLUMES

__all__ = ["META", "SORTS", "KindSample", "Object"]

SORTS = (
    PODS,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    NODES,
    LEASES,
    NAMESPACES,
    EVENTS,
    CLAIMS,
    VOLUMES,
    QUOTAS,
    LIMITS,
    BUDGETS,
    NETWORK_POLICIES,
    PRIORITIES,
    BOATS,
    OLD_BOATS,
    RUNS,
)
