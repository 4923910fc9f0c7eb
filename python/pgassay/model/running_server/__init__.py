"""What is said of a server that runs already: an interval watched, and its diagnosis."""
