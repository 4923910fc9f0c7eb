"""What an experiment says of published claims. Pure."""
