"""The input of the queue's cycle, from the mirror: waiting runs, expected lengths of runs, shares, preemptions. Begin
with `pending.PendingRuns`.

pending         the waiting runs; `outlook` adds their order and when running gangs are expected to end
usage_history   how long earlier runs took, and how much each user and team used
preemptions     runs that are preempted, and candidates for preemption
growable        elastic gangs that may grow
simulation      everything that runs, for what-ifs
"""
