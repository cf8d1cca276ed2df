"""Everything that decides: functions of state and time, without a clock, a network or an event loop.

Begin with `admission.decide` (may this run exist, and what does it become), `queue.cycle.run_cycle` (which run starts
when) and `gang.next_step` (what does a run need next).

formats, documents   how amounts, times and lists of nodes are written; files of users and their faults
naming, kubernetes   names that Kajitori gives to objects; Kubernetes' own rules for names, selectors and taints
spec, policy         what users and operators write; `spec` has the status, too
admission, pods      from a spec to a refusal or to a Pod template
placement, queue     nodes for gangs; order, backfill and preemption of waiting runs
gang                 the life of a run
gpus, nodes          devices and how Pods ask for them; health, tests and pools of nodes
usage, traffic, telemetry, logs   what runs used, sent, measured and printed
messages, calls, proxy            messages to people, calls of functions, web pages of programs
network, protection               addresses of many clusters; limits that protect servers
"""
