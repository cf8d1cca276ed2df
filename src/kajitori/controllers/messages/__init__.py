"""Messages: channels of people and teams, their outboxes, and the process that sends. Begin with
`dispatcher.MessageDispatcher`."""
