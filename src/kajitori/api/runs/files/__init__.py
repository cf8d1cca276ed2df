"""Files of a run's checkpoint folder, which are read while the run is running and after it has ended. Begin with
`routes.list_files`."""
