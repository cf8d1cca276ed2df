"""Following a run: progress, logs, interrupts, and waiting for its end. Begin with `follow.follow_to_the_end`."""
