"""`pgassay upgrade`: what another major version does to a server, found on copies."""
