"""The shim: one small process per container that outlives the kubelet. Begin with `main.Shim`.

It starts the program, keeps its log and its exit code, and enforces what must hold while no kubelet runs: the memory
limit, the grace period, and that no process of the container is left over. It uses the standard library only, and few
modules of it, since it is started for every container as `python -I -S`. It imports nothing else of Kajitori.
"""
