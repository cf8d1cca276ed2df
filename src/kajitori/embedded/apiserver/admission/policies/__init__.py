"""ValidatingAdmissionPolicy: rules about requests that are objects of the cluster, written in CEL."""
