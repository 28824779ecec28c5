"""What stands between a process and its wall clock."""
