"""SSH to members that have no SSH server in their image: OpenSSH's client talks to a server that runs on this machine,
and each session is a command in the member. Begin with `serving.serve`."""
