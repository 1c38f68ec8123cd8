"""Wrong starts: each ends with what is wrong, where, and what to do about it, or waits and says so. Nothing is lost."""

import http.server
import os
import re
import socket
import struct
import threading
import unittest.mock

import swarm


class WrongConfig(swarm.Case):
  def refused(self, *arguments, texts):
    agent = self.agent('agent', *arguments)
    self.assertNotEqual(self.wait_end(agent, 20), 0)
    for text in texts:
      self.assertIn(text, agent.log())
    self.assertEqual(agent.events(), [])  # it never began

  def test_typo_in_the_yaml(self):
    path = self.folder / 'typo.yaml'
    path.write_text('swarm:\n  name: typo\n  exchange:\n    codek: fp32\n')
    self.refused('--config', path, texts=[f'{path}:4', 'codek', 'did you mean', 'codec'])

  def test_wrong_type(self):
    path = self.folder / 'type.yaml'
    path.write_text('swarm:\n  local_steps: many\n')
    self.refused('--config', path, texts=[f'{path}:2', 'local_steps', 'many'])

  def test_typo_in_an_override(self):
    self.refused(
      '--config',
      self.quadratic(),
      '--set',
      'swarm.local_step=2',
      texts=['swarm.local_step', 'did you mean', 'local_steps'],
    )

  def test_missing_config(self):
    path = self.folder / 'nowhere.yaml'
    self.refused('--config', path, texts=[str(path), 'starling init'])

  def test_no_data_where_the_model_needs_some(self):
    path = self.folder / 'images.yaml'
    path.write_text('swarm:\n  model: {kind: mlp}\n')
    self.refused('--config', path, texts=['no training data is named', '--data'])
    self.assertFalse((self.folder / 'agent' / 'state').exists(), 'it never began')

  def test_port_in_use(self):
    port = swarm.free_port_pair()
    with socket.socket() as holder:
      holder.bind(('127.0.0.1', port))
      holder.listen()
      agent = self.agent('agent', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
      self.assertEqual(self.wait_end(agent, 20), 1)
    self.assertIn(f'127.0.0.1:{port}', agent.log())
    self.assertIn('--listen', agent.log())

  def test_bulk_port_in_use(self):
    port = swarm.free_port_pair()
    with socket.socket() as holder:
      holder.bind(('127.0.0.1', port + 1))
      holder.listen()
      agent = self.agent('agent', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
      self.assertEqual(self.wait_end(agent, 20), 1)
    self.assertIn(f'127.0.0.1:{port + 1}', agent.log())
    self.assertIn('--listen', agent.log())


class WrongAddress(swarm.Case):
  def waits(self, address):
    agent = self.joiner('agent', address)
    self.wait(lambda: agent.log().count('waiting: ') >= 2, 'two complaints', 20)
    self.assertIn(address, agent.log())
    self.assertTrue(agent.running())
    self.assertIsNone(agent.last('joined'))
    return agent

  def test_nobody_answers(self):
    port = swarm.free_port_pair()
    agent = self.waits(f'127.0.0.1:{port}')
    other = self.agent('other', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
    self.joined(other, 'genesis')
    self.joined(agent, 'fetched')  # as soon as somebody is there
    self.wait(lambda: agent.done() >= 3, 'exchanges')

  def test_a_waiting_agent_leaves_on_interrupt(self):
    agent = self.waits(f'127.0.0.1:{swarm.free_port_pair()}')
    status, seconds = self.interrupt(agent)
    self.assertEqual(status, 0, self.logs())
    self.assertLess(seconds, 2)

  def test_the_address_is_a_web_server(self):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
      self.waits(f'127.0.0.1:{server.server_port}')
    finally:
      server.shutdown()
      server.server_close()

  def test_the_bulk_port_of_a_member_and_of_a_registry(self):
    port = swarm.free_port_pair()
    member = self.agent('member', '--config', self.quadratic(), '--listen', f'127.0.0.1:{port}')
    self.joined(member)
    agent = self.joiner('lost', f'127.0.0.1:{port + 1}')
    self.assertEqual(self.wait_end(agent), 1, self.logs())
    self.assertIn(f'port {port + 1} is the one for bulk data; name the one before, 127.0.0.1:{port}', agent.log())
    self.assertNotIn('one version of starling', member.log())
    other = swarm.free_port_pair()
    self.registry('bootstrap', other)
    self.wait_log(self.waits(f'127.0.0.1:{other + 1}'), f'so try 127.0.0.1:{other}')

  def test_a_registry_that_has_met_no_swarm(self):
    port = swarm.free_port_pair()
    self.registry('bootstrap', port)
    agent = self.waits(f'127.0.0.1:{port}')
    self.wait_log(agent, 'no living swarm yet')


class Quiet(http.server.BaseHTTPRequestHandler):
  def log_message(self, *arguments):
    pass


class OtherSwarm(swarm.Case):
  def test_other_settings_are_refused_with_both_sides(self):
    port, agents = self.swarm(2, self.quadratic())
    for name, overrides, key, values in [
      ('codec', {'codec': 'fp32'}, 'exchange.codec', {'fp32', 'modulo8'}),
      ('model', {'dimension': 1001}, 'model.dimension', {'1001', '1000'}),
    ]:
      other = self.agent(
        name, '--config', self.quadratic(f'{name}.yaml', **overrides), '--bootstrap', f'127.0.0.1:{port}'
      )
      self.assertEqual(self.wait_end(other, 20), 1, self.logs())
      both = re.search(re.escape(key) + r': (\w+) here, (\w+) there', other.log())
      self.assertIsNotNone(both, self.logs())
      self.assertEqual(set(both.groups()), values)
      self.assertIsNone(other.last('joined'))
    self.assert_all_run(agents)

  def test_the_swarm_that_is_named_is_the_one(self):
    port, agents = self.swarm(2, self.quadratic())
    other = ['--config', self.quadratic('other.yaml', codec='fp32'), '--bootstrap', f'127.0.0.1:{port}']
    mistaken = self.agent('mistaken', *other, '--swarm', '0123456789abcdef')
    self.assertEqual(self.wait_end(mistaken, 20), 1, self.logs())
    own = re.search(r'names 0123456789abcdef, but the settings of this agent are those of (\w{16})', mistaken.log())
    self.assertIsNotNone(own, self.logs())
    second = self.agent('second', *other, '--swarm', own.group(1))
    self.joined(second, 'genesis')
    self.assert_all_run(agents + [second])

  def test_a_registry_of_one_swarm_is_not_decided_by_who_comes_first(self):
    port = swarm.free_port_pair()
    registry = self.registry('registry', port, '--swarm', '0123456789abcdef')
    first = self.agent('first', '--config', self.quadratic(), '--bootstrap', f'127.0.0.1:{port}')
    self.wait_log(first, 'this registry serves the swarm 0123456789abcdef alone')
    self.assertNotIn('serves swarm', registry.log())
    self.assert_all_run([registry])


class WrongData(swarm.Case):
  """The digits folder of an agent, made whole here and then spoiled in one place."""

  CONFIG = """
swarm:
  model: {kind: mlp, input: [1, 4, 4], classes: 3, hidden: [4]}
  stop_after: 5
  exchange: {kind: none}
agent: {threads: 1, data: {path: %s}}
"""

  def data(self, labels=(0, 1, 2, 0, 1, 2)):
    folder = self.folder / 'data'
    folder.mkdir()
    for stem in ('train', 't10k'):
      pixels = bytes(range(16)) * len(labels)
      (folder / f'{stem}-images-idx3-ubyte').write_bytes(struct.pack('>IIII', 0x803, len(labels), 4, 4) + pixels)
      (folder / f'{stem}-labels-idx1-ubyte').write_bytes(struct.pack('>II', 0x801, len(labels)) + bytes(labels))
    return folder

  def run_on(self, folder):
    config = self.folder / 'data.yaml'
    config.write_text(self.CONFIG % folder)
    agent = self.agent('agent', '--config', config)
    return agent, self.wait_end(agent, 30)

  def refused(self, folder, *texts):
    agent, status = self.run_on(folder)
    self.assertEqual(status, 1, self.logs())
    for text in texts:
      self.assertIn(text, agent.log())
    self.assertIsNone(agent.last('joined'))

  def test_whole_data_are_taken(self):
    agent, status = self.run_on(self.data())
    self.assertEqual(status, 0, self.logs())
    self.assertEqual(agent.last('finish')['steps'], 5)

  def test_missing(self):
    folder = self.data()
    (folder / 'train-labels-idx1-ubyte').unlink()
    self.refused(folder, str(folder / 'train-labels-idx1-ubyte'), 'agent.data.path')

  def test_cut_short(self):
    path = self.data() / 'train-images-idx3-ubyte'
    path.write_bytes(path.read_bytes()[:-7])
    self.refused(path.parent, str(path), 'cut short', 'fetch')

  def test_label_outside_the_classes(self):
    self.refused(self.data((0, 1, 2, 3, 0, 1)), 'label 3', 'swarm.model.classes')


class WrongDevice(swarm.Case):
  """A driver that finds no GPU, in the place of whatever this machine has."""

  CONFIG = """
swarm:
  model: {kind: mlp, hidden: [4]}
  stop_after: 5
  exchange: {kind: none}
agent: {threads: 1, data: {path: generated}}
"""

  def run_on(self, device):
    config = self.folder / 'device.yaml'
    config.write_text(self.CONFIG)
    driver = {'LD_LIBRARY_PATH': os.environ['STARLING_FAKE_DRIVER_FOLDER'], 'STARLING_FAKE_DRIVER': 'init 100'}
    with unittest.mock.patch.dict(os.environ, driver):
      agent = self.agent('agent', '--config', config, '--device', device)
    return agent, self.wait_end(agent, 30)

  def test_cuda_is_missed_with_the_remedy(self):
    agent, status = self.run_on('cuda')
    self.assertEqual(status, 1, self.logs())
    for text in ('agent.device is cuda', 'finds no usable GPU', 'error 100', 'set agent.device: auto'):
      self.assertIn(text, agent.log())
    self.assertIsNone(agent.last('joined'))

  def test_auto_takes_the_cpu(self):
    agent, status = self.run_on('auto')
    self.assertEqual(status, 0, self.logs())
    self.assertEqual(agent.last('finish')['steps'], 5)


class Sick(swarm.Case):
  """A quadratic steps from x to x - rate * (x - target): above a rate of 2 it grows until it is not finite."""

  def test_goes_back_and_trains_on_more_carefully(self):
    agent = self.agent('a', '--config', self.quadratic(learning_rate=3))
    sick = self.wait(lambda: agent.last('sick'), 'the agent to notice')
    self.wait_log(agent, 'last good state')
    well = self.wait(
      lambda: next(
        (
          status
          for status in agent.events('status')
          if status['t'] > sick['t'] and status['phase'] == 'training' and (status['loss'] or 99) < 1
        ),
        None,
      ),
      'recovery',
    )
    self.assertGreater(well['steps'], 0)

  def test_gives_up_with_the_remedy(self):
    agent = self.agent('a', '--config', self.quadratic(learning_rate=1000))
    self.assertEqual(self.wait_end(agent), 1, self.logs())
    self.assertGreater(len(agent.events('sick')), 1)
    self.assertIn('swarm.optimizer.learning_rate', agent.log())


if __name__ == '__main__':
  swarm.main()
