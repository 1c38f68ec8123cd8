"""What agents agreed on outlives the program that wrote it, and the words it was written in."""

import shutil

import swarm

GOLDEN = swarm.ROOT / 'tests/golden/state-0.1.0'
GOLDEN_STEP = 150

# The swarm of GOLDEN in the words of a person.
GOLDEN_CONFIG = """
swarm:
  name: golden
  rng_seed: 42
  model: {kind: quadratic, dimension: 300}
  optimizer: {learning_rate: 0.05, momentum: 0.5}
  local_steps: 2
  exchange: {kind: pairwise, codec: modulo8, share: [params, momentum], block: 128}
  membership: {probe_interval: 250ms, probe_timeout: 150ms, suspicion: 3}
"""


class Stored(swarm.Case):
  def golden_folder(self, name):
    folder = self.folder / name / 'state'
    shutil.copytree(GOLDEN, folder)
    return folder

  def golden_config(self):
    path = self.folder / 'golden.yaml'
    path.write_text(GOLDEN_CONFIG)
    return path

  def test_a_folder_of_version_0_1_0_resumes_at_its_step(self):
    for name, arguments in [('stored', []), ('configured', ['--config', self.golden_config()])]:
      folder = self.golden_folder(name)
      agent = self.agent(name, *arguments)
      self.assertEqual(self.joined(agent, 'resumed')['steps'], GOLDEN_STEP)
      self.assertEqual((folder / 'settings.yaml').read_bytes(), (GOLDEN / 'settings.yaml').read_bytes())
      self.assertEqual(self.interrupt(agent)[0], 0)

  def test_a_text_in_other_words_is_kept_and_a_config_that_means_the_same_is_of_it(self):
    folder = self.folder / 'a' / 'state'
    folder.mkdir(parents=True)
    text = (GOLDEN / 'settings.yaml').read_text().replace('momentum: 0.5\n', 'momentum: 5e-1   # half\n', 1)
    (folder / 'settings.yaml').write_text(text)
    first = self.agent('a')
    self.joined(first, 'genesis')
    self.wait(lambda: first.steps() > 20, 'some steps')
    self.assertEqual(self.interrupt(first)[0], 0)
    saved = first.last('checkpoint')['steps']
    again = self.agent('a', '--config', self.golden_config())
    event = self.wait(lambda: again.last('joined', how='resumed'), 'the agent to resume')
    self.assertEqual(event['steps'], saved)
    self.assertEqual((folder / 'settings.yaml').read_text(), text)
    # Who begins the swarm in words of its own is let in, and takes theirs. The default of clip was 0 then.
    other = self.agent(
      'other',
      '--config',
      self.golden_config(),
      '--set',
      'swarm.exchange.outlier_clip=0',
      '--bootstrap',
      again.address(),
    )
    self.joined(other, 'fetched')
    self.wait(lambda: other.done() >= 3, 'exchanges')
    self.assertEqual((other.state / 'settings.yaml').read_text(), text)

  def refused(self, folder, arguments, *texts):
    """The agent ends with these texts before it began, and leaves settings and checkpoints as they are."""

    def kept():
      paths = [folder / 'settings.yaml', *(folder / 'checkpoints').glob('*')]
      return {path: path.read_bytes() for path in paths}

    before = kept()
    agent = self.agent('a', *arguments)
    self.assertEqual(self.wait_end(agent), 1, self.logs())
    for text in texts:
      self.assertIn(text, agent.log())
    self.assertEqual(agent.events(), [])
    self.assertNotIn('join with: starling agent', agent.log())
    self.assertEqual(kept(), before)
    agent.log_path.write_text('')

  def test_a_config_that_means_something_else_is_of_another_swarm(self):
    folder = self.golden_folder('a')
    self.refused(
      folder,
      ['--config', self.golden_config(), '--set', 'swarm.batch=65'],
      'batch: 65 here, 64 there',
      str(folder),
      '--state',
    )
    other = self.agent('other', '--config', self.golden_config(), '--set', 'swarm.batch=65')
    self.joined(other, 'genesis')  # the remedy: a folder of its own

  def test_settings_that_were_edited_are_refused(self):
    folder = self.golden_folder('a')
    path = folder / 'settings.yaml'
    text = path.read_text()
    path.write_text(text.replace('batch: 64', 'batch: 65', 1))
    self.refused(folder, [], str(path), 'edited', '--state')
    shutil.rmtree(folder / 'checkpoints')
    path.write_text(text.replace('rng_seed: 42', 'rng_seed: 43', 1))
    agent = self.agent('a')
    self.assertEqual(self.wait_end(agent), 1, self.logs())
    genesis = text.split('genesis: ')[1][:8]
    for part in ['first params', genesis, 'edited', '--bootstrap', '--state']:
      self.assertIn(part, agent.log())

  def test_empty_settings_are_refused(self):
    folder = self.golden_folder('a')
    (folder / 'settings.yaml').write_bytes(b'')
    for arguments in [[], ['--config', self.golden_config()]]:
      self.refused(folder, arguments, f'{folder}/settings.yaml is empty', '--state')

  def test_a_damaged_text_is_named_with_the_remedy(self):
    folder = self.golden_folder('a')
    for content in [b'\xff\xfe garbage', bytes(4096), (GOLDEN / 'settings.yaml').read_bytes()[:500], b'x' * 40000]:
      (folder / 'settings.yaml').write_bytes(content)
      agent = self.agent('a')
      self.assertEqual(self.wait_end(agent), 1, self.logs())
      self.assertIn(f'{folder}/settings.yaml', agent.log())
      self.assertIn('ove ', agent.log())  # "Move the file away", "move it away"
      self.assertEqual((folder / 'settings.yaml').read_bytes(), content)
      agent.log_path.unlink()


if __name__ == '__main__':
  swarm.main()
