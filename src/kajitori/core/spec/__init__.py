"""A Run as people write and read it: spec, status, reasons, and its definition in Kubernetes. Begin with `run.RunSpec`.

run, parts, array, notify, network_access   the fields of the spec
reading     how specs and statuses are read: strictly (parsing), with faults (draft), field by field (stored), damaged
            ones (status_check)
status, reasons, node_request, note         the fields of the status, and the note that people write
kinds                                       runs that are expected to take about as much time and memory
definition, command_line                    a Run as a custom resource, and as a command
"""
