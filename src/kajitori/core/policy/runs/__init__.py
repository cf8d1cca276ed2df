"""Policy for what runs ask for, and for what their Pods get."""
