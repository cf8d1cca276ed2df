"""History in SQL: runs of all times, the usage ledger and the audit trail. It knows nothing of Kubernetes.

Begin with `store.History`, all of it behind one object. Each of the other modules has the statements of one subject:

runs, lost_time          records of runs and their attempts, and the causes of the time that they lost
usage, usage_over_time   usage between two times, in total, by day and by hour
sums                     the sums of whole days, and the removal of old runs
telemetry, node_figures  bands of runs and figures of nodes, downsampled with age
network                  traffic, and addresses in use
audit                    the append-only trail of changes
dump                     rows as plain values, from one database into another
databases                SQLite and PostgreSQL behind one interface, and the versions of the schema
"""
