"""What processes are told: settings, operators' files, private files, and where a running `kaji up` is found."""
