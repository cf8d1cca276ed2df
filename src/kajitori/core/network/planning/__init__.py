"""Address plans: whether a kind of Pod network can carry a cluster, and until when. Begin with `plan.plan_all`."""
