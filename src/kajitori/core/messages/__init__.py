"""Decisions about messages: which are due, the channels that get them, their text, and the next request. Begin with
`notices.with_notices`."""
