"""History in SQL: ended runs, the usage ledger and the audit trail. It knows nothing of Kubernetes."""
