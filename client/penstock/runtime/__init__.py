"""Parts of a process: event loop, background thread, signals, settings, clocks, usage."""
