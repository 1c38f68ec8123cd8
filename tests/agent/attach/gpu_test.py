"""Loops whose model lies on a GPU, which is played: their params are copied at boundaries, and alone there."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attach_case  # first: it finds the Python with torch
from attach_case import processes

import played_gpu

if played_gpu.set_up is None:
  print('1..0 # SKIP this torch lets nobody play a device')
  sys.exit(0)

import contextlib
import gc
import json

import python_test as loops
import starling
import torch

library = played_gpu.begin()
MOMENTUM = {'exchange': {'share': ['params', 'momentum']}}
torch.set_num_threads(1)


def one_step(model, optimizer, index):
  return loops.one_step(model, optimizer, index, played_gpu.Played)


def values(model):
  return {name: tensor.to('cpu') for name, tensor in model.state_dict().items()}


class GpuTest(attach_case.Case):
  def setUp(self):
    super().setUp()
    playing = played_gpu.played()
    self.gpu = playing.__enter__()
    self.addCleanup(playing.__exit__, None, None, None)

  def place(self, name='one', **more):
    return {'state': str(self.folder / name), 'listen': '127.0.0.1:0', **more}

  def assert_equal(self, one, other):
    for key, value in one.items():
      self.assertTrue(torch.equal(value, other[key]), key)

  def test_a_swarm_of_one_trains_as_the_loop_alone_also_after_a_restart(self):
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
      for name in ('sgd', 'adamw'):
        with self.subTest(f'{dtype}, {name}'):
          models = [played_gpu.moved(loops.small_model(seed).to(dtype)) for seed in (1, 1, 2)]
          alone, plain, again = models
          optimizers = [loops.OPTIMIZERS[name](model.parameters()) for model in models]
          place, shares = self.place(f'{dtype} {name}'), dtype == torch.float32 and name == 'sgd'
          settings = {**loops.ALONE, **(MOMENTUM if shares else {})}
          for index in range(40):
            one_step(alone, optimizers[0], index)
          with starling.join(plain, optimizers[1], **place, **settings) as swarm:
            for index in range(23):
              self.assertTrue(swarm.step(one_step(plain, optimizers[1], index), samples=16))
            self.assertTrue(self.gpu.registered)
          with starling.join(again, optimizers[2], **place) as swarm:
            for index in range(23, 40):
              swarm.step(one_step(again, optimizers[2], index), samples=16)
          self.assert_equal(values(alone), values(again))
          del swarm
          gc.collect()
          self.assertFalse(self.gpu.registered, 'memory that is freed must be pinned no more')

  def test_nothing_is_copied_or_read_between_boundaries(self):
    model = played_gpu.moved(loops.small_model())
    optimizer = loops.OPTIMIZERS['adamw'](model.parameters())
    params = sum(tensor.numel() for tensor in model.state_dict().values() if tensor.is_floating_point())
    told = {'metrics': str(self.folder / 'metrics.jsonl')}
    with starling.join(model, optimizer, **self.place(), wait_for=1, local_steps=10, agent=told) as swarm:
      losses = []
      for index in range(20):
        before = dict(self.gpu.elements), self.gpu.read
        losses.append(one_step(model, optimizer, index))
        swarm.step(losses[-1], samples=16)
        copied = {side: count - before[0][side] for side, count in self.gpu.elements.items()}
        boundary = index % 10 == 9
        self.assertEqual(copied, dict.fromkeys(('in', 'out'), params if boundary else 0))
        self.assertEqual(self.gpu.read - before[1], boundary)
      first, second = (sum(loss.item() for loss in losses[at : at + 10]) / 10 for at in (0, 10))
      self.assertLess(second, first)  # and what is told is a smooth mean of both
      self.wait_until(lambda: any(second < told < first for told in self.losses_told()), f'{first} to {second}')

  def losses_told(self):
    whole = (self.folder / 'metrics.jsonl').read_text().split('\n')[:-1]
    said = [json.loads(line) for line in whole]
    return [event['loss'] for event in said if event['event'] == 'status' and event['loss'] is not None]

  def test_a_loss_that_is_not_finite_ends_the_run(self):
    model = played_gpu.moved(loops.small_model())
    swarm = starling.join(model, **self.place(), wait_for=1, local_steps=3)
    with contextlib.closing(swarm), self.assertRaisesRegex(starling.SwarmError, 'not finite'):
      for _ in range(100):
        swarm.step(played_gpu.Played(torch.tensor(float('nan'))))

  def test_a_member_with_a_gpu_trains_with_one_without(self):
    settings = {'wait_for': 2, 'local_steps': 1, 'stop_after': 120, **MOMENTUM}
    founder = loops.Loop(1, **self.place(), **settings)
    self.wait_until(lambda: (self.folder / 'one/address').exists(), 'an address')
    model = played_gpu.moved(loops.small_model(2))
    optimizer = loops.OPTIMIZERS['sgd'](model.parameters())
    bootstrap = (self.folder / 'one/address').read_text().strip()
    swarm = starling.join(model, optimizer, **self.place('two'), bootstrap=bootstrap)
    index = 2000
    while swarm.step(one_step(model, optimizer, index), samples=16):
      index += 1
      for name, param in model.named_parameters():  # each step is a boundary
        held = optimizer.state[param]['momentum_buffer'].to('cpu')
        self.assertTrue(torch.equal(held, swarm._momentum.block.views[name]), name)
    self.assertTrue(swarm.finish())
    founder.stop()
    self.assertIsNone(founder.error)
    self.assertTrue(founder.agreed)
    self.assertGreater(swarm.metrics()['swarm/exchanges'], 10)
    for key, value in founder.model.state_dict().items():
      if value.is_floating_point():
        self.assertLess((value - values(model)[key]).norm() / value.norm().clamp(min=1e-3), 0.02, key)
    swarm.save(self.folder / 'model.pt')
    self.assert_equal(values(model), torch.load(self.folder / 'model.pt', weights_only=True))


if __name__ == '__main__':
  processes.main()
