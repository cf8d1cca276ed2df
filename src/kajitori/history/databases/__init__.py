"""The databases of history: SQLite in one file, or PostgreSQL. `database` is the interface that the queries use,
`schema` takes a database to the newest version of its tables (`versions`), `failures` makes Kajitori's errors. Begin
with `database.Database`."""
