"""What the server tells of itself: groups, versions, resources and OpenAPI."""
