"""Function calls on the cluster (`Client.function`): the queue that decides which worker of a run does which call."""
