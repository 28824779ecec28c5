"""What reading is made of: `stream` is one reader's stream, `runs` the runners that fill it."""
