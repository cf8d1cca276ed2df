"""The cluster in the types of `core`: what the mirror holds, and the objects that Kajitori reads from it."""
