"""Each member has a part of the ten digits, and all learn the ten. usage: digits.py MEMBER COUNT [BOOTSTRAP]"""

import logging
import sys

import starling
import torch
from torch import nn

FONT = '75557 26227 71747 71717 55711 74717 74757 71222 75757 75717'.split()  # octal: rows of 3 pixels


def drawn(digits, samples):
  labels = torch.tensor(list(digits))[torch.randint(len(digits), (samples,))]
  images = 0.6 * torch.rand(samples, 1, 14, 14)
  for image, label in zip(images, labels.tolist()):
    shape = torch.tensor([[int(bit) for bit in f'{int(row):03b}'] for row in FONT[label]])
    y, x = torch.randint(5, (2,)).tolist()
    image[0, y : y + 10, x : x + 6] += torch.kron(shape, torch.ones(2, 2))
  return images, labels


logging.basicConfig(level=logging.INFO, format='%(message)s')
member, count = int(sys.argv[1]), int(sys.argv[2])
images, labels = drawn(range(member, 10, count), 4000)
convolution = nn.Sequential(nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
model = nn.Sequential(convolution, nn.Linear(400, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
first = {'wait_for': count, 'stop_after': 600, 'local_steps': 1, 'exchange': {'share': ['params', 'momentum']}}
settings = {'bootstrap': sys.argv[3]} if len(sys.argv) > 3 else first
swarm, going = starling.join(model, optimizer, state=f'digits-{member}', **settings), True
while going:
  some = torch.randint(len(labels), (64,))
  loss = nn.functional.cross_entropy(model(images[some]), labels[some])
  optimizer.zero_grad()
  loss.backward()
  optimizer.step()
  going = swarm.step(loss, samples=64)
agreed, (images, labels) = swarm.finish(), drawn(range(10), 1000)
print(f'member {member}: accuracy {(model(images).argmax(1) == labels).float().mean():.3f}, the models agree: {agreed}')
