"""Policy for the order of the queue and for preemption."""
