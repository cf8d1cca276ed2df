"""The queue: order, backfill, preemption, guarantees, and why a run waits."""
