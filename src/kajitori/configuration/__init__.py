"""Configuration of processes: options, operators' files, private files, and discovery of a running `kaji up`. Begin
with `followed_file.FollowedFile`."""
