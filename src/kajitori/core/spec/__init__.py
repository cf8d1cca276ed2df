"""A Run as people write and read it: spec, status, reasons, and its definition in Kubernetes.

run, parts, array, notify, network_access   the fields of the spec
parsing, draft, stored                      reading a spec: strictly, with its faults, and as far as it can be read
status, status_check, reasons               the fields of the status, and the check of a stored one
kinds                                       runs that are expected to take about as much time and memory
definition, command_line                    a Run as a custom resource, and as a command
"""
