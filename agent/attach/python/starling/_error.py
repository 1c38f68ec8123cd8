class SwarmError(RuntimeError):
  """What is wrong, and what to do."""
