"""Routes for members in their first step: hosts, SSH keys, code."""
