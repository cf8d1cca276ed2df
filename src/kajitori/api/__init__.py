"""The Web API.

app         the application: routes and OpenAPI          server      serves it with uvicorn inside a running event loop
context     what the routes share                       auth        who calls, and what he may do
problems    errors as problem+json                      middleware  body limit, measurement, a net under all bugs
runs, members, submission, changes, waiting             runs: read, list, watch; submit; stop, resume, delete; explain
logs (log_source and what it is made of, log_merge), events (event_feed), exec      what runs and members say and do
nodes, board, policy, health                            the cluster and this server
streams, hub, tracking, paging, selectors, lookup       what several of these need
views, node_views, waiting_views                        what is answered, as types
"""
