"""The answers of the Web API as types. Its OpenAPI document is made from them. Begin with `runs.RunView`."""
