"""SSH to members whose image has no SSH server: OpenSSH's client talks to a server that runs on this machine, and each
session is a command in the member."""
