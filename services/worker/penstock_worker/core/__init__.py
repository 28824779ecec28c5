"""The worker's mind, without input or output. Read `mind` first, then `attempt`."""
