"""Addresses in use now: on the nodes and in the ranges of the registry, and the date at which they run out. Begin with
`pools.pools_of`."""
