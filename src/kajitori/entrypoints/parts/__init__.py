"""Builders that several processes share: the Web API, the run controller, their stores, and what `kaji up` adds."""
