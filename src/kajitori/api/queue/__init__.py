"""The queue in the Web API: its order, why a run waits, and what-ifs about runs that are not submitted yet. Begin with
`waiting.explanation_of`."""
