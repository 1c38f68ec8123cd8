"""A GPT that nanogpt.py has taught learns new topics at three sites; their texts stay there, only adapters travel.

usage: lora.py MEMBER COUNT [BOOTSTRAP] [--steps N] [--seed N] [--alone]; nanogpt-0.pt, the same at all, lies here
"""

import logging

import starling
import torch
from nanogpt import TOPICS, Gpt, arguments, train, written
from torch import nn
from torch.nn import functional as F


class Adapted(nn.Module):
  """A layer that stays as it is, and a change of low rank that is learned."""

  def __init__(self, layer, rank=8):
    super().__init__()
    self.layer = layer.requires_grad_(False)
    self.lora_a = nn.Parameter(torch.randn(rank, layer.in_features) / layer.in_features**0.5)
    self.lora_b = nn.Parameter(torch.zeros(layer.out_features, rank))

  def forward(self, x):
    return self.layer(x) + F.linear(F.linear(x, self.lora_a), self.lora_b)


logging.basicConfig(level=logging.INFO, format='%(message)s')
given = arguments(steps=600)
torch.manual_seed(1000 * given.seed + given.member)
model = Gpt().requires_grad_(False)
model.load_state_dict(torch.load('nanogpt-0.pt', weights_only=True))
for layer in model.layers:
  for name in ('qkv', 'out', 'up', 'down'):
    setattr(layer, name, Adapted(getattr(layer, name)))
adapters = {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}
print(
  f'{sum(map(torch.numel, adapters.values()))} parameters of {sum(map(torch.numel, model.parameters()))} are shared'
)

new = range(TOPICS, TOPICS + 3)
text = torch.cat([written(topic, 'to learn', 50_000) for topic in new[given.member :: given.count]])
before = model.held_out(new)
optimizer, swarm = torch.optim.AdamW(adapters.values(), lr=3e-3), None
if not given.alone:
  first = {'wait_for': given.count, 'stop_after': given.steps, 'local_steps': 8}
  settings = {'bootstrap': given.bootstrap} if given.bootstrap else first
  swarm = starling.join(model, optimizer, share='lora_', state=f'lora-{given.member}', **settings)
train(model, optimizer, text, given.steps, swarm)
agreed = swarm.finish() if swarm else None
torch.save(model.state_dict(), f'lora-{given.member}.pt')
print(f'site {given.member}: held-out loss {before:.3f} before, {model.held_out(new):.3f} after, agreed: {agreed}')
