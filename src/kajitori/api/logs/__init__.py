"""Logs of members: from their Pods, and from the store after the Pods are deleted. Begin with `source.MemberLog`."""
