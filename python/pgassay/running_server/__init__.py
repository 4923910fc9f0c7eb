"""A server that runs already, looked at while it works: opened by libpq's rules, sampled, never changed."""
