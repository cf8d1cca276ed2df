"""The Pods of a run: template, mounts, first step, launcher."""
