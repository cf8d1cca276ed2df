"""Functions as runs: calls that workers of a run do, and their results. Begin with `function.function`."""
