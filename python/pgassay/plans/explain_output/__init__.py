"""EXPLAIN's output as it is found: in JSON or text, within whatever a program or a log printed around it."""
