"""NetworkPolicies. The embedded cluster stores them; a network plugin would enforce them."""

from __future__ import annotations

from kajitori.embedded.apiserver.causes import Cause
from kajitori.embedded.apiserver.strategies.strategy import Object, Strategy
from kajitori.embedded.apiserver.validation.validate import validate


class NetworkPolicyStrategy(Strategy):
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
            for port in rule.get("ports") or []:
                port.setdefault("protocol", "TCP")

    def validate_create(self, obj: Object) -> list[Cause]:
        return validate("networking_v1", "NetworkPolicySpec", obj["spec"], "spec")
