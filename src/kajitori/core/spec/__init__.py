"""A Run as people write and read it: spec, status, reasons, and its definition in Kubernetes. Begin with `run.RunSpec`.

run, parts, array, notify, network_access   the fields of the spec
reading     how specs and statuses are read: strictly (parsing), with faults (draft), field by field (stored), damaged
            ones (status_check)
status, status_parts, reasons               the status, its parts by subject, and its reasons
note                                        the note that people write about a run
kinds                                       runs that are expected to take about as much time and memory
definition, command_line                    a Run as a custom resource, and as a command
"""
