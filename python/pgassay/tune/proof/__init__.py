"""The proof of what a search chose: its arms, its experiment, what that says, and its two stages."""
