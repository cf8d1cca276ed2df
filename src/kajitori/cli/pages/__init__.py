"""What tables and pages show of runs, the queue and pools."""
