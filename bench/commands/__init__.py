"""What a user waits for at the command line and in Python."""
