"""The shim: one small process per container that outlives the kubelet.

It starts the program, keeps its log and its exit code, and holds what has to hold while no kubelet is there: the memory
limit, the grace period, and that nothing of the container stays behind. Standard library only, and few modules of it:
it is started for every container, as `python -I -S`, and imports nothing of the rest of Kajitori.
"""
