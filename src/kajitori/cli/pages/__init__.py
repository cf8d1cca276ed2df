"""Output that several verbs share: why a run waits, figures of a node, pools that can grow, places in the queue. Begin
with `explanation.print_explanation`."""
