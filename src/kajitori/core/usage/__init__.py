"""The usage of runs over time: the open and closed parts of a run's usage, sums of them, and prices. Begin with
`ledger`.

ledger     the usage in a run's status: its present and past resources, and the totals
lost_time  what the time of a run was: productive, lost, starting, and by which cause; the best interval of checkpoints
daily      the sums of whole days that long times are made of
sums       usage by team, owner, type, run or node, between two times
records    the records that history keeps of a run
"""
