"""What the API server tells us, kept in memory: the World, its informers and its periodic resync."""
