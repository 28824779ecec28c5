"""Speed: one question a file."""
