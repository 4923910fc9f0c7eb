"""The answer of tune in a few sentences, and whether it is that nothing is to be done."""
