"""The only room that writes to the API server."""
