"""What is described and not judged: plans, device use, network, maintenance work. Pure."""
