"""The Web API. Begin with `app`, which lists the routes, and `context`, the state that all routes share.

auth, rights, bindings   who a caller is, what the caller may do, and in which namespaces
requests    what all requests pass: middleware, limits of callers, bodies
answers     what all answers share: pages of lists, compression, errors as problem+json
views       the types of the answers, from which the OpenAPI document is made
rendering   runs, members and nodes as answers show them
serving     uvicorn inside a running event loop, and its limits for connections
runs        submit, list, watch, stop, resume, delete; members and results
queue       the queue, explanations, and what-if questions
logs        logs of members, from Pods and from the store
telemetry   figures of runs: bands over ranks, stacks, stuck and idle runs
streams     what long answers wait for: rows of tables, events, addresses of members
nodes       nodes, their health, pools, and the GPU board
history     runs of all times, usage, the audit trail
start       hosts, SSH keys and code for members in their first step
traffic     network traffic and the address registry
identity, browsers   people and robots; sessions of browsers
proxy, programs      web pages of runs' programs
namespaces  what runs of a namespace use: code, Secrets, volumes, quotas
policy, channels, health      one subject each
"""
