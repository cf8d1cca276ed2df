"""Make answers of the Web API from the objects of the cluster."""
