"""Long-lived answers: changes, events, exec."""
