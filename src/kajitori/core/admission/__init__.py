"""Admission of runs: policy and cluster refuse a submitted run, or resolve it into resources and Pods."""
