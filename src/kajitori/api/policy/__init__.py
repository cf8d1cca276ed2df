"""Routes about the policy: show the one in force, check a new one, compare both, and check everybody's Pods against it.
Begin with `routes.check_policy`."""
