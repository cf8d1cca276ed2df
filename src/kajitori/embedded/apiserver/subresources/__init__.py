"""Subresources: binding, eviction, scale, and requests that are passed on to kubelets. Begin with
`objects.Subresources`."""
