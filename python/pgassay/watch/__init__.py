"""`pgassay watch`: `reading` what servers and running experiments do, `drawing` it in a terminal."""
