"""Parts that all answers share: pages of lists, compression, and errors as problem+json. Begin with
`problems.problem_of`."""
