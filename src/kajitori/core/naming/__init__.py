"""Names that Kajitori gives: labels, annotations and objects in Kubernetes; runs; files of a member's first step."""
