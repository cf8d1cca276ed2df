"""Network checks and benchmarks."""
