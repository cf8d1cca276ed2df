"""Patches, server-side apply, and managed fields. Begin with `managed.apply`."""
