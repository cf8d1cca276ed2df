"""What runs hold, and for how long: the open and closed parts of a run's usage, sums of them, and prices.

ledger   the usage in a run's status: what it holds now, what it held, and the totals
sums     usage by team, owner, type, run or node, between two times
records  what history keeps of a run
"""
