"""Load for any running cluster: simulated readers, what they waited for, and what it cost."""
