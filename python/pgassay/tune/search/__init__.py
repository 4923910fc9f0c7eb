"""The search: what each candidate touches and gains alone and on top of others, and which are taken."""
