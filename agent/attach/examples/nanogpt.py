"""A small GPT learns to write, letter by letter, with AdamW; each member has texts of other topics.

usage: nanogpt.py MEMBER COUNT [BOOTSTRAP] [--steps N] [--seed N] [--alone]; writes the model to nanogpt-MEMBER.pt
"""

import argparse
import logging
import random

import starling
import torch
from torch import nn
from torch.nn import functional as F

LETTERS, CONTEXT, BATCH, TOPICS = ' abdefgiklmnoprstuvz', 32, 16, 4


def written(topic, seed, count):
  """So many letters on a topic, as numbers. It has 20 words of its own, and two that may follow each."""
  draw = random.Random(topic)
  words = [''.join(draw.choice(part) for part in ('bdfgklm', 'aeiou', 'nprstvz', 'aeiou')) for _ in range(20)]
  follow = {word: draw.sample(words, 2) for word in words}
  draw, word, text = random.Random(f'{topic} {seed}'), words[0], ''
  while len(text) < count:
    text += word + ' '
    word = draw.choice(follow[word])
  return torch.tensor([LETTERS.index(letter) for letter in text[:count]])


class Layer(nn.Module):
  def __init__(self, width, heads):
    super().__init__()
    self.heads, self.norm, self.norm_mlp = heads, nn.LayerNorm(width), nn.LayerNorm(width)
    self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

  def forward(self, x):
    q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, 2))
    x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
    return x + self.down(F.gelu(self.up(self.norm_mlp(x))))


class Gpt(nn.Module):
  def __init__(self, width=48, layers=2, heads=4):
    super().__init__()
    self.letter, self.place = nn.Embedding(len(LETTERS), width), nn.Embedding(CONTEXT, width)
    self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
    self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(LETTERS), bias=False)

  def forward(self, x):
    return self.head(self.norm(self.layers(self.letter(x) + self.place.weight[: x.shape[1]])))

  def loss(self, text, at):
    """At predicting each next letter of the text, from these places on."""
    window = text[at[:, None] + torch.arange(CONTEXT + 1)]
    return F.cross_entropy(self(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())

  @torch.no_grad()
  def held_out(self, topics):
    """Loss on other texts of these topics."""
    text = torch.cat([written(topic, 'held out', 5_000) for topic in topics])
    return self.loss(text, torch.arange(0, len(text) - CONTEXT, CONTEXT)).item()


def train(model, optimizer, text, steps, swarm=None):
  going, step = True, 0
  while going:
    loss = model.loss(text, torch.randint(len(text) - CONTEXT, (BATCH,)))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    step += 1
    going = swarm.step(loss, samples=BATCH) if swarm else step < steps
    if step % 100 == 0:
      print(f'step {step}: loss {loss.item():.3f}', flush=True)


def arguments(steps):
  parser = argparse.ArgumentParser()
  parser.add_argument('member', type=int)
  parser.add_argument('count', type=int, help='of members; 1: one that has all texts')
  parser.add_argument('bootstrap', nargs='?', help='any member, HOST:PORT; none: this one begins the swarm')
  parser.add_argument('--steps', type=int, default=steps)
  parser.add_argument('--seed', type=int, default=0)
  parser.add_argument('--alone', action='store_true', help='without the others, to compare')
  return parser.parse_args()


if __name__ == '__main__':
  logging.basicConfig(level=logging.INFO, format='%(message)s')
  given = arguments(steps=600)
  torch.manual_seed(1000 * given.seed + given.member)
  text = torch.cat([written(topic, 'to learn', 50_000) for topic in range(TOPICS)[given.member :: given.count]])
  model = Gpt()
  optimizer, swarm = torch.optim.AdamW(model.parameters(), lr=3e-3), None
  if not given.alone:
    first = {'wait_for': given.count, 'stop_after': given.steps, 'local_steps': 8}
    settings = {'bootstrap': given.bootstrap} if given.bootstrap else first
    swarm = starling.join(model, optimizer, state=f'nanogpt-{given.member}', **settings)
  train(model, optimizer, text, given.steps, swarm)
  agreed = swarm.finish() if swarm else None
  torch.save(model.state_dict(), f'nanogpt-{given.member}.pt')
  print(f'member {given.member}: held-out loss {model.held_out(range(TOPICS)):.3f}, agreed: {agreed}')
