"""The queue: order, backfill, preemption, guarantees, and why a run waits. Begin with `cycle.run_cycle`.

cycle        one pass over the queue, in numbered steps; the other modules are its steps
ordering     which run is looked at first; `expected` estimates the lengths that it compares
backfill     what starts now, and for which runs nodes are reserved
elastic      gangs that grow
preemption   which gangs are preempted for which runs; `victims` chooses them
guarantees   the capacity that teams are guaranteed, and which gangs use borrowed capacity
explain, freeing, forecast, what_if   answers for people: why a run waits, what would start it, and when
"""
