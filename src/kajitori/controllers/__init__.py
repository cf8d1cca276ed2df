"""Thin shells around `core`: they read the mirror, ask `core` what to do, and write the result to the API server.

Begin with `run_controller.RunController.run`, the loop, and `reconciler.Reconciler.reconcile`, one step of one run.

removal      the end of a run's object
leadership   only one controller writes
changes, workqueue   which runs are reconciled, and when
queue        plans and starts waiting runs
runs         writes to the API server for single runs
nodes        marks unhealthy nodes, and tests them
records      logs, results, memory peaks and history
messages     messages to people and teams
watching     judges running runs by their telemetry
"""
