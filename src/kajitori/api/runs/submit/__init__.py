"""Submission of runs: from a request to a Run, a dry run, a what-if or a command line. Begin with
`submission.submit`."""
