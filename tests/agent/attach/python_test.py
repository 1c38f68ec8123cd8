"""The Python package with a real torch: loops of their own join, train, are refused, interrupted, killed and go on.

Runs itself by a Python with torch: this one, or the one that STARLING_PYTORCH names. STARLING_LIBRARY is the library.
"""

import contextlib
import copy
import gc
import importlib.util
import io
import itertools
import json
import logging
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import attach_case  # first: it finds the Python with torch
from attach_case import processes

import numpy
import torch
from torch import nn

import starling
from starling._block import Block
from starling._words import for_python

ALONE = {'wait_for': 1, 'local_steps': 2}
torch.set_num_threads(1)


def small_model(seed=1):
  torch.manual_seed(seed)
  return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))


def tied_model(seed=1):
  torch.manual_seed(seed)
  model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
  model[2].weight = model[0].weight
  return model


OPTIMIZERS = {
  'sgd': lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, foreach=False),
  'sgd, foreach': lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True, foreach=True),
  'adamw': lambda params: torch.optim.AdamW(params, lr=0.01, foreach=False),
  'adamw, foreach': lambda params: torch.optim.AdamW(params, lr=0.01, foreach=True),
  'adamw, fused': lambda params: torch.optim.AdamW(params, lr=0.01, fused=True),
}


def one_step(model, optimizer, index, place=lambda tensor: tensor):
  """`place`: moves a tensor to where the model lies."""
  random = torch.Generator().manual_seed(index)
  inputs = torch.randn(16, 8, generator=random)
  labels = torch.randint(4, (16,), generator=random)
  optimizer.zero_grad()
  loss = nn.functional.cross_entropy(model(place(inputs.to(next(model.parameters()).dtype))), place(labels))
  loss.backward()
  optimizer.step()
  return loss


def values(model):
  return {name: tensor.clone() for name, tensor in model.state_dict().items()}


SCRIPT = """
import os, sys
import torch, starling
from python_test import *
"""


class Loop(threading.Thread):
  """A loop in a thread of its own: some forty steps a second, and a pause before the step `pauses_at`. With arguments
  it joins a swarm; else it goes on until stop()."""

  def __init__(self, seed, pauses_at=None, **arguments):
    super().__init__(daemon=True)
    self.model, self.seed, self.pauses_at, self.arguments = small_model(seed), seed, pauses_at, arguments
    self.optimizer = OPTIMIZERS['sgd'](self.model.parameters())
    self.swarm, self.times, self.error, self.agreed, self.paused_at = None, [], None, None, None
    self.pauses, self.goes_on, self.stops = threading.Event(), threading.Event(), threading.Event()
    self.start()

  def run(self):
    try:
      if self.arguments:
        self.swarm = starling.join(self.model, self.optimizer, **self.arguments)
      going = True
      while going and not self.stops.is_set():
        if len(self.times) == self.pauses_at:
          self.paused_at = time.monotonic()
          self.pauses.set()
          self.goes_on.wait()
        processes.pause(0.025)
        loss = one_step(self.model, self.optimizer, 1000 * self.seed + len(self.times))
        going = self.swarm is None or self.swarm.step(loss)
        self.times.append(time.monotonic())
      self.agreed = self.swarm is None or self.swarm.finish()
    except BaseException as error:
      self.error = error

  def stop(self):
    self.stops.set()
    self.goes_on.set()
    self.join(attach_case.PATIENCE)

  def steps_a_second(self, since, until):
    return sum(since < at <= until for at in self.times) / (until - since)

  def longest_step(self, since, until):
    within = [at for at in self.times if since < at <= until]
    return max(after - before for before, after in zip(within, within[1:]))


class AttachTest(attach_case.Case):
  def setUp(self):
    super().setUp()
    self.lives, self.loops = 0, []

  def tearDown(self):
    for loop in self.loops:
      loop.stop()
    super().tearDown()

  def place(self, name='one', **more):
    return {'state': str(self.folder / name), 'listen': '127.0.0.1:0', **more}

  def script(self, text, *arguments, **options):
    """A Python of its own."""
    path = self.folder / f'script-{len(self.processes)}.py'
    path.write_text(SCRIPT + text)
    return self.python(path, *arguments, **options)

  @contextlib.contextmanager
  def but_for_old_torch(self):
    """What the oldest torch refuses is skipped."""
    try:
      yield
    except (RuntimeError, TypeError) as error:
      if not torch.__version__.startswith('2.0.'):
        raise
      self.skipTest(f'torch {torch.__version__}: {error}')

  def address(self, swarm):
    return re.search(r'\S+$', starling._text(starling._C.starling_place, swarm._handle))[0]

  # ---- training

  def test_a_swarm_of_one_trains_as_the_loop_alone(self):
    for make in (small_model, tied_model):
      for name, optimizer_of in OPTIMIZERS.items():
        with self.subTest(f'{make.__name__}, {name}'):
          alone, joined = make(), make()
          with self.but_for_old_torch():
            plain, shared = optimizer_of(alone.parameters()), optimizer_of(joined.parameters())
          place = self.place(f'{make.__name__} {name}')
          with starling.join(joined, shared, exchange={'share': ['params']}, **place, **ALONE) as swarm:
            for index in range(30):
              one_step(alone, plain, index)
              self.assertTrue(swarm.step(one_step(joined, shared, index), samples=16))
            self.assertEqual(swarm.steps_of_swarm, swarm.steps)
          for key, value in alone.state_dict().items():
            self.assertTrue(torch.equal(value, joined.state_dict()[key]), key)

  def test_a_swarm_of_one_trains_in_other_types_as_the_loop_alone(self):
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
      with self.subTest(str(dtype)):
        with self.but_for_old_torch():
          nn.Linear(1, 1).to(dtype)(torch.zeros(1, 1, dtype=dtype))
        alone, joined, again = (small_model(seed).to(dtype) for seed in (1, 1, 2))
        plain, shared, later = (OPTIMIZERS['sgd'](model.parameters()) for model in (alone, joined, again))
        place = self.place(str(dtype))
        for index in range(40):
          one_step(alone, plain, index)
        with starling.join(joined, shared, **place, **ALONE) as swarm:
          for index in range(23):
            self.assertTrue(swarm.step(one_step(joined, shared, index), samples=16))
        with starling.join(again, later, **place) as swarm:
          for index in range(23, 40):
            swarm.step(one_step(again, later, index))
        for key, value in alone.state_dict().items():
          self.assertTrue(torch.equal(value, again.state_dict()[key]), key)

  def test_what_a_narrow_type_rounds_off_is_kept(self):
    tensor = torch.full((64,), 1.0, dtype=torch.bfloat16)
    block = Block([('one', tensor)])
    block.fill()
    held = block.copied['one']
    for _ in range(2000):  # a change of the swarm's, far below the type's precision
      held.take()
      held.take()
      block.views['one'] += 3e-5
      held.put()
    self.assertLess((block.views['one'] - 1.06).abs().max(), 1e-4)
    self.assertLess((tensor.float() - 1.06).abs().max(), 4e-3)

  def test_precision_accumulation_clipping_and_schedules_stay_the_loops(self):
    def train(model, swarm_of):
      optimizer = OPTIMIZERS['adamw'](model.parameters())
      scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99**step)
      scaler = torch.amp.GradScaler('cpu', init_scale=1024)
      swarm = swarm_of(model, optimizer)
      for index in range(12):
        for part in range(2):
          random = torch.Generator().manual_seed(2 * index + part)
          with torch.autocast('cpu', torch.bfloat16):
            output = model(torch.randn(16, 8, generator=random))
          loss = nn.functional.cross_entropy(output.float(), torch.randint(4, (16,), generator=random))
          scaler.scale(loss / 2).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        optimizer.zero_grad()
        if swarm is not None:
          self.assertTrue(swarm.step(loss, samples=32))

    if not hasattr(torch.amp, 'GradScaler'):
      self.skipTest('this torch scales no gradients on the CPU')
    alone, joined = small_model(), small_model()
    train(alone, lambda model, optimizer: None)
    train(joined, lambda model, optimizer: starling.join(model, optimizer, **self.place(), **ALONE))
    for key, value in alone.state_dict().items():
      self.assertTrue(torch.equal(value, joined.state_dict()[key]), key)

  def compiled_models_train_alike(self, backend):
    with self.but_for_old_torch():
      alone, joined = (torch.compile(small_model(), backend=backend) for _ in range(2))
    plain, shared = (OPTIMIZERS['sgd'](model.parameters()) for model in (alone, joined))
    one_step(alone, plain, 0)
    with starling.join(joined, shared, **self.place(), **ALONE) as swarm:
      for index in range(10):
        if index > 0:
          one_step(alone, plain, index)
        self.assertTrue(swarm.step(one_step(joined, shared, index), samples=16))
    for key, value in alone.state_dict().items():
      self.assertTrue(torch.equal(value, joined.state_dict()[key]), key)

  def test_a_compiled_model_trains_as_without_a_swarm(self):
    self.compiled_models_train_alike('aot_eager')

  def test_a_model_compiled_to_machine_code_trains_as_without_a_swarm(self):
    try:
      torch.compile(torch.sin)(torch.zeros(8))
    except Exception as error:
      self.skipTest(f'torch.compile needs a compiler for C++ and the headers of Python: {str(error)[:300]}')
    self.compiled_models_train_alike('inductor')

  def test_weights_and_momentum_loaded_within_a_round_are_trained_on(self):
    alone, joined = small_model(1), small_model(1)
    plain, shared = (OPTIMIZERS['sgd'](model.parameters()) for model in (alone, joined))
    other = small_model(2)
    of_other = OPTIMIZERS['sgd'](other.parameters())
    one_step(other, of_other, 99)
    momentum = {'wait_for': 1, 'local_steps': 4, 'exchange': {'share': ['params', 'momentum']}}
    with starling.join(joined, shared, **self.place(), **momentum) as swarm:
      for index in range(21):
        if index in (6, 13):  # a round begins at 4, 8, 12
          for model, optimizer in ((alone, plain), (joined, shared)):
            model.load_state_dict(other.state_dict())
            optimizer.load_state_dict(copy.deepcopy(of_other.state_dict()))
        one_step(alone, plain, index)
        self.assertTrue(swarm.step(one_step(joined, shared, index), samples=16))
      for key, value in alone.state_dict().items():
        self.assertTrue(torch.equal(value, joined.state_dict()[key]), key)
      for name, tensor in joined.named_parameters():  # what is shared is what the optimizer uses
        held = shared.state[tensor]['momentum_buffer']
        self.assertEqual(held.data_ptr(), swarm._momentum.block.views[name].data_ptr(), name)
        self.assertTrue(torch.equal(held, plain.state[dict(alone.named_parameters())[name]]['momentum_buffer']), name)

  def test_a_member_of_a_narrow_type_joins_one_of_float32(self):
    text = """
seed, settings = int(sys.argv[1]), {'bootstrap': sys.argv[2]} if len(sys.argv) > 2 else {
  'wait_for': 2, 'local_steps': 1, 'stop_after': 100, 'exchange': {'share': ['params']}}
model = small_model(seed) if seed == 1 else small_model(seed).bfloat16()
optimizer = OPTIMIZERS['sgd'](model.parameters())
swarm = starling.join(model, optimizer, state=f'state-{seed}', listen='127.0.0.1:0', **settings)
index = 1000 * seed
while swarm.step(one_step(model, optimizer, index)):
  index += 1
agreed = swarm.finish()
swarm.save(f'model-{seed}.pt')
print('agreed', agreed, swarm.metrics()['swarm/exchanges'], flush=True)
"""
    founder = self.script(text, 1, working=self.folder)
    self.wait_until(lambda: (self.folder / 'state-1/address').exists(), 'an address')
    newcomer = self.script(text, 2, (self.folder / 'state-1/address').read_text().strip(), working=self.folder)
    for process in (founder, newcomer):
      self.ends(process)
      self.assertRegex(process.log(), r'agreed True [1-9]')
    one, two = (torch.load(self.folder / f'model-{seed}.pt', weights_only=True) for seed in (1, 2))
    for key, value in one.items():
      if value.is_floating_point():
        self.assertEqual(two[key].dtype, torch.bfloat16)
        self.assertLess((value - two[key].float()).norm() / value.norm().clamp(min=1e-6), 0.1, key)

  def test_a_model_is_saved_by_its_names(self):
    model = tied_model()
    with starling.join(model, **self.place(), **ALONE) as swarm:
      swarm.save(self.folder / 'model.pt')
      swarm.save(str(self.folder / 'model.safetensors'))
      with self.assertRaisesRegex(ValueError, 'ends with .safetensors or .pt'):
        swarm.save('model.bin')
    import safetensors.torch

    loaded = tied_model(2)
    safetensors.torch.load_model(loaded, str(self.folder / 'model.safetensors'))
    for read in (loaded.state_dict(), torch.load(self.folder / 'model.pt', weights_only=True)):
      for key, value in model.state_dict().items():
        self.assertTrue(torch.equal(value, read[key]), key)

  def needs(self, *names):
    for name in names:
      if importlib.util.find_spec(name) is None:
        self.skipTest(f'{name} is not installed here')

  def test_a_trainer_of_hugging_face_shares_adapters_alone(self):
    self.needs('transformers', 'peft', 'accelerate')
    text = """
import peft, transformers
from starling.hf import StarlingCallback
seed, settings = int(sys.argv[1]), {'bootstrap': sys.argv[2]} if len(sys.argv) > 2 else {'config': 'swarm.yaml'}
class Texts(torch.utils.data.Dataset):
  def __len__(self):
    return 64
  def __getitem__(self, index):
    ids = torch.randint(64, (8,), generator=torch.Generator().manual_seed(100 * seed + index))
    return {'input_ids': ids, 'labels': ids}
def trained(callback):
  torch.manual_seed(0)
  config = transformers.GPT2Config(vocab_size=64, n_positions=8, n_embd=16, n_layer=1, n_head=2)
  base = transformers.GPT2LMHeadModel(config)
  torch.manual_seed(seed)
  model = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=['c_attn'], fan_in_fan_out=True))
  options = transformers.TrainingArguments(output_dir=f'out-{seed}', max_steps=4 if callback is nothing else 100000,
    gradient_accumulation_steps=2, use_cpu=True, per_device_train_batch_size=4, report_to=[], save_strategy='no',
    disable_tqdm=True, logging_steps=500)
  transformers.Trainer(model=model, args=options, train_dataset=Texts(), callbacks=[callback]).train()
  return model
nothing = StarlingCallback(bootstrap=None)
if seed == 1:
  trained(nothing)
  assert nothing.swarm is None
callback = StarlingCallback(state=f'state-{seed}', listen='127.0.0.1:0', **settings)
model = trained(callback)
shared = sorted(name for name, _, _ in callback.swarm._block.slots)
assert shared and all('lora_' in name for name in shared), shared
torch.save(peft.get_peft_model_state_dict(model), f'adapter-{seed}.pt')
print('agreed', callback.agreed, callback.swarm.metrics()['swarm/exchanges'], flush=True)
"""
    (self.folder / 'swarm.yaml').write_text(
      'swarm: {model: {kind: attached}, wait_for: 2, local_steps: 1, stop_after: 40}\n'
    )
    founder = self.script(text, 1, working=self.folder)
    self.wait_until(lambda: (self.folder / 'state-1/address').exists() or not founder.running(), 'an address')
    self.assertTrue(founder.running(), founder.log())
    newcomer = self.script(text, 2, (self.folder / 'state-1/address').read_text().strip(), working=self.folder)
    for process in (founder, newcomer):
      self.ends(process)
      self.assertRegex(process.log(), r'agreed True [1-9]')
    self.assertNotIn('diverges', founder.log() + newcomer.log())
    self.assertIn('neither bootstrap nor config: this run trains alone', founder.log())
    one, two = (torch.load(self.folder / f'adapter-{seed}.pt', weights_only=True) for seed in (1, 2))
    for key, value in one.items():
      self.assertLess((value - two[key]).norm(), 0.1 * value.norm() + 1e-3, key)

  def test_a_trainer_evaluates_saves_and_loads_after_the_models_have_agreed(self):
    self.needs('transformers', 'accelerate')
    import transformers
    from starling.hf import StarlingCallback

    class Ending:
      finished = 0

      def step(self, loss, samples):
        return False

      def finish(self):
        self.finished += 1
        return True

    arguments = transformers.TrainingArguments(output_dir=str(self.folder / 'out'), use_cpu=True, report_to=[])
    callback, control = StarlingCallback(), transformers.TrainerControl()
    callback.swarm = Ending()
    callback.on_step_end(arguments, None, control)
    self.assertTrue(control.should_training_stop)
    self.assertEqual((callback.swarm.finished, callback.agreed), (1, True))
    callback.on_train_end(arguments, None, control)
    self.assertEqual(callback.swarm.finished, 1)

  def test_processes_of_a_trainer_are_one_member(self):
    self.needs('transformers', 'accelerate')
    text = """
import transformers
from starling.hf import StarlingCallback
rank = int(os.environ['RANK'])
class Texts(torch.utils.data.Dataset):
  def __len__(self):
    return 64
  def __getitem__(self, index):
    ids = torch.randint(64, (8,), generator=torch.Generator().manual_seed(index))
    return {'input_ids': ids, 'labels': ids}
config = transformers.GPT2Config(vocab_size=64, n_positions=8, n_embd=16, n_layer=1, n_head=2)
model = transformers.GPT2LMHeadModel(config)
options = transformers.TrainingArguments(output_dir=f'out-{rank}', max_steps=100000, use_cpu=True, report_to=[],
  per_device_train_batch_size=4, save_strategy='no', disable_tqdm=True, logging_steps=500)
callback = StarlingCallback(state='one', listen='127.0.0.1:0', config='swarm.yaml')
transformers.Trainer(model=model, args=options, train_dataset=Texts(), callbacks=[callback]).train()
print('weights', float(sum(tensor.double().sum() for tensor in model.parameters())), callback.swarm.steps, flush=True)
"""
    (self.folder / 'swarm.yaml').write_text(
      'swarm: {model: {kind: attached}, wait_for: 1, local_steps: 2, stop_after: 20}\n'
    )
    told = []
    for process in self.ranks(text):
      self.ends(process)
      told.append(re.search(r'weights (\S+) (\d+)', process.log()).groups())
    self.assertEqual(told[0], told[1])
    self.assertEqual(int(told[0][1]), 20)

  def test_a_frozen_tensor_that_differs_is_refused_by_name(self):
    def adapted(seed):
      model = small_model(1)
      with torch.no_grad():
        model[3].bias[1] += 0.5 * (seed - 1)
      model[3].requires_grad_(False)
      return model

    with starling.join(adapted(1), **self.place('one'), **ALONE) as one:
      self.assertNotIn('3.bias', one._block.views)
      pattern = r"frozen '3.bias' \[4\] here, is another in the swarm .* and the same frozen weights"
      with self.assertRaisesRegex(starling.SwarmError, pattern):
        starling.join(adapted(2), bootstrap=self.address(one), **self.place('two'))

  def test_a_life_in_the_same_folder_goes_on_exactly(self):
    whole, broken = small_model(), small_model()
    of_whole, of_broken = (OPTIMIZERS['sgd'](model.parameters()) for model in (whole, broken))
    for index in range(40):
      one_step(whole, of_whole, index)
    with starling.join(broken, of_broken, extra=lambda: {'epoch': 7}, **self.place(), **ALONE) as swarm:
      for index in range(23):
        swarm.step(one_step(broken, of_broken, index))
    again = small_model(seed=2)
    of_again = OPTIMIZERS['sgd'](again.parameters())
    with starling.join(again, of_again, **self.place()) as swarm:
      self.assertEqual(swarm.restored_extra, {'epoch': 7})
      self.assertEqual(swarm.steps, 23)
      for index in range(23, 40):
        swarm.step(one_step(again, of_again, index))
    for key, value in whole.state_dict().items():
      self.assertTrue(torch.equal(value, again.state_dict()[key]), key)

  def test_parameters_that_are_not_shared_go_on_after_a_restart_and_after_a_bad_loss(self):
    def shared(name):
      return name.startswith('0.')

    whole, broken, again = (small_model(seed) for seed in (1, 1, 2))
    of_whole, of_broken, of_again = (OPTIMIZERS['sgd'](model.parameters()) for model in (whole, broken, again))
    for index in range(40):
      one_step(whole, of_whole, index)
    with starling.join(broken, of_broken, share=shared, **self.place(), **ALONE) as swarm:
      for index in range(23):
        swarm.step(one_step(broken, of_broken, index))
    with starling.join(again, of_again, share=shared, **self.place()) as swarm:
      of_again.param_groups[0]['lr'] = 0.01
      with torch.no_grad():
        again[3].weight.fill_(float('nan'))
      self.assertTrue(swarm.step(float('nan')))  # the agent goes back to its checkpoint
      self.assertTrue(bool(again[3].weight.isfinite().all()))
      self.assertEqual(of_again.param_groups[0]['lr'], 0.01, 'no scheduler went back')
      of_again.param_groups[0]['lr'] = 0.05
      for index in range(23, 40):
        swarm.step(one_step(again, of_again, index))
    for key, value in whole.state_dict().items():
      self.assertTrue(torch.equal(value, again.state_dict()[key]), key)

  def test_another_optimizer_begins_anew_in_the_folder(self):
    model = small_model()
    for kind in ('sgd', 'adamw', 'sgd'):
      optimizer = OPTIMIZERS[kind](model.parameters())
      anew = self.assertLogs('starling', 'WARNING') if kind == 'adamw' else contextlib.nullcontext()
      with anew as logged, starling.join(model, optimizer, **self.place(), **ALONE) as swarm:
        for index in range(4):
          self.assertTrue(swarm.step(one_step(model, optimizer, index)))
      if logged:
        self.assertIn('another one (SGD in the checkpoint, AdamW here), and begins anew', '\n'.join(logged.output))

  def test_a_buffer_of_another_size_does_not_keep_a_loop_from_its_folder(self):
    class Cached(nn.Linear):
      def __init__(self, size):
        super().__init__(8, 4)
        self.register_buffer('cache', torch.zeros(size), persistent=False)

    with starling.join(Cached(6), **self.place(), **ALONE) as swarm:
      swarm.step(0.0)
    with self.assertLogs('starling', 'WARNING') as logged, starling.join(Cached(3), **self.place()) as swarm:
      self.assertEqual(swarm.steps, 1)
    self.assertIn("'cache' is [6] in the checkpoint, [3] here", '\n'.join(logged.output))

  def test_a_kill_after_a_restart_costs_nothing_that_was_saved(self):
    text = """
model = small_model(int(sys.argv[1]))
optimizer = OPTIMIZERS['sgd'](model.parameters())
swarm = starling.join(model, optimizer, state='one', listen='127.0.0.1:0', extra=lambda: {'epoch': int(sys.argv[1])},
                      **(ALONE if sys.argv[1] == '7' else {}))
if sys.argv[1] == '7':
  for index in range(10):
    swarm.step(one_step(model, optimizer, index))
  swarm.close()
else:
  saved = {group: len(state) for group, state in optimizer.state.items()}
  print('restored', swarm.restored_extra, len(saved), flush=True)
  os._exit(4)
"""
    self.ends(self.script(text, 7, working=self.folder))
    for life in range(3):
      process = self.script(text, 0, working=self.folder)
      self.ends(process, 4)
      self.assertIn("restored {'epoch': 7} 6", process.log(), f'life {life}')

  def test_the_last_checkpoint_of_a_run_is_of_its_last_step(self):
    model, again = small_model(1), small_model(2)
    of_model, of_again = (OPTIMIZERS['sgd'](one.parameters()) for one in (model, again))
    taken = 0
    swarm = starling.join(model, of_model, extra=lambda: {'taken': taken}, stop_after=24, **self.place(), **ALONE)
    while True:
      loss = one_step(model, of_model, taken)
      taken += 1
      if not swarm.step(loss):
        break
    swarm.finish()
    with starling.join(again, of_again, stop_after=40, **self.place()) as swarm:
      self.assertEqual((swarm.restored_extra, swarm.steps), ({'taken': taken}, taken))
      for one, two in zip(model.parameters(), again.parameters()):
        self.assertTrue(torch.equal(of_model.state[one]['momentum_buffer'], of_again.state[two]['momentum_buffer']))

  def test_what_no_restart_could_load_is_refused(self):
    for extra, named in ((lambda: pathlib.Path('x'), 'pathlib'), (lambda: numpy.float64(1), 'numpy')):
      with self.assertRaisesRegex(starling.SwarmError, rf'{named}.* cannot be restored after a restart'):
        starling.join(small_model(), extra=extra, **self.place(named), **ALONE)
    model = small_model()
    optimizer = OPTIMIZERS['adamw'](model.parameters())
    with starling.join(model, optimizer, **self.place(), **ALONE) as swarm:
      optimizer.param_groups[0]['lr'] = numpy.float64(0.25)
      for index in range(5):
        swarm.step(one_step(model, optimizer, index))
    again = OPTIMIZERS['adamw'](model.parameters())
    with starling.join(model, again, **self.place()):
      self.assertEqual(again.param_groups[0]['lr'], 0.25)

  def test_a_swarm_that_is_dropped_leaves(self):
    def trains():
      model = small_model()
      swarm = starling.join(model, **self.place(), **ALONE)
      for _ in range(10):
        swarm.step(0.1)

    trains()
    gc.collect()
    with starling.join(small_model(2), **self.place()) as swarm:
      self.assertEqual(swarm.steps, 10)

  def saved_by_two(self, text):
    """What a founder (1) and a member that joins it (2) save as model-N.pt. Both say that they agree."""
    founder = self.script(text, 1, working=self.folder)
    self.wait_until(lambda: (self.folder / 'state-1/address').exists(), 'an address')
    newcomer = self.script(text, 2, (self.folder / 'state-1/address').read_text().strip(), working=self.folder)
    for process in (founder, newcomer):
      self.ends(process)
      self.assertIn('agreed True', process.log())
    return (torch.load(self.folder / f'model-{seed}.pt', weights_only=True) for seed in (1, 2))

  def test_loops_with_other_first_weights_end_with_one_model(self):
    text = """
seed, settings = int(sys.argv[1]), {'bootstrap': sys.argv[2]} if len(sys.argv) > 2 else {
  'wait_for': 2, 'local_steps': 1, 'stop_after': 200, 'exchange': {'share': ['params', 'momentum'], 'block': 64}}
model = small_model(seed)
optimizer = OPTIMIZERS['sgd'](model.parameters())
swarm = starling.join(model, optimizer, state=f'state-{seed}', listen='127.0.0.1:0', **settings)
index = 1000 * seed
while swarm.step(one_step(model, optimizer, index)):
  index += 1
agreed = swarm.finish()
torch.save(model.state_dict(), f'model-{seed}.pt')
print('agreed', agreed, 'steps', swarm.steps, flush=True)
"""
    one, two = self.saved_by_two(text)
    for key, value in one.items():
      if value.is_floating_point():
        apart = (value - two[key]).norm() / value.norm().clamp(min=1e-6)
        self.assertLess(apart, 0.1, key)
    self.assertTrue((one['1.running_var'] >= 0).all())

  def test_large_running_means_do_not_keep_weights_apart(self):
    text = """
seed, settings = int(sys.argv[1]), {'bootstrap': sys.argv[2]} if sys.argv[2:] else {'wait_for': 2, 'stop_after': 300}
torch.manual_seed(1)
model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = OPTIMIZERS['adamw'](model.parameters())
swarm = starling.join(model, optimizer, state=f'state-{seed}', listen='127.0.0.1:0', **settings)
torch.manual_seed(seed)
while True:
  features = torch.randn(32, 8) * torch.logspace(0, 5, 8)
  optimizer.zero_grad()
  loss = nn.functional.cross_entropy(model(features), 2 * seed - 2 + (features[:, 0] > 0).long())
  loss.backward()
  optimizer.step()
  if not swarm.step(loss):
    break
print('agreed', swarm.finish(), flush=True)
torch.save(dict(model.named_parameters()), f'model-{seed}.pt')
"""
    one, two = self.saved_by_two(text)
    for key, value in one.items():
      apart = (value - two[key]).norm() / value.norm()
      self.assertLess(apart, 0.05, key)

  def test_a_newcomer_adopts_weights_and_running_means(self):
    founder, newcomer = small_model(1), small_model(2)
    of_founder = OPTIMIZERS['adamw'](founder.parameters())
    with starling.join(founder, of_founder, **self.place('one'), **ALONE) as one:
      for index in range(20):
        one.step(one_step(founder, of_founder, index))
      text = """
newcomer = small_model(2)
optimizer = OPTIMIZERS['adamw'](newcomer.parameters())
os.environ['STARLING_BOOTSTRAP'] = sys.argv[1]
swarm = starling.join(newcomer, optimizer, state='two', listen='127.0.0.1:0')
torch.save(values(newcomer), 'adopted.pt')
print('scale', swarm.lr_scale, flush=True)
swarm.close()
"""
      of_founder.param_groups[0].update(lr=0, weight_decay=0)  # from here on its model stays
      founder.eval()
      process = self.script(text, self.address(one), working=self.folder)
      index = 20
      while process.running():  # a donor serves a model while it trains
        one.step(one_step(founder, of_founder, index))
        index += 1
      self.ends(process)
      scale = float(re.search(r'scale (\S+)', process.log())[1])
      self.assertLess(scale, 0.5, 'a newcomer begins with a ramp of the learning rate')
      adopted = torch.load(self.folder / 'adopted.pt', weights_only=True)
      for key, value in founder.state_dict().items():
        if value.is_floating_point():
          self.assertFalse(torch.equal(value, newcomer.state_dict()[key]), f'{key} is as a newcomer has it')
          self.assertTrue(torch.equal(value, adopted[key]), key)

  def test_a_joiner_has_its_donors_step_number_schedule_position_and_outer_state(self):
    text = """
newcomer = small_model(2)
optimizer = OPTIMIZERS['sgd'](newcomer.parameters())
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.999**step)
print('ready', flush=True)
swarm = starling.join(newcomer, optimizer, state='two', listen='127.0.0.1:0', bootstrap=sys.argv[1])
swarm.follow(scheduler)
print('began', swarm.steps, swarm.steps_of_swarm, scheduler.last_epoch, swarm.lr_scale, flush=True)
assert optimizer.param_groups[0]['lr'] == 0.05 * 0.999**scheduler.last_epoch  # without a ramp, unless the loop asks
own, scales = 0, []
while swarm.step(one_step(newcomer, optimizer, 5000 + own)):
  own += 1
  if swarm.changed:
    scales.append(abs(swarm.lr_scale - min(1, (own + 1) / 100)))
assert max(scales) < 1e-6 and own > 100, (own, scales)
print('agreed', swarm.finish(), flush=True)
torch.save(newcomer.state_dict(), 'two.pt')
"""
    founder = small_model(1)
    optimizer = OPTIMIZERS['sgd'](founder.parameters())
    updates = {'kind': 'group', 'source': 'updates', 'overlap': False, 'outer': {'momentum': 0.5}}
    settings = {'wait_for': 1, 'local_steps': 4, 'stop_after': 3000, 'exchange': updates}
    with starling.join(founder, optimizer, **self.place('one'), **settings) as swarm:
      index = 0
      while swarm.steps < 200:
        self.assertTrue(swarm.step(one_step(founder, optimizer, index)))
        index += 1
      process = self.script(text, self.address(swarm))
      self.wait_until(lambda: 'ready' in process.log() or not process.running(), 'a second loop')
      before = swarm.steps
      while 'began' not in process.log() and process.running():
        self.assertTrue(swarm.step(one_step(founder, optimizer, index)), 'the run ended before the other had joined')
        index += 1
        processes.pause(0.01)
      after = swarm.steps
      while swarm.step(one_step(founder, optimizer, index)):
        index += 1
      self.assertTrue(swarm.finish())
    self.ends(process)
    self.assertIn('agreed True', process.log())
    began = re.search(r'began (\d+) (\d+) (\d+) (\S+)', process.log())
    for count in (int(began[1]), int(began[2])):
      self.assertTrue(before - 8 <= count <= after + 8, f'{before} <= {count} <= {after}')
    self.assertEqual(began[3], began[2])
    self.assertLessEqual(float(began[4]), 0.05)
    adopted = torch.load(self.folder / 'two.pt', weights_only=True)
    for key, value in founder.state_dict().items():
      if value.is_floating_point():
        self.assertTrue(torch.equal(value, adopted[key]), key)
    momentum = processes.outer_momentum(self.folder / 'one')
    self.assertTrue(any(momentum))
    self.assertEqual(momentum, processes.outer_momentum(self.folder / 'two'))

  def program(self, *arguments):
    if 'STARLING' not in os.environ:
      self.skipTest('the program was not built: it needs LibTorch')
    done = subprocess.run(
      [processes.PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=self.folder
    )
    self.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout

  def test_the_program_shows_and_exports_an_attached_model(self):
    model = small_model()
    optimizer = OPTIMIZERS['sgd'](model.parameters())
    with starling.join(model, optimizer, name='mine', **self.place(), **ALONE) as swarm:
      for index in range(10):
        swarm.step(one_step(model, optimizer, index))
      self.assertIn('mine', self.program('status', '--state', str(self.folder / 'one')))
    path = self.folder / 'model.pt'
    said = self.program('export', '--state', str(self.folder / 'one'), str(path))
    self.assertIn("params that members share (frozen ones are the loop's)", said)
    exported = torch.load(path, weights_only=True)
    wanted = {key: value for key, value in model.state_dict().items() if value.is_floating_point()}
    self.assertEqual(list(exported), [name for name, _, _ in swarm._block.slots])
    for key, value in wanted.items():
      self.assertTrue(torch.equal(exported[key], value), key)

  def shown(self, swarm):
    """The members as `starling status` has them, by name."""
    told = json.loads(self.program('status', self.address(swarm), '--once', '--json'))
    return {member['name']: member for member in told['members']}

  def test_what_a_loop_logs_is_shown(self):
    model, path = small_model(), self.folder / 'run.jsonl'
    own = {'metrics': str(path), 'evaluate_every': '1h'}
    with starling.join(model, name='mine', agent=own, **self.place(), **ALONE) as swarm:
      before = self.shown(swarm)['mine']
      self.assertEqual((before['accuracy'], before['test_loss']), (None, None))

      for _ in range(105):
        swarm.step(-0.5)
      swarm.log(accuracy=0.75, loss=0.5, samples=100)

      def shown():
        swarm.step(-0.5)
        member = self.shown(swarm)['mine']
        return (member['accuracy'], member['test_loss']) == (0.75, 0.5)

      self.wait_until(shown, 'what the loop logged')
    written = [json.loads(line) for line in path.read_text().splitlines()]
    told = {(event.get('accuracy'), event.get('loss')) for event in written if event['event'] == 'evaluate'}
    self.assertEqual(told, {(0.75, 0.5)}, {event['event'] for event in written})
    self.assertLess(next(event['steps'] for event in written if event['event'] == 'evaluate'), 105 + 20, 'a round late')
    self.assertEqual([event['loss'] for event in written if 'swarm_steps' in event][-1], -0.5)

  def test_the_scripts_of_the_pages_train_together(self):
    def script(page):
      """The first one there."""
      lines = (attach_case.ROOT / page).read_text().splitlines()
      begin = next(i for i, line in enumerate(lines) if re.match(r'    import .*\bstarling\b', line))
      return [line[4:] for line in itertools.takewhile(lambda line: line.startswith('    '), lines[begin:])]

    first, further = script('README.md'), script('agent/attach/README.md')
    further = [line for line in further if '# the first machine' not in line]
    self.assertIn('bootstrap="HOST:7400#TICKET"', first[1])
    names = """
model = small_model(int(sys.argv[1]))
optimizer = OPTIMIZERS['adamw'](model.parameters())
loader = (torch.randn(16, 8) for _ in range(10**6))
def loss_of(model, batch):
  return (model(batch) - batch[:, :4]).square().mean()
"""
    end = "\nprint('agreed', swarm.finish(), swarm.steps_of_swarm, swarm.metrics()['swarm/exchanges'], flush=True)\n"
    (command,) = re.findall(r'`starling (init --task own [^`]+)`', (attach_case.ROOT / 'README.md').read_text())
    self.program(*command.split())
    members, ticket = [self.script(names + '\n'.join(first) + end, 1)], self.folder / 'starling-state/ticket'
    self.wait_until(lambda: ticket.exists() or not members[0].running(), 'a ticket')
    text = '\n'.join(further).replace('HOST:7400#TICKET', ticket.read_text().strip())
    members.append(self.script(names + text + end, 2))
    for member in members:
      self.ends(member)
      self.assertRegex(member.log(), r'agreed True \d{4} [1-9]')

  def test_loops_train_together_by_each_exchange(self):
    exchanges = {
      'pairs': {'codec': 'bf16'},
      'group': {'kind': 'group', 'codec': 'bf16'},
      'neighborhood': {'kind': 'neighborhood', 'codec': 'fp32'},
      'top-k': {'kind': 'group', 'source': 'updates', 'update': {'codec': 'topk', 'density': 0.2}},
      'int8': {'kind': 'group', 'source': 'updates', 'update': {'codec': 'int8'}},
    }
    swarms = {name: self.three_loops(name, False, stop_after=200, exchange=one) for name, one in exchanges.items()}
    for name, loops in swarms.items():
      for loop in loops:
        self.wait_until(lambda: not loop.is_alive(), f'the end of a loop of {name}')
        self.assertEqual((loop.error, loop.agreed), (None, True), name)
        self.assertGreater(loop.swarm.metrics()['swarm/exchanges'], 5, name)
      self.assert_near(loops, 0.0 if 'source' in exchanges[name] else 0.1, name)

  # ---- a loop that pauses

  def three_loops(self, name, pauses=True, **settings):
    """`pauses`: the last one does, at its 80th step."""
    settings, loops = {'wait_for': 3, 'local_steps': 4, **settings}, []
    for i in range(3):
      state = self.folder / f'{name}-{i}'
      place = {'listen': '127.0.0.1:0', 'name': state.name, 'state': str(state)}
      loops.append(Loop(i + 1, 80 if pauses and i == 2 else None, **place, **settings))
      self.loops.append(loops[-1])
      self.wait_until(lambda: (state / 'address').exists() or loops[-1].error, 'an address')
      self.assertIsNone(loops[-1].error)
      settings = settings if i else {'bootstrap': (state / 'address').read_text().strip()}
    return loops

  def assert_near(self, loops, most, name):
    first, *others = (dict(loop.model.named_parameters()) for loop in loops)
    for other in others:
      for key, value in first.items():
        apart = (value - other[key]).norm() / value.norm().clamp(min=1e-6)
        self.assertLessEqual(apart, most, f'{name}, {key}')

  def test_a_loop_that_pauses_costs_the_others_nothing(self):
    updates = {'exchange': {'kind': 'group', 'source': 'updates', 'overlap': False}}
    swarms = {
      'pairs': self.three_loops('pairs', stop_after=1000),
      'updates': self.three_loops('updates', stop_after=1000, **updates),
      'beyond the end': self.three_loops('end', stop_after=500),
    }
    alone = Loop(0)  # as slow as this machine is
    self.loops.append(alone)
    all_loops = [loop for loops in swarms.values() for loop in loops]

    def wait_for(condition, what):
      self.wait_until(lambda: condition() or any(loop.error for loop in all_loops), what)
      self.assertEqual([loop.error for loop in all_loops], [None] * len(all_loops))

    wait_for(lambda: all(loops[2].pauses.is_set() for loops in swarms.values()), 'the pauses')
    paused = [(loops[0], loops[2].arguments['name']) for loops in swarms.values()]
    wait_for(lambda: all(self.shown(one.swarm)[other]['state'] == 'paused' for one, other in paused), 'a record of it')
    told = time.monotonic()
    exchanges = {loop: loop.swarm.metrics()['swarm/exchanges'] for loops in swarms.values() for loop in loops[:2]}
    wait_for(lambda: time.monotonic() > told + 3, 'the end of the pauses')
    ended = time.monotonic()
    for name, loops in swarms.items():
      self.assertEqual(len(loops[2].times), 80)
      for loop in loops[:2]:
        pace, of_one_alone = (one.steps_a_second(told, ended) for one in (loop, alone))
        self.assertGreater(pace, 0.75 * of_one_alone, name)
        # An exchange that was open with the one that pauses ends at its deadline.
        self.assertLess(loop.longest_step(loops[2].paused_at, ended), 3, name)
        self.assertGreater(loop.swarm.metrics()['swarm/exchanges'], exchanges[loop], name)
    for name in ('pairs', 'updates'):
      swarms[name][2].goes_on.set()
    wait_for(lambda: all(loop.swarm.phase in ('settling', 'ended') for loop in swarms['beyond the end'][:2]), 'the end')
    swarms['beyond the end'][2].goes_on.set()
    for loop in all_loops:
      wait_for(lambda: not loop.is_alive(), 'the end of a loop')
      self.assertTrue(loop.agreed)
    for name, loops in swarms.items():
      self.assert_near(loops, 0.0 if name == 'updates' else 0.1, name)
    self.assertEqual(len(swarms['beyond the end'][2].times), 81, 'it trains no further alone')

  # ---- what is known

  def test_a_scheduler_follows_the_swarms_clock(self):
    model = small_model()
    optimizer = OPTIMIZERS['sgd'](model.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99**step)
    with starling.join(model, optimizer, **self.place(), **ALONE) as swarm:
      swarm.follow(scheduler)
      for index in range(20):
        swarm.step(one_step(model, optimizer, index))
      self.assertEqual(scheduler.last_epoch, swarm.steps_of_swarm)
    again = OPTIMIZERS['sgd'](model.parameters())
    late = torch.optim.lr_scheduler.LambdaLR(again, lambda step: 0.99**step)
    with starling.join(model, again, **self.place()) as swarm:
      swarm.follow(late)
      self.assertEqual(late.last_epoch, 20)

  def test_a_restart_decays_no_rate_twice(self):
    def schedule(optimizer):  # from the rate before, not from the first one
      return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)

    for before_join in (True, False):
      with self.subTest(before_join=before_join):
        for life in range(3):
          model = small_model()
          optimizer = OPTIMIZERS['sgd'](model.parameters())
          scheduler = schedule(optimizer) if before_join else None
          place = self.place(f'before {before_join}', **({} if life else ALONE))
          with starling.join(model, optimizer, **place) as swarm:
            scheduler = scheduler or schedule(optimizer)
            swarm.follow(scheduler)
            for index in range(20):
              swarm.step(one_step(model, optimizer, index))
            self.assertGreaterEqual(scheduler.last_epoch, 20 * life)
            self.assertAlmostEqual(optimizer.param_groups[0]['lr'], 0.05 * 0.99**scheduler.last_epoch)

  def test_schedulers_of_each_kind_follow_or_are_refused(self):
    schedulers = torch.optim.lr_scheduler
    model = small_model()
    optimizer = OPTIMIZERS['sgd'](model.parameters())
    with starling.join(model, optimizer, **self.place(), **ALONE, stop_after=100) as swarm:
      with self.assertRaisesRegex(starling.SwarmError, 'follows a metric'):
        swarm.follow(schedulers.ReduceLROnPlateau(optimizer))
      with self.assertRaisesRegex(TypeError, 'a scheduler of .*, not NoneType'):
        swarm.follow(None)
      inner = schedulers.ExponentialLR(optimizer, 0.99)
      swarm.follow(schedulers.ChainedScheduler([inner]))
      for index in range(10):
        self.assertTrue(swarm.step(one_step(model, optimizer, index)))
      self.assertAlmostEqual(optimizer.param_groups[0]['lr'], 0.05 * 0.99**inner.last_epoch)
    other = OPTIMIZERS['sgd'](small_model().parameters())
    cycle = schedulers.OneCycleLR(other, 0.1, total_steps=100)
    swarm._now.steps_of_swarm, swarm._now.stop_after = 104, 100  # as after a last round of eight steps
    swarm.follow(cycle)
    self.assertEqual(cycle.last_epoch, 100)

  # ---- refusals

  def refused(self, pattern, model, optimizer=None, error=starling.SwarmError, **arguments):
    with_values = not any(isinstance(tensor, nn.UninitializedParameter) for tensor in model.parameters())
    before = {name: tensor.data_ptr() for name, tensor in model.named_parameters() if with_values}
    with self.assertRaisesRegex(error, pattern):
      starling.join(model, optimizer, **{**self.place('refused'), **ALONE, **arguments})
    for name, pointer in before.items():
      self.assertEqual(dict(model.named_parameters())[name].data_ptr(), pointer, f'{name} was moved')

  def test_bad_input_is_refused_before_the_model_is_touched(self):
    model = small_model()
    self.refused('nothing requires grad', small_model().requires_grad_(False))
    self.refused("share='lora' names none", model, share='lora')
    self.refused(r"share='\(' is no regular expression", model, error=ValueError, share='(')
    self.refused("which the model does not have; did you mean '3.bias'", model, error=ValueError, share=['3.bia'])
    self.refused('share= takes a pattern, names, or', model, error=TypeError, share=5)
    self.refused("'0.weight' is torch.complex64", small_model().to(torch.complex64))
    frozen = small_model()
    frozen[3].to('meta').requires_grad_(False)
    self.refused("'3.weight' is frozen and cannot be compared", frozen)
    self.refused("frozen='no': 'check' or 'ignore'", model, error=ValueError, frozen='no')
    self.refused("'0.weight' has no values yet", small_model().to('meta'))
    self.refused("'0.weight' has no values yet", nn.Sequential(nn.LazyLinear(4)))
    broken = small_model()
    with torch.no_grad():
      broken[3].bias[2] = float('nan')
    self.refused("'3.bias' has values that are not finite", broken)
    broken[3].bias = None
    broken.register_buffer('mask', torch.full((4, 4), -math.inf))
    self.refused("'mask' has values .* persistent=False, or join with buffers='local'", broken)
    tied = tied_model()
    tied[2].weight = nn.Parameter(tied[0].weight.data)
    self.refused("'2.weight' lies in the memory of '0.weight': tie them as one Parameter", tied)
    self.refused('the optimizer holds a tensor', model, OPTIMIZERS['sgd'](small_model().parameters()))
    self.refused("did you mean 'swarm.optimizer.learning_rate'", model, learning_rat=1)
    self.refused("local_stepz=1: unknown key 'local_stepz' in swarm; did you mean", model, local_stepz=1)
    self.refused("unknown key 'stat' in swarm.*; or did you mean state=", model, stat='folder')
    self.refused('init --task own', model, config='nowhere.yaml')
    config = self.folder / 'built-in.yaml'
    config.write_text('swarm: {model: {kind: mlp}}\n')
    self.refused('which .starling agent. trains', model, config=config)
    self.refused(
      'write source: updates with local_steps: 1',
      model,
      exchange={'source': 'gradients', 'kind': 'group', 'codec': 'bf16'},
    )
    self.refused(
      'moments of Adam diverge',
      model,
      OPTIMIZERS['adamw'](model.parameters()),
      exchange={'share': ['params', 'momentum']},
    )
    optimizers = [OPTIMIZERS['sgd'](model.parameters())]
    self.refused('takes one optimizer of torch, not list', model, optimizers, error=TypeError)
    for timeout in ('10s', math.nan, -1):
      self.refused(f'timeout={timeout!r}: it takes seconds, or None', model, error=TypeError, timeout=timeout)
    self.refused('agent= takes a dict of keys, not str', model, error=TypeError, agent='cpu')
    self.refused('config= takes a path, not dict', model, error=TypeError, config={})
    self.refused('name= takes a text, not int', model, error=TypeError, name=5)
    self.refused('extra= takes a function, whose value is saved, not dict', model, error=TypeError, extra={})
    self.refused('swarm.exchange.updat is empty', model, error=ValueError, exchange={'updat': {}})
    with self.assertRaisesRegex(TypeError, 'takes a torch.nn.Module, not list'):
      starling.join([])
    with self.assertRaisesRegex(ValueError, "'average' or 'local'"):
      starling.join(model, buffers='mean')

  def test_no_address_no_settings_and_nothing_stored_is_refused_at_once(self):
    with self.assertRaisesRegex(starling.SwarmError, 'there is no swarm to join: name a member with bootstrap='):
      starling.join(small_model(), **self.place())

  def test_a_port_that_is_taken_is_named(self):
    with socket.socket() as taken:
      taken.bind(('127.0.0.1', processes.free_port_pair()))
      taken.listen()
      address = f'127.0.0.1:{taken.getsockname()[1]}'
      self.refused(rf'{address}.* listen=', small_model(), listen=address)

  def test_a_member_that_never_answers_is_waited_for_no_longer_than_asked(self):
    model, address = small_model(), f'127.0.0.1:{processes.free_port_pair()}'
    before, began = values(model), time.monotonic()
    with self.assertRaisesRegex(starling.SwarmError, f'no member of the swarm has answered at {address} in time'):
      starling.join(model, bootstrap=address, timeout=0.5, **self.place())
    self.assertLess(time.monotonic() - began, 10, 'a busy machine adds to half a second')
    for key, value in before.items():
      self.assertTrue(torch.equal(value, model.state_dict()[key]), key)
    with starling.join(model, **self.place('two'), **ALONE) as swarm:
      self.assertTrue(swarm.step(0.0))

  def test_a_folder_of_another_model_is_refused(self):
    with starling.join(small_model(), **self.place(), **ALONE) as swarm:
      for _ in range(5):
        swarm.step(0.0)
    kept = (self.folder / 'one/settings.yaml').read_text()
    other = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    self.refused(r"'3.weight' float32 \[5, 16\] here.*/one goes on with theirs.*\(state=\)", other, **self.place())
    self.assertEqual((self.folder / 'one/settings.yaml').read_text(), kept)
    with starling.join(small_model(2), **self.place()) as swarm:
      self.assertEqual(swarm.steps, 5)

  def test_bad_losses_in_a_row_end_the_run_with_the_remedy(self):
    model = small_model()
    optimizer = OPTIMIZERS['sgd'](model.parameters())
    with starling.join(model, optimizer, **self.place(), **ALONE) as swarm:
      for index in range(10):
        swarm.step(one_step(model, optimizer, index))
      went_on = 0
      with self.assertRaisesRegex(starling.SwarmError, "3 times in a row.* learning rate of the loop's optimizer"):
        for _ in range(10):
          with torch.no_grad():
            model[0].weight.fill_(float('nan'))
          swarm.step(float('nan'))
          self.assertTrue(bool(model[0].weight.isfinite().all()))
          went_on += 1
      self.assertEqual(went_on, 3)
    with starling.join(small_model(2), **self.place()) as swarm:  # of the last good checkpoint
      self.assertTrue(all(bool(tensor.isfinite().all()) for tensor in swarm._model.parameters()))

  def test_a_swarm_with_tickets_lets_in_who_has_one(self):
    with starling.join(small_model(), **self.place('one'), **ALONE, trust='ticket'):
      ticket = (self.folder / 'one' / 'ticket').read_text().strip()
      with starling.join(small_model(), bootstrap=ticket, **self.place('two')) as two:
        self.assertIn('trust: ticket ', (self.folder / 'two' / 'settings.yaml').read_text())
        self.assertTrue(two)
      with self.assertRaisesRegex(starling.SwarmError, 'the ticket is cut off'):
        starling.join(small_model(), bootstrap=ticket[:-4], **self.place('three'))

  def test_another_model_and_a_folder_in_use_are_refused(self):
    model = small_model()
    with starling.join(model, **self.place('one'), **ALONE) as one:
      with self.assertRaisesRegex(starling.SwarmError, 'has joined a swarm already'):
        starling.join(model, **self.place('two'), **ALONE)
      with self.assertRaisesRegex(starling.SwarmError, rf'\(process {os.getpid()}\); .* with state='):
        starling.join(small_model(), **self.place('one'), **ALONE)
      other = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
      pattern = r"tensor 5 of 8, '3.weight' float32 \[5, 16\] here, is another in the swarm \(the 4 before it agree\)"
      with self.assertRaisesRegex(starling.SwarmError, pattern):
        starling.join(other, bootstrap=self.address(one), **self.place('two'))
      with self.assertRaisesRegex(starling.SwarmError, 'local_steps: 9 here, 2 there'):
        starling.join(small_model(), bootstrap=self.address(one), local_steps=9, **self.place('two'))

  def moved(self, change, pattern):
    model = small_model()
    with starling.join(model, **self.place(), **ALONE) as swarm:
      with self.but_for_old_torch():
        change(model)
      with self.assertRaisesRegex(starling.SwarmError, pattern):
        for _ in range(3):
          swarm.step(0.0)

  def test_a_model_that_is_moved_after_join_is_found_by_name(self):
    self.moved(lambda model: model.half(), "'0.weight' is now torch.float16 .* it was torch.float32")

  def test_a_model_that_is_assigned_after_join_is_found_by_name(self):
    self.moved(
      lambda model: model.load_state_dict(small_model(2).state_dict(), assign=True), "'0.weight' is now torch.float32"
    )

  def test_a_layer_that_thaws_after_join_is_found_by_name(self):
    model = small_model()
    model[3].requires_grad_(False)
    with starling.join(model, **self.place(), **ALONE) as swarm:
      model[3].requires_grad_(True)
      with self.assertRaisesRegex(starling.SwarmError, "'3.weight' requires grad now and did not at join"):
        for _ in range(3):
          swarm.step(0.0)
    named = small_model()
    named[3].requires_grad_(False)
    with starling.join(named, share=lambda name: True, **self.place('named'), **ALONE) as swarm:
      named[3].requires_grad_(True)
      for _ in range(5):
        self.assertTrue(swarm.step(0.0))

  def test_what_is_no_loss_and_no_count_is_refused(self):
    with starling.join(small_model(), **self.place(), **ALONE) as swarm:
      for wrong in (('x', 1), (0.5, 'a'), (None, 1), (0.5, -3), (0.5, 1.5), (0.5, 2**70)):
        with self.assertRaisesRegex(TypeError, 'takes a number and a count, not'):
          swarm.step(*wrong)
        with self.assertRaisesRegex(TypeError, 'takes two numbers and a count, not'):
          swarm.log(0.5, *wrong)
      with self.assertRaisesRegex(TypeError, r'not a tensor of shape \[4\]: give its mean'):
        swarm.step(torch.ones(4))
      for accuracy in (93.0, -0.1, math.nan):
        with self.assertRaisesRegex(ValueError, 'it is a part of 1'):
          swarm.log(accuracy)
      self.assertTrue(swarm.step(0.5, 1))

  def test_calls_after_the_end(self):
    swarm = starling.join(small_model(), **self.place(), **ALONE, stop_after=4)
    while swarm.step(0.0):
      pass
    with self.assertLogs('starling', 'WARNING') as logged:
      self.assertFalse(swarm.step(0.0))
    self.assertIn('call finish()', logged.output[0])
    self.assertTrue(swarm.finish())
    self.assertFalse(swarm.step(0.0))
    self.assertTrue(swarm.finish())
    closed = starling.join(small_model(), **self.place('two'), **ALONE)
    closed.close()
    with self.assertRaisesRegex(starling.SwarmError, 'was closed'):
      closed.step(0.0)

  # ---- a good guest

  def test_lines_go_to_the_logger_and_name_arguments(self):
    text = """
import logging
import math
held = []
class Keep(logging.Handler):
  def emit(self, record):
    held.append(record.getMessage())
logging.getLogger('starling').addHandler(Keep())
logging.getLogger('starling').setLevel(logging.INFO)
swarm = starling.join(small_model(), state='one', listen='127.0.0.1:0', wait_for=1)
for _ in range(20):
  swarm.step(0.5)
print(repr(swarm))
swarm.close()
assert any('join with bootstrap=' in line for line in held), held
assert not any('--' in line for line in held), held
"""
    process = self.script(text, working=self.folder)
    self.ends(process)
    self.assertRegex(process.log(), r'^<Swarm training: step \d+, 0 peers>\n$')

  def test_other_labels_are_named_where_the_optimizer_is_adam(self):
    text = """
import logging
import math
logging.basicConfig(level=logging.WARNING, format='%(name)s: %(message)s')
kind, first, *bootstrap = sys.argv[1:]
model = small_model()
optimizer = OPTIMIZERS[kind](model.parameters())
labels = torch.arange(int(first), int(first) + 5).repeat(20)
swarm = starling.join(model, optimizer, labels=labels, name='from' + first, listen='127.0.0.1:0',
                      state='state-' + first, **({'bootstrap': bootstrap[0]} if bootstrap else ALONE))
for index in range(10**6):
  if not swarm.step(one_step(model, optimizer, index)):
    break
"""
    first = self.script(text, 'adamw', '0')
    self.wait_until(lambda: (self.folder / 'state-0/address').exists() or not first.running(), 'an address')
    address = (self.folder / 'state-0/address').read_text().strip()
    second = self.script(text, 'sgd', '5', address)
    self.wait_until(lambda: 'most labels of this agent' in first.log(), 'the warning')
    self.assertIn('are others than those of from5', first.log())
    self.assertNotIn('most labels', second.log())

  def test_labels_are_integers_from_zero_on(self):
    hot = ([[0, 1, 0], [1, 0, 0]], 'give labels.argmax')
    none = [(labels, 'integer labels') for labels in ([0.5], [], 10, ['a'])]
    for labels, what in (*none, hot, ([-1, 3], 'from -1 to 3'), ([2**20], 'to')):
      with self.assertRaisesRegex(ValueError, what):
        starling.join(small_model(), labels=labels, **self.place(), **ALONE)

  def test_saving_one_tensor_does_not_save_the_block(self):
    model = nn.Sequential(nn.Linear(500, 500), nn.Linear(500, 500))
    with starling.join(model, **self.place(), **ALONE):
      saved = io.BytesIO()
      torch.save(model[0].bias, saved)
      self.assertLess(len(saved.getvalue()), 10_000)

  def test_many_lives_in_one_process_leave_nothing(self):
    def life():
      with starling.join(small_model(), **self.place(), **({} if self.lives else ALONE)) as swarm:
        for _ in range(10):
          swarm.step(0.0)
      self.lives += 1
      return len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))

    life()
    first = life()
    for _ in range(5):
      last = life()
    self.assertLessEqual(last[0], first[0], 'threads')
    self.assertLessEqual(last[1], first[1], 'open files')

  def test_an_exception_or_an_exit_of_the_loop_ends_the_process(self):
    begin = (
      "swarm = starling.join(small_model(), state=sys.argv[1], listen='127.0.0.1:0', wait_for=1)\nswarm.step(0.0)\n"
    )
    for name, end, status in (
      ('exception', "raise ValueError('of the loop')", 1),
      ('exit', 'sys.exit(3)', 3),
      ('nothing', '', 0),
      ('os', 'os._exit(4)', 4),
    ):
      self.ends(self.script(begin + end, name, working=self.folder), status)

  def test_ctrl_c_comes_through_and_the_swarm_stays_usable(self):
    text = """
import signal, threading, time
def interrupted(call, after):
  timer = threading.Timer(after, lambda: (began.append(time.monotonic()), os.kill(os.getpid(), signal.SIGINT)))
  began = []
  timer.start()
  try:
    call()
  except KeyboardInterrupt:
    return time.monotonic() - began[0]
  raise AssertionError('no KeyboardInterrupt')

place = {'listen': '127.0.0.1:0'}
print('join', interrupted(lambda: starling.join(small_model(), bootstrap='127.0.0.1:9', state='a', **place), 0.5))
print('gather', interrupted(lambda: starling.join(small_model(), wait_for=2, state='b', **place), 0.5))
model = small_model()
optimizer = OPTIMIZERS['sgd'](model.parameters())
swarm = starling.join(model, optimizer, wait_for=1, state='c', **place)
def train():
  for index in range(10**9):
    swarm.step(one_step(model, optimizer, index))
print('step', interrupted(train, 0.5))
before = swarm.steps
for index in range(50):
  assert swarm.step(one_step(model, optimizer, index))
assert swarm.steps > before
swarm.finish()
print('usable')
"""
    process = self.script(text, working=self.folder)
    self.ends(process)
    self.assertIn('usable', process.log())
    for name in ('join', 'gather', 'step'):
      took = float(re.search(rf'{name} (\S+)', process.log())[1])
      self.assertLess(took, 2, f'{name}: a busy machine adds to some 0.1 s')

  def test_texts_name_what_a_loop_can_set(self):
    for text, told in (
      ('name a member with --bootstrap HOST:PORT', 'name a member with bootstrap=HOST:PORT'),
      ('start it with --set swarm.stop_after=900, or --alone', 'start it with stop_after=900, or alone=True'),
      (
        'with a lower swarm.optimizer.learning_rate (now 0.03), or look',
        "with a lower learning rate of the loop's optimizer, or look",
      ),
    ):
      self.assertEqual(for_python(text), told)

  # ---- processes that train one model together

  RANKS = """
import atexit
import torch.distributed as dist
atexit.register(processes.pause, 0.5)  # torch's threads hold a tensor for a moment, and abort beside no interpreter
from torch.nn.parallel import DistributedDataParallel as DDP
def step_of_rank(model, optimizer, index):
  return one_step(model, optimizer, 1000 * dist.get_rank() + index)
def trains(model, optimizer, swarm, indices):
  for index in indices:
    if not swarm.step(step_of_rank(model, optimizer, index), samples=16):
      return
dist.init_process_group('gloo')
"""

  def ranks(self, text, *arguments):
    """Two processes, as torchrun starts them."""
    port = str(processes.free_port_pair())
    path = self.folder / f'script-{len(self.processes)}.py'
    path.write_text(SCRIPT + self.RANKS + text)
    together = {'WORLD_SIZE': '2', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': port}
    places = [{**together, 'RANK': str(rank), 'LOCAL_RANK': str(rank)} for rank in range(2)]
    return [self.python(path, *arguments, environment={**attach_case.ENVIRONMENT, **place}) for place in places]

  def test_ranks_of_a_swarm_of_one_train_and_go_on_as_without_a_swarm(self):
    text = """
alone, joined, again = (DDP(small_model(seed)) for seed in (1, 1, 2))
plain, shared, later = (OPTIMIZERS['sgd'](model.parameters()) for model in (alone, joined, again))
for index in range(40):
  step_of_rank(alone, plain, index)
place = {'state': 'one', 'listen': '127.0.0.1:0', 'extra': lambda: {'epoch': 7}}
momentum = {'wait_for': 1, 'local_steps': 3, 'exchange': {'share': ['params', 'momentum']}}
with starling.join(joined, shared, **momentum, **place) as swarm:
  trains(joined, shared, swarm, range(20))
with starling.join(again, later, **place) as swarm:
  assert (swarm.steps, swarm.restored_extra) == (20, {'epoch': 7}), (swarm, swarm.restored_extra)
  trains(again, later, swarm, range(20, 40))
for key, value in alone.module.state_dict().items():
  if 'running' not in key:  # each rank's own, until DDP takes those of rank 0
    assert torch.equal(value, again.module.state_dict()[key]), key
print(repr(swarm), 'ends well', flush=True)
dist.destroy_process_group()
"""
    for process in self.ranks(text):
      self.ends(process)
      self.assertRegex(process.log(), r'<Swarm \w+: step \d+, 0 peers> ends well')

  def test_ranks_are_one_member_among_others(self):
    text = """
rank = dist.get_rank()
model = DDP(small_model(rank))
optimizer = OPTIMIZERS['adamw'](model.parameters())
settings = {'wait_for': 2, 'local_steps': 3, 'stop_after': 150}
swarm = starling.join(model, optimizer, state='state-1', listen='127.0.0.1:0', **settings)
trains(model, optimizer, swarm, range(10**6))
swarm.log(0.5, 1.0)
agreed = swarm.finish()
swarm.save('ranks.pt')
mine = torch.cat([tensor.flatten() for tensor in model.parameters()])
first = mine.clone()
dist.broadcast(first, 0)
assert torch.equal(mine, first), rank
print('agreed', agreed, swarm.metrics()['swarm/exchanges'], flush=True)
dist.destroy_process_group()
"""
    lone = """
model = small_model(7)
optimizer = OPTIMIZERS['adamw'](model.parameters())
swarm = starling.join(model, optimizer, state='state-2', listen='127.0.0.1:0', bootstrap=sys.argv[1])
index = 5000
while swarm.step(one_step(model, optimizer, index), samples=16):
  index += 1
print('agreed', swarm.finish(), swarm.metrics()['swarm/exchanges'], flush=True)
"""
    ranks = self.ranks(text)
    self.wait_until(lambda: (self.folder / 'state-1/address').exists() or not ranks[0].running(), 'an address')
    self.assertTrue(ranks[0].running(), ranks[0].log())
    for process in [*ranks, self.script(lone, (self.folder / 'state-1/address').read_text().strip())]:
      self.ends(process)
      self.assertRegex(process.log(), r'agreed True [1-9]')

  def test_ranks_learn_that_rank_0_has_ended_within_a_round_or_is_gone(self):
    text = """
import time
model = small_model()
optimizer = OPTIMIZERS['sgd'](model.parameters())
for how in ('close', 'exception', 'leave', 'leave without finish', 'finish', 'fork'):
  swarm = starling.join(model, optimizer, state=how, listen='127.0.0.1:0', wait_for=1, local_steps=4)
  assert swarm.step(step_of_rank(model, optimizer, 0), samples=16)
  told = ''
  try:
    if dist.get_rank() > 0:
      while swarm.step(step_of_rank(model, optimizer, 1), samples=16):
        pass
      told = f'over {swarm.finish()}'
      assert swarm.steps == 1 or how == 'leave without finish', swarm.steps
    elif how == 'exception':
      try:
        with swarm:
          raise ValueError('of the loop')
      except ValueError:
        pass
    elif how == 'fork':
      child = os.fork()
      if child == 0:  # its error is no word of rank 0
        for call in (lambda: [swarm.step(0.0) for _ in range(4)], swarm.finish):
          try:
            call()
            os._exit(1)
          except starling.SwarmError:
            pass
        os._exit(0)
      assert os.waitpid(child, 0)[1] == 0
      swarm.finish()
    else:
      getattr(swarm, how.split()[0])()
      if how == 'leave':
        swarm.finish()
  except starling.SwarmError as error:
    told = str(error)
    try:
      swarm.step(0.0)
    except starling.SwarmError as again:
      assert str(again) == told, again
  swarm.close()
  print(how, 'told:', told, flush=True)
  dist.barrier()
swarm = starling.join(model, optimizer, state='gone', listen='127.0.0.1:0', wait_for=1, local_steps=4)
swarm.step(0.0)
if dist.get_rank() == 0:
  os._exit(4)
while swarm.step(0.0):
  pass
"""
    first, second = self.ranks(text)
    self.ends(first, 4)
    self.ends(second, 1)
    self.assertIn('rank 0 is gone without a word', second.log())
    for how in ('close', 'exception'):
      self.assertIn(f'{how} told: rank 0 has closed the swarm before finish()', second.log())
    for how in ('leave', 'leave without finish', 'finish', 'fork'):
      self.assertIn(f'{how} told: over', second.log())

  def test_ranks_are_told_why_they_cannot_join(self):
    text = """
try:
  from torch.distributed.device_mesh import init_device_mesh
  from torch.distributed.fsdp import fully_shard
  split = fully_shard(small_model(), mesh=init_device_mesh('cpu', (2,)))
except ImportError:  # of an older torch
  split = small_model()
  split.set_requires_gradient_sync = None
try:
  starling.join(split, state='one', listen='127.0.0.1:0', wait_for=1)
except starling.SwarmError as error:
  print(error, flush=True)
try:
  starling.join(DDP(small_model()), state='one', listen='127.0.0.1:0', wait_for=1, round='1s')
except starling.SwarmError as error:
  print(error, flush=True)
dist.destroy_process_group()
"""
    for process in self.ranks(text):
      self.ends(process)
      self.assertIn('FSDP and HSDP split a model over processes, and only a whole one can join', process.log())
      self.assertIn("the swarm's rounds end by the clock (swarm.round)", process.log())
    lone = self.script("os.environ.update(RANK='0', WORLD_SIZE='2')\nstarling.join(small_model(), state='two')\n")
    self.ends(lone, 1)
    self.assertIn('init_process_group() before join()', lone.log())

  # ---- forked children

  FORKING = """
from torch.utils.data import DataLoader, TensorDataset
class Data(torch.utils.data.Dataset):
  def __len__(self):
    return 10**6
  def __getitem__(self, index):
    return torch.randn(8, generator=torch.Generator().manual_seed(index))
model = small_model(int(sys.argv[1]))
swarm = starling.join(model, state='one', listen='127.0.0.1:' + sys.argv[2], agent={'checkpoint': {'every': '0s'}},
                      **({'wait_for': 1, 'local_steps': 1} if sys.argv[1] == '1' else {}))
loader = DataLoader(Data(), batch_size=4, num_workers=4, multiprocessing_context='fork')
for count, batch in enumerate(loader):
  swarm.step(0.1)
  if count == 20:
    children = open(f'/proc/self/task/{os.getpid()}/children').read()
    print('children', children, 'steps', swarm.steps, flush=True)
"""

  def test_workers_of_a_killed_loop_hold_neither_its_folder_nor_its_port(self):
    port = processes.free_port_pair()
    first = self.script(self.FORKING, 1, port, working=self.folder)
    self.wait_until(lambda: 'children' in first.log(), 'twenty steps')
    workers = [int(child) for child in re.search(r'children ([\d ]+)', first.log())[1].split()]
    self.assertEqual(len(workers), 4)
    for worker in workers:  # stopped, they cannot see that their parent is gone, and stay
      os.kill(worker, signal.SIGSTOP)
    try:
      first.child.kill()  # its workers not
      first.child.wait()
      for worker in workers:
        self.assertTrue(pathlib.Path(f'/proc/{worker}').exists())
      second = self.script(self.FORKING, 2, port, working=self.folder)
      self.wait_until(lambda: 'children' in second.log() or not second.running(), 'twenty steps of the second life')
      self.assertIn('children', second.log())
    finally:
      for worker in workers:
        os.kill(worker, signal.SIGKILL)

  def test_spawned_workers_feed_a_loop(self):
    text = """
from torch.utils.data import DataLoader
class Data(torch.utils.data.Dataset):
  def __len__(self):
    return 400
  def __getitem__(self, index):
    return torch.randn(8, generator=torch.Generator().manual_seed(index)), index % 4
if __name__ == '__main__':
  model = small_model()
  optimizer = OPTIMIZERS['adamw'](model.parameters())
  swarm = starling.join(model, optimizer, state='one', listen='127.0.0.1:0', wait_for=1, local_steps=2)
  for inputs, labels in DataLoader(Data(), batch_size=16, num_workers=2, multiprocessing_context='spawn'):
    loss = nn.functional.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert swarm.step(loss, samples=len(inputs))
  swarm.close()
  print('steps', swarm.steps)
"""
    process = self.script(text)
    self.ends(process)
    self.assertIn('steps 25', process.log())

  def test_a_forked_child_is_told_that_the_swarm_is_its_parents(self):
    model = small_model()
    with starling.join(model, **self.place(), **ALONE) as swarm:
      swarm.step(0.0)
      before = values(model)
      read, write = os.pipe()
      child = os.fork()
      if child == 0:
        try:
          with torch.no_grad():
            model[0].weight.zero_()  # its own copy
          for name, call in {
            'step': lambda: swarm.step(0.0),
            'log': lambda: swarm.log(accuracy=0.5),
            'metrics': swarm.metrics,
            'save': lambda: swarm.save(self.folder / 'child.pt'),
            'leave': swarm.leave,
            'finish': swarm.finish,
            'join': lambda: starling.join(small_model(2), **self.place('child'), **ALONE),
          }.items():
            try:
              call()
            except starling.SwarmError as error:
              os.write(write, f'{name}: {error}\n'.encode())
          swarm.close()  # as the end of the child does
        finally:
          os._exit(0)
      os.close(write)
      with os.fdopen(read) as pipe:
        told = dict(line.split(': ', 1) for line in pipe.read().splitlines())
      self.assertIn('start it by spawn instead', told.pop('join'))
      self.assertEqual(set(told), {'step', 'log', 'metrics', 'save', 'leave', 'finish'})
      for text in told.values():
        self.assertIn("the swarm is its parent's; call it there", text)
      self.assertEqual(os.waitpid(child, 0)[1], 0)
      self.assertTrue(torch.equal(before['0.weight'], model.state_dict()['0.weight']))
      for _ in range(10):
        self.assertTrue(swarm.step(0.0))


if __name__ == '__main__':
  logging.captureWarnings(True)
  processes.main()
