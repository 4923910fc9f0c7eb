"""The causes that the bench plants in real servers, and how what pgassay says of them is judged."""
