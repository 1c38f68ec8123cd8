"""The library's texts name flags and keys of the program; here they are arguments of join()."""

import re

FLAGS = re.compile(
  r'--(bootstrap|state|listen|advertise|config|name|metrics|wait-for)\b'
  r'(?: (?!and\b|or\b)([\w.-]+:\w+|[A-Z][A-Z_]+\b|N\b))?'
)


def for_python(text):
  text = re.sub(r'--set (?=[\w.]+=)(?:swarm\.)?', '', text)
  text = re.sub(r'--alone\b', 'alone=True', text)
  text = text.replace('init --task digits', 'init --task own').replace(', or name the swarm with --swarm ID', '')
  text = re.sub(
    r"\('starling init --from \S+ new.yaml'\)", '(a loop that has loaded it, and a state= of its own)', text
  )
  text = re.sub(
    r"(?<!mean ')swarm\.optimizer\.learning_rate(?: \(now [^)]*\))?", "learning rate of the loop's optimizer", text
  )
  return FLAGS.sub(lambda flag: f'{flag[1].replace("-", "_")}={flag[2] or ""}', text)


def setting(value):
  """A value as a config file has it."""
  if isinstance(value, bool):
    return 'on' if value else 'off'
  if isinstance(value, (list, tuple)):
    return '[' + ', '.join(setting(one) for one in value) + ']'
  return str(value)


def settings(section, values):
  """'swarm.exchange.kind=group' of 'swarm', {'exchange': {'kind': 'group'}}."""
  for key, value in values.items():
    if value == {}:
      raise ValueError(f'{section}.{key} is empty: leave it out')
    if isinstance(value, dict):
      yield from settings(f'{section}.{key}', value)
    else:
      yield f'{section}.{key}={setting(value)}'
