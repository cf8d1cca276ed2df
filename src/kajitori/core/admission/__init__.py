"""Admission of runs: policy and cluster refuse a submitted run, or resolve it into resources and Pods.

Begin with `decide.decide`. `resolve` fills in what the spec leaves out, `refusals` finds the reasons against it.
The modules `*_policy`, `run_changes`, `enforced` and the package `plain_pods` make admission policies, which the API
server itself evaluates.
"""
