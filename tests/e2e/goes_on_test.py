"""A new swarm goes on from a trained model: `starling init --from`, and the members that only fetch it."""

import json
import random
import shutil
import subprocess

import export_test
import swarm

TRAINED = """
swarm:
  name: trained
  model: {kind: mlp, input: [1, 28, 28], classes: 10, hidden: [24, 16]}
  batch: 32
  optimizer: {learning_rate: 0.02, momentum: 0.9}
  exchange: {kind: pairwise, codec: modulo8}
  stop_after: 150
agent:
  checkpoint: {every: 20ms, keep: 3}
"""
GROUP = [
  '--set',
  'swarm.exchange.kind=group',
  '--set',
  'swarm.exchange.codec=fp32',
  '--set',
  'swarm.exchange.share=[params]',
]
UPDATES = [*GROUP, '--set', 'swarm.exchange.source=updates', '--set', 'swarm.exchange.overlap=off']
PACE = {'STARLING_TEST_COMPUTE_MS': '0'}


class GoesOn(swarm.Case):
  kept = None  # (state folder, accuracy) of the swarm that all tests go on from

  def setUp(self):
    super().setUp()
    self.data = self.folder / 'data'
    self.data.mkdir()
    export_test.write_digits(self.data, random.Random(7))

  def program(self, *arguments, status=0):
    command = [swarm.PROGRAM, *map(str, arguments)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    self.assertEqual(result.returncode, status, f'{command}\n{result.stdout}{result.stderr}')
    return result.stdout + result.stderr

  def trained(self):
    """The state folder of an agent of a swarm that has ended, and its accuracy."""
    if GoesOn.kept is None:
      config = self.folder / 'trained.yaml'
      config.write_text(TRAINED)
      options = ['--config', config, '--data', self.data, '--wait-for', 2]
      first = self.agent('first', *options, environment=PACE)
      self.wait(lambda: first.last('start'), 'the address of the first')
      second = self.joiner('second', first.address(), '--data', self.data, environment=PACE)
      for agent in first, second:
        self.assertEqual(self.wait_end(agent), 0, self.logs())
      GoesOn.kept = export_test.pathlib.Path(export_test.KEPT.name) / 'goes_on', first.last('finish')['accuracy']
      shutil.copytree(first.state, GoesOn.kept[0])
      self.assertGreater(GoesOn.kept[1], 0.5)
    state = self.folder / 'trained'
    if not state.exists():
      shutil.copytree(GoesOn.kept[0], state)
    return state, GoesOn.kept[1]

  def config_from(self, model, name='new.yaml'):
    config = self.folder / name
    out = self.program('init', '--from', model, '--data', self.data, config)
    return config, out, self.folder / name.replace('.yaml', '.genesis.safetensors')

  def begin(self, name, config, *options, **more):
    agent = self.agent(name, '--config', config, *options, environment=PACE, **more)
    self.wait(lambda: agent.last('start') or not agent.running(), f'{name} to start')
    return agent

  def expect_accuracy(self, agent, accuracy):
    first = self.wait(lambda: agent.events('evaluate'), f'{agent.name} to be evaluated')[0]
    self.assertLess(first['steps'], 30)
    self.assertGreater(first['accuracy'], accuracy - 0.03, self.logs())

  def test_a_new_swarm_begins_beside_the_folder_of_the_old_one(self):
    state, _ = self.trained()
    shutil.copytree(state, self.folder / 'starling-state')
    where = {'cwd': self.folder, 'capture_output': True, 'text': True, 'timeout': swarm.PATIENCE}
    made = subprocess.run([swarm.PROGRAM, 'init', '--from', 'starling-state', 'new.yaml'], **where)
    self.assertEqual(made.returncode, 0, made.stderr)
    self.assertIn('starling-state-2/ticket', made.stdout)
    self.assertIn('  state: starling-state-2 ', (self.folder / 'new.yaml').read_text())

  def test_the_model_of_a_certified_swarm_begins_a_certified_one(self):
    config = self.folder / 'trained.yaml'
    config.write_text(TRAINED.replace('  name:', '  trust: certified\n  name:').replace('150', '20'))
    old = self.agent('old', '--config', config, '--data', self.data, '--wait-for', 1, environment=PACE)
    self.assertEqual(self.wait_end(old), 0, self.logs())
    config, out, _ = self.config_from(old.state)
    self.assertIn('starling admit ID', out)
    self.assertNotIn('/ticket', out)
    new = self.begin('new', config)
    self.wait_log(new, 'starling admit ID')
    self.assertFalse((new.state / 'ticket').exists())

  def test_both_members_start_where_the_other_swarm_ended(self):
    for name, exchange in ('group', GROUP), ('updates', UPDATES):
      with self.subTest(name):
        state, accuracy = self.trained()
        config, out, genesis = self.config_from(state, f'{name}.yaml')
        self.assertIn(f'wrote {genesis}: the model of {state}/checkpoints/', out)
        options = ['--set', 'swarm.stop_after=60', '--set', 'swarm.optimizer.learning_rate=0.005']
        founder = self.begin(f'{name}-founder', config, *exchange, *options)
        other = self.joiner(f'{name}-other', founder.address(), '--data', self.data, environment=PACE)
        self.joined(founder, 'genesis')
        self.joined(other, 'fetched')
        for agent in founder, other:
          self.expect_accuracy(agent, accuracy)
        for agent in founder, other:
          self.assertEqual(self.wait_end(agent), 0, self.logs())
          self.assertGreater(agent.last('finish')['exchanges']['done'], 0, self.logs())
          self.assertIn('all models agree', agent.log())
          self.assertGreater(agent.last('finish')['accuracy'], accuracy - 0.03)
        self.assertNotEqual(*[(folder / 'settings.yaml').read_text() for folder in (state, founder.state)])

  def test_the_founder_resumes_its_own_checkpoint_and_the_others_too(self):
    state, _ = self.trained()
    config, _, genesis = self.config_from(state)
    founder = self.begin('founder', config)
    other = self.joiner('other', founder.address(), '--data', self.data, environment=PACE)
    for agent in founder, other:
      self.wait(lambda agent=agent: agent.done() >= 3 and agent.steps() > 20, 'exchanges')
    for agent in founder, other:
      self.assertEqual(self.interrupt(agent)[0], 0, self.logs())
    genesis.unlink()
    for name, options in ('founder', ['--config', config]), ('other', []):
      steps = (founder if name == 'founder' else other).last('checkpoint')['steps']
      again = self.agent(name, '--alone', '--data', self.data, *options, environment=PACE)
      self.wait(lambda again=again: len(again.events('joined')) == 2, f'{name} to go on alone')
      self.assertEqual(again.last('joined')['how'], 'resumed', self.logs())
      self.assertGreaterEqual(again.last('joined')['steps'], steps)
      again.kill()

  def test_two_members_that_both_hold_the_file_begin_together(self):
    state, accuracy = self.trained()
    config, *_ = self.config_from(state)
    one = self.begin('one', config, '--set', 'swarm.stop_after=60')
    two = self.begin('two', config, '--set', 'swarm.stop_after=60', '--bootstrap', one.address())
    for agent in one, two:
      self.joined(agent, 'genesis')
      self.expect_accuracy(agent, accuracy)
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      self.assertIn('all models agree', agent.log())

  def test_a_member_with_the_settings_and_another_genesis_is_refused(self):
    state, _ = self.trained()
    config, *_ = self.config_from(state)
    founder = self.begin('founder', config)
    drawn = self.agent(
      'drawn', '--config', config, '--set', 'agent.genesis=', '--bootstrap', founder.address(), environment=PACE
    )
    self.wait_log(drawn, 'genesis: ', 'there')

  def test_a_model_comes_from_a_checkpoint_or_an_export_as_well(self):
    state, _ = self.trained()
    *_, newest = sorted((state / 'checkpoints').glob('*.ckpt'))
    models = [newest, self.folder / 'model.pt', self.folder / 'model.safetensors']
    for path in models[1:]:
      self.program('export', '--state', state, path)
    *_, genesis = self.config_from(state)
    expected = export_test.read_safetensors(genesis)[1]
    for number, model in enumerate(models):
      with self.subTest(model.suffix):
        config, out, genesis = self.config_from(model, f'{number}.yaml')
        self.assertIn(str(model), out)
        self.assertEqual(export_test.read_safetensors(genesis)[1], expected)
        self.assertIn('model: {kind: mlp, input: [1, 28, 28], classes: 10, hidden: [24, 16]}', config.read_text())
        self.program('check', config, '--data', self.data)

  def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(self):
    state, _ = self.trained()
    *_, before, newest = sorted((state / 'checkpoints').glob('*.ckpt'))
    damage(newest, 5000)
    out = self.config_from(state)[1]
    self.assertIn(f'passed over, trying the one before it: {newest}: damaged', out)
    self.assertIn(f'the model of {before}', out)
    config = self.folder / 'other.yaml'
    self.assertIn('damaged: its checksum', self.program('init', '--from', newest, config, status=1))
    self.assertFalse(config.exists())

  def test_a_founder_without_its_file_is_refused(self):
    state, _ = self.trained()
    config, _, genesis = self.config_from(state)
    whole = genesis.read_bytes()

    def other_model():
      genesis.write_bytes(whole)
      config.write_text(config.read_text().replace('hidden: [24, 16]', 'hidden: [25, 16]'))

    for name, spoil, cause in [
      ('missing', genesis.unlink, 'No such file'),
      ('cut', lambda: genesis.write_bytes(whole[:-4]), 'does not lie in the file'),
      ('flipped', lambda: genesis.write_bytes(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]), 'damaged'),
      ('other', other_model, 'fc1.weight is [24, 784], not [25, 784]'),
    ]:
      with self.subTest(name):
        spoil()
        founder = self.begin(name, config)
        self.assertEqual(self.wait_end(founder), 1, self.logs())
        for part in ('agent.genesis: ', str(genesis), cause, 'others start without --config'):
          self.assertIn(part, founder.log())

  def test_what_is_no_model_is_refused_and_nothing_is_overwritten(self):
    state, _ = self.trained()
    config = self.folder / 'new.yaml'
    text = self.folder / 'text.safetensors'
    text.write_text('no model')
    stranger = self.folder / 'stranger.safetensors'
    header = json.dumps({'w': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}).encode()
    stranger.write_bytes(len(header).to_bytes(8, 'little') + header + bytes(4))
    for model, cause in [
      (self.folder / 'none', 'No such file'),
      (self.data / 'train-labels-idx1-ubyte', 'no model; name a state folder'),
      (text, 'no safetensors file'),
      (stranger, 'name no network'),
      (self.folder / 'none.pt', 'No such file'),
    ]:
      out = self.program('init', '--from', model, config, status=1)
      self.assertIn(str(model), out)
      self.assertIn(cause, out)
    self.assertEqual(sorted(self.folder.glob('new.*')), [])
    *_, genesis = self.config_from(state)
    before = genesis.read_bytes(), config.read_bytes()
    self.assertIn('is there already', self.program('init', '--from', state, config, status=1))
    config.unlink()
    self.assertIn(f'{genesis} is there already', self.program('init', '--from', state, config, status=1))
    self.assertEqual(genesis.read_bytes(), before[0])
    photographs = self.folder / 'photographs'
    photographs.mkdir()
    export_test.write_photographs(photographs, random.Random(3))
    out = self.program('init', '--from', state, '--data', photographs, self.folder / 'b.yaml', status=1)
    self.assertIn(str(photographs), out)
    self.assertEqual(sorted(self.folder.glob('b.*')), [])
    self.program('init', '--from', state, '--task', 'digits', self.folder / 'b.yaml', status=2)


def damage(path, at):
  content = bytearray(path.read_bytes())
  content[at] ^= 1
  path.write_bytes(content)


if __name__ == '__main__':
  swarm.main()
