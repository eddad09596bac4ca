"""The compiled driver: expire, probe, emit, shed, admit."""
