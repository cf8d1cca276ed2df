"""Policy for network access and for the classes by which traffic is counted."""
