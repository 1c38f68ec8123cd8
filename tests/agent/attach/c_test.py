"""The C API, compiled as C: two processes of open_step_leave.c train one model. STARLING_C_PROGRAM is the program."""

import os
import re
import subprocess
import tempfile

PATIENCE = 120
program = os.environ['STARLING_C_PROGRAM']
with tempfile.TemporaryDirectory() as folder:
  first = subprocess.Popen([program, f'{folder}/one', '60'], stdout=subprocess.PIPE, text=True)
  try:
    address = first.stdout.readline().split()[-1]
    second = subprocess.run([program, f'{folder}/two', '60', address], capture_output=True, text=True, timeout=PATIENCE)
    printed = [first.communicate(timeout=PATIENCE)[0], second.stdout]
  finally:
    first.kill()
  refused = subprocess.run([program, f'{folder}/three', 'many'], capture_output=True, text=True, timeout=PATIENCE)
params = [float(re.search(r'agreed 1, param (\S+)', text)[1]) for text in printed]
assert first.returncode == 0 and second.returncode == 0, (printed, second.stderr)
assert abs(params[0] - params[1]) < 0.05 and 1.1 < params[0] < 2.9, params  # of neither goal
assert refused.returncode == 1 and 'swarm.stop_after' in refused.stderr, refused.stderr
