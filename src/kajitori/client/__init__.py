"""The Python client of the Web API: requests over HTTP with the standard library alone. `kaji` uses it, too.

Begin with `client`, the synchronous client; `asynchronous` has the same for asyncio. `target` chooses the server,
`web_api` sends requests, and `streams` follows logs and changes. `submit` makes a request of `kaji run`'s options,
`functions` runs Python functions, `members` connects to members, `sign_in` signs in.
"""
