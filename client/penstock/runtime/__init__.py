"""What a process is made of: event loop, background thread, signals, settings, clocks, usage."""
