"""What members ask for in their first step: hosts, SSH keys, code."""
