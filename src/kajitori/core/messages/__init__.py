"""Messages about runs: which are due, to whom, in which words, and what is sent next. Nothing here sends."""
