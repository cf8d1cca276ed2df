"""The Web API's listening socket, deadlines and limits, and the middleware of every request. Begin with
`server.ApiServer`."""
