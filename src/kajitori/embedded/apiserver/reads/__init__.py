"""Reading: lists, watches and tables. Begin with `lists.Lister`."""
