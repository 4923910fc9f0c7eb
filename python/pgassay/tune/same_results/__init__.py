"""Whether two statements return the same rows: on the data, and on small instances made to tell them
apart."""
