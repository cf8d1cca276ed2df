"""Placement of gangs on nodes. Begin with `planner.place`.

snapshot   the nodes and their usage, as arrays
planner    whether a gang fits, and a node for each of its members
choosing   which of the nodes with room are taken
rooms      the room for each shape, kept up to date while a cycle places gangs
releases   when running gangs will have freed enough room
"""
