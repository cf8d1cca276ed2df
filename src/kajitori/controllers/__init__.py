"""Thin shells around `core`: they read the mirror, ask `core` what to do, and write the result to the API server. Begin
with `run_controller.RunController.run`, the loop, and `reconciler.Reconciler.reconcile`, one step of one run. `queue`
plans and starts waiting runs; the other packages keep records, nodes, messages and telemetry up to date beside the
loop."""
