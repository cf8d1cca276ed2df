"""Subcommands of `kaji policy`: what a new policy changes, and checks of manifests and Pods against the policy."""
