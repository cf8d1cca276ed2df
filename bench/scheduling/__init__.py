"""Planning, the queue, and replays of recorded logs."""
