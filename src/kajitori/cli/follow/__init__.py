"""Following a run: progress, logs, interrupts, and waiting for its end."""
