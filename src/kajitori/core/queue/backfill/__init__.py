"""Backfill: start what fits in the queue's order, and reserve nodes for runs that do not fit.

The first run that does not fit gets a reservation: the earliest time at which enough running gangs are expected to have
ended, and nodes for that time. A later run may pass it if it is expected to have ended by then, or if it leaves the
reservation the nodes that it needs. If runs want different nodes (another GPU type, another pool), the first run of
each such group has a reservation of its own. Before any run of lower priority is looked at, the other runs of the
higher priority get reservations, too: runs of equal priority may delay them, runs of lower priority may not. Services
and foreign Pods have no known end, so they never free anything; a run that waits for them has no reservation and holds
no other run back.

A run of lower priority that passed a reservation may take longer than expected. Then the reservation stays at the time
at which it would begin if that run ended at once: if the run's new expected end counted, more runs could pass, take
longer in turn, and delay the reservation for ever.

schedule      one pass over the queue: what starts, and for which runs nodes are reserved
reservations  a reservation, and the time by which other runs must end so that they do not delay it
free_room     the room that is free now, and the part of it that no reservation needs
"""
