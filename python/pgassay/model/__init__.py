"""The words of pgassay as frozen data; imports no stage."""
