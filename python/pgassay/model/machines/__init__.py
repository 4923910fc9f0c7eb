"""What is printed of experiments on several machines."""
