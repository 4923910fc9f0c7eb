"""What `pgassay explain` reads and prints: plans with their work, as frozen data."""
