"""Any part of a log: windows of lines for a page, and searches. Begin with `windows.Window`."""
