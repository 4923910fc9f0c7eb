"""One trial: prepared, measured, verified and recorded by the protocol."""
