"""What is described and not judged: device use, network, maintenance work. Pure."""
