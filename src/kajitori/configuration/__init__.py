"""Configuration of processes: options, operators' files, private files, and discovery of a running `kaji up`."""
