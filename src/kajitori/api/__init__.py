"""The Web API.

app         the application: routes and the OpenAPI document
context     state and collaborators that all routes share
auth        authentication and authorisation of callers
requests    what all requests pass: middleware, limits of callers, bodies
answers     what all answers share: pages, compression, errors as problem+json
serving     uvicorn inside a running event loop, and its limits for connections
runs        submit, list, watch, stop, resume, delete; members and results
queue       the queue, explanations, and what-if questions
logs        logs of members, from Pods and from the store
streams     long answers, events, exec
nodes       nodes, their health, and the GPU board
start       hosts, SSH keys and code for members in their first step
traffic     network traffic and the address registry
code, secrets, volumes, policy, health      one module per subject
"""
