"""The meaning of an autoscaler's conditions."""

from __future__ import annotations

import pytest

from kajitori.cluster.nodes.node_requests import answer_of
from kajitori.cluster.objects import Condition, ProvisioningRequest, RequestStatus
from kajitori.core.nodes.provisioning import Answer
from kajitori.core.spec.status_parts.node_request import RequestState
from kajitori.kube.metadata import ObjectMeta

YES, NO = "True", "False"


@pytest.mark.parametrize(
    ("conditions", "answer"),
    [
        ([], Answer(RequestState.ASKED)),
        ([("Accepted", NO, "")], Answer(RequestState.ASKED)),
        ([("Accepted", YES, "taken")], Answer(RequestState.ACCEPTED)),
        ([("Accepted", YES, ""), ("Provisioned", NO, "in 5 min")], Answer(RequestState.ACCEPTED, "in 5 min")),
        ([("Accepted", YES, ""), ("Provisioned", YES, "done")], Answer(RequestState.PROVISIONED)),
        ([("Accepted", YES, ""), ("Failed", YES, "no quota")], Answer(RequestState.FAILED, "no quota")),
        ([("Failed", NO, ""), ("Accepted", YES, "")], Answer(RequestState.ACCEPTED)),
        ([("Provisioned", YES, ""), ("BookingExpired", YES, "")], Answer(RequestState.FAILED, "BookingExpired")),
        ([("Provisioned", YES, ""), ("CapacityRevoked", YES, "back")], Answer(RequestState.FAILED, "back")),
    ],
)
def test_conditions_of_a_provisioning_request_become_a_state(
    conditions: list[tuple[str, str, str]], answer: Answer
) -> None:
    """A request that was revoked, or that expired unused, has failed. The autoscaler's own message is kept."""
    parsed = tuple(Condition(type=kind, status=status, message=message) for kind, status, message in conditions)
    request = ProvisioningRequest(metadata=ObjectMeta(name="bert-1-1"), status=RequestStatus(conditions=parsed))
    assert answer_of(request) == answer
