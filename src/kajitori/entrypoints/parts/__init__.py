"""Builders that several processes share: of the Web API, the run controller and their stores, and of the parts that
only `kaji up` has. Begin with `run_controller.run_controller`."""
