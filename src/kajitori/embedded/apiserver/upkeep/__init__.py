"""Changes that the server makes itself: deletion, garbage collection, contents of namespaces. Begin with
`controllers.Controllers`."""
