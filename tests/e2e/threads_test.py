"""How threads wait for the rest of a step: one machine may have two agents."""

import os
import pathlib
from unittest import mock

import swarm

ASKED = {name: value for name, value in os.environ.items() if name not in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT')}


class Threads(swarm.Case):
  def test_they_soon_sleep_unless_the_environment_says_otherwise(self):
    for given, told in (
      ({}, "GOMP_SPINCOUNT = '1000'"),
      ({'OMP_WAIT_POLICY': 'active'}, "OMP_WAIT_POLICY = 'ACTIVE'"),
      ({'GOMP_SPINCOUNT': '1234'}, "GOMP_SPINCOUNT = '1234'"),
    ):
      with (
        self.subTest(given=given),
        mock.patch.dict(os.environ, {**ASKED, **given, 'OMP_DISPLAY_ENV': 'verbose'}, clear=True),
      ):
        registry = self.registry(f'registry-{len(self.processes)}', swarm.free_port_pair())
        self.wait_log(registry, 'listens on')
        self.assertIn(told, registry.log(), 'libgomp prints what it goes by')
        self.assertEqual("GOMP_SPINCOUNT = '1000'" in registry.log(), not given, 'what is set is left alone')
        self.assertEqual(registry.log().count('OPENMP DISPLAY ENVIRONMENT BEGIN'), 1, 'nothing is loaded twice')
        process = pathlib.Path('/proc', str(registry.child.pid))
        self.assertEqual(process.joinpath('comm').read_text(), 'starling\n', 'it is found by its name')
        self.assertEqual(process.joinpath('cmdline').read_bytes().split(b'\0')[1], b'bootstrap')
        registry.kill()


if __name__ == '__main__':
  swarm.main()
