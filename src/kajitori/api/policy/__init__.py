"""The policy: in force, checked, compared with a new one, and applied to everybody's Pods."""
