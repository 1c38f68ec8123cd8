"""A Hugging Face Trainer, or one of TRL, trains with others: callbacks=[StarlingCallback(bootstrap='HOST:7400')]."""

import logging
import os

from transformers import TrainerCallback

from . import SwarmError, join


class StarlingCallback(TrainerCallback):
  """Joins when training begins, and ends it with the swarm's run. Arguments as Swarm has them.

  What requires grad is shared: the adapters of a PEFT model. Without a bootstrap (or STARLING_BOOTSTRAP) and a config
  it does nothing, and says so. `swarm`: None, or the Swarm; `agreed`: after training, whether the models did.
  """

  def __init__(self, **arguments):
    self._arguments, self.swarm, self.agreed, self._loss = arguments, None, None, 0.0

  def on_train_begin(self, args, state, control, model=None, optimizer=None, **_):
    if not any((self._arguments.get('bootstrap'), self._arguments.get('config'), os.environ.get('STARLING_BOOTSTRAP'))):
      logging.getLogger('starling').warning(
        'StarlingCallback has neither bootstrap nor config: this run trains alone; name a member with bootstrap= or '
        'STARLING_BOOTSTRAP, or begin a swarm with config='
      )
      return
    if getattr(args, 'deepspeed', None):
      raise SwarmError(
        'DeepSpeed trains copies of the weights, which the swarm would not change: leave deepspeed= out; the processes '
        'of torchrun (DDP) are one member'
      )
    model.register_forward_hook(self._keep_loss)
    self.agreed = None
    self.swarm = join(model, optimizer, **self._arguments)

  def _keep_loss(self, model, inputs, output):
    loss = getattr(output, 'loss', None)
    if model.training and loss is not None:
      self._loss = loss.detach()

  def on_step_end(self, args, state, control, **_):
    if self.swarm is None:
      return
    samples = args.train_batch_size * args.gradient_accumulation_steps
    if not self.swarm.step(self._loss, samples):
      control.should_training_stop = True
      self._finish()  # before the Trainer evaluates, saves or loads: until then the params are the agent's

  def on_train_end(self, args, state, control, **_):
    if self.swarm is not None and self.agreed is None:
      self._finish()

  def _finish(self):
    self.agreed = self.swarm.finish()
