"""Sites with data of their own: what each holds out, how good the shared model is there, and which classes it names."""

import json
import random
import re
import shutil
import signal

import swarm
from data_test import png
from export_test import read_pt, read_safetensors

CONFIG = """
swarm:
  model: {kind: mlp, input: [1, 8, 8], classes: 2, hidden: [8]}
  batch: 8
  optimizer: {kind: sgd, learning_rate: 0.05, momentum: 0}
  exchange: {share: [params]}
  membership: {probe_interval: 100ms, probe_timeout: 50ms}
  stop_after: %d
agent: {evaluate_every: 100ms, threads: 1, data: {%s}}
"""
LINE = (
  r'accuracy by site, each on its own held-out data: {} [\d.]+ %, mean of (\d) ([\d.]+) %, worst ([\d.]+) % \(([abc])\)'
)


class Sites(swarm.Case):
  def images(self, name, classes=('cat', 'dog'), count=40, below=''):
    """Of each class images of a brightness of its own."""
    folder = self.folder / 'data' / name
    for label, of_class in enumerate(classes):
      place = folder / below / of_class
      place.mkdir(parents=True)
      for i in range(count):
        pixels = bytes(100 * label + random.randrange(100) for _ in range(64))
        (place / f'{i}.png').write_bytes(png(8, 8, pixels))
    return folder

  def hard_images(self, name):
    """50 images, of which 10 are of the other class by all that a model can see: 80 % are right at best."""
    folder = self.images(name, count=25)
    for i in range(10):
      shutil.copy(folder / 'cat' / f'{i}.png', folder / 'dog' / f'{i}.png')
    return folder

  def config(self, steps, data='hold_out: 0.1'):
    path = self.folder / 'sites.yaml'
    path.write_text(CONFIG % (steps, data))
    return path

  def began(self, config, wait_for=1, name='a', classes=('cat', 'dog')):
    data = self.images(name, classes)
    return self.agent(name, '--config', config, '--data', data, '--wait-for', wait_for)

  def run_program(self, *arguments, status=0):
    process = self.start(f'run-{len(self.processes)}', *arguments)
    self.assertEqual(self.wait_end(process), status, process.log())
    return process.log()

  def test_each_site_says_how_good_the_model_is_here_and_there(self):
    first = self.began(self.config(0), 3)
    self.wait(lambda: first.last('start'), 'an address')
    own = ('--set', 'agent.data.hold_out=0.1', '--set', 'agent.evaluate_every=100ms')
    others = [self.joiner(name, first.address(), '--data', self.images(name), *own) for name in 'bc']
    agents = [first, *others]

    def seen():
      sites = json.loads(self.run_program('status', first.address(), '--once', '--json'))['by_site']
      return sites and sites[0]['sites'] == 3 and sites[0]

    sites = self.wait(seen, 'the scores of three sites')
    self.assertEqual((sites['on'], sites['figure']), ('held-out', 'accuracy'))
    self.assertIn(sites['worst_at'], 'abc')
    self.assertLessEqual(sites['worst'], sites['mean'])
    table = self.run_program('status', first.address(), '--once')
    self.assertRegex(table, LINE.format(r'a \(asked\)'))
    for agent in agents:
      agent.send(signal.SIGINT)
    for agent in agents:
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      self.assertIn("8 of this agent's 80 samples are held out", agent.log())
      self.assertIn('72 samples, labels 0 cat, 1 dog', agent.log())

  def test_one_member_names_test_data(self):
    """What it is judged by is no other site's, and the other one has none."""
    tests = self.hard_images('tests')
    first = self.agent(
      'a', '--config', self.config(1500, ''), '--data', self.images('a'), '--test-data', tests, '--wait-for', 2
    )
    self.wait(lambda: first.last('start'), 'an address')
    second = self.joiner('b', first.address(), '--data', self.images('b'))

    self.joined(second)

    def seen():
      return json.loads(self.run_program('status', second.address(), '--once', '--json'))['by_site']

    (sites,) = self.wait(seen, 'a score')
    self.assertEqual((sites['on'], sites['sites'], sites['worst_at']), ('test', 1, 'a'))
    for agent in (first, second):
      self.assertEqual(self.wait_end(agent), 0, self.logs())
    self.assertIn('no test data: accuracy is not measured', second.log())
    self.assertNotIn('no test data', first.log())
    self.assertIsNone(second.last('finish')['accuracy'])
    own = first.last('finish')['accuracy']
    self.assertAlmostEqual(own, 0.8, delta=0.1, msg='of its own 80 images nearly all are right')
    percent = rf'{100 * own:.1f} %'.replace('.', r'\.')
    self.assertRegex(first.log(), rf'finished at step \d+.*: .*accuracy {percent}')
    judged = self.run_program('eval', '--state', first.state, '--data', tests, '--json')
    self.assertAlmostEqual(json.loads(judged[judged.index('{') :])['accuracy'], own, places=4)

  def test_members_that_name_test_data_of_their_own(self):
    first = self.agent(
      'a', '--config', self.config(300, ''), '--data', self.images('a'), '--test-data', self.images('tests-a'),
      '--wait-for', 2,
    )  # fmt: skip
    self.wait(lambda: first.last('start'), 'an address')
    second = self.joiner('b', first.address(), '--data', self.images('b'), '--test-data', self.hard_images('tests-b'))
    for agent in (first, second):
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      self.assertRegex(
        agent.log(), r'accuracy by site, each on its own test data: this one .* mean of 2 .* worst .* \(b\)'
      )
    self.assertGreater(first.last('finish')['accuracy'], second.last('finish')['accuracy'] + 0.1)

  def test_no_score_of_a_model_without_steps(self):
    path = self.config(0)
    path.write_text(path.read_text().replace('evaluate_every: 100ms', 'evaluate_every: 1h'))
    agent = self.began(path)
    self.wait(lambda: agent.last('evaluate', steps=0) and agent.steps() > 50, 'the first evaluation, and steps')
    rows = json.loads(self.run_program('status', '--state', agent.state, '--once', '--json'))
    self.assertIsNone(rows['members'][0]['accuracy'], rows)
    self.assertIsNone(agent.last('status')['accuracy'])

  def test_a_finished_agent_ends_with_the_scores_of_all(self):
    first = self.began(self.config(300), 2)
    self.wait(lambda: first.last('start'), 'an address')
    second = self.joiner('b', first.address(), '--data', self.images('b'), '--set', 'agent.data.hold_out=0.25')
    for agent in (first, second):
      self.assertEqual(self.wait_end(agent), 0, self.logs())
      said = re.search(LINE.format('this one'), agent.log())
      self.assertTrue(said, agent.log())
      self.assertEqual(said[1], '2')
      own = [one.last('finish')['accuracy'] for one in (first, second)]
      self.assertAlmostEqual(float(said[2]), 50 * sum(own), delta=0.1)
      self.assertAlmostEqual(float(said[3]), 100 * min(own), delta=0.1)

  def test_other_classes_are_refused_at_once_and_the_swarm_goes_on(self):
    first = self.began(self.config(0))
    self.joined(first)
    for name, classes in (('b', ('cow', 'dog')), ('c', ('dog', 'egg'))):
      joiner = self.joiner(name, first.address(), '--data', self.images(name, classes))
      self.assertEqual(self.wait_end(joiner), 1, joiner.log())
      self.assertEqual(joiner.events('status'), [status for status in joiner.events('status') if status['steps'] == 0])
      for text in (f'labels 0 {classes[0]}, 1 {classes[1]}', f'differ from those of a ({first.address()})', 'name the'):
        self.assertIn(text, joiner.log())
    same = self.joiner('d', first.address(), '--data', self.images('d'))
    self.joined(same)
    self.wait(lambda: same.done() >= 3, 'exchanges')
    self.assert_all_run([first, same])

  def test_names_leave_with_the_model(self):
    first = self.began(self.config(200))
    self.assertEqual(self.wait_end(first), 0, first.log())
    pt, safetensors = self.folder / 'model.pt', self.folder / 'model.safetensors'
    for path in (pt, safetensors):
      self.run_program('export', '--state', first.state, path)
    for metadata in (read_pt(pt).metadata, read_safetensors(safetensors)[0]):
      self.assertEqual(json.loads(metadata['class_names']), ['cat', 'dog'])
    tests = self.images('tests', below='test', count=20)
    for data in (tests, tests / 'test'):
      said = self.run_program('eval', '--state', first.state, '--data', data)
      self.assertRegex(said, r'(?m)^ +0 +20 +[\d.]+ % +[\d.]+  cat\n +1 +20 +[\d.]+ % +[\d.]+  dog$')
      self.assertNotIn('training files', said)
    judged = json.loads(self.run_program('eval', '--state', first.state, '--data', tests, '--json'))
    self.assertEqual([one['name'] for one in judged['classes']], ['cat', 'dog'])
    shutil.move(tests / 'test/cat', tests / 'test/emu')
    said = self.run_program('eval', '--state', first.state, '--data', tests, status=1)
    self.assertIn('class 0 is "dog", and "cat" in the model', said)
    again = self.agent('again', '--config', self.config(200), '--data', tests / 'test', '--alone', state=first.state)
    self.assertEqual(self.wait_end(again), 1, again.log())
    self.assertIn('class 0 is "dog", and "cat" in the model', again.log())


if __name__ == '__main__':
  swarm.main()
