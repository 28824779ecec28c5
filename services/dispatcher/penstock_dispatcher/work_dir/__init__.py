"""Files in a dispatcher's work directory, besides the journal: definitions, listings, the key."""
