"""OpenID providers: sign-in, and verification of their ID tokens. Begin with `flows`.

`flows`, `provider` and `tokens` are a client's requests and their answers without I/O: the command line and the Web API
each use their own HTTP client. `id_tokens` verifies tokens as `authentication_config` demands, with the keys that
`issuer_keys` fetches.
"""
