"""What `kaji` says of itself to people, shells and programs: completion, descriptions and the shapes of its output."""
