"""The volumes of a Pod: their files, and the mounts that show them to a container. Begin with `pod_volumes.Volumes`."""
