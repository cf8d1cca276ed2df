"""History in SQL: runs of all times, the usage ledger and the audit trail. It knows nothing of Kubernetes.

database   what the queries need of a database: SQLite in one file, or PostgreSQL
schema     versions of the schema, and the way from one to the next
runs       records of runs and their attempts, lists of them
usage      usage between two times
sums       the sums of whole days, and the removal of old runs
telemetry  bands of telemetry, downsampled with age
node_figures   figures of nodes, downsampled in the same way
audit      the append-only trail of changes
dump       rows as plain values, from one database into another
store      all of it behind one object
"""
