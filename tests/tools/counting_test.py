"""The arithmetic of tools/bench and tools/experiments, on made-up logs whose answer is known."""

import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools/lib'))
sys.dont_write_bytecode = True
import counting  # noqa: E402


def exchange(t, steps=0, initiated=True, outcome='done'):
  return {'event': 'exchange', 't': t, 'steps': steps, 'initiated': initiated, 'outcome': outcome}


def status(t, **fields):
  return {'event': 'status', 't': t, 'steps': 0, **fields}


class Exchanges(unittest.TestCase):
  def test_an_exchange_counts_at_the_end_that_began_it(self):
    # Ten steps of two agents: five exchanges that each began, so ten ends in each log.
    both = [exchange(10 + 0.1 * i, initiated=i % 2 == 0) for i in range(10)]
    self.assertEqual(len(counting.own_exchanges(both, 10, 11)), 5)
    self.assertAlmostEqual(counting.exchange_ms(both, 10, 11), 200)

  def test_what_did_not_mix_is_no_exchange(self):
    lines = [exchange(1, outcome=outcome) for outcome in ('done', 'late', 'failed', 'busy')]
    self.assertEqual([x['outcome'] for x in counting.own_exchanges(lines, 0, 2)], ['done', 'late'])

  def test_an_exchange_is_whole_where_both_ends_mixed_all_blocks(self):
    def line(t, initiated, outcome='done', blocks=4):
      return {**exchange(t, initiated=initiated, outcome=outcome), 'blocks': blocks, 'blocks_total': 4}

    began = [
      line(1, True),
      line(2, True, 'failed', 0),
      line(3, True),
      line(4, True, 'busy', 0),
      line(5, True, blocks=3),
    ]
    answered = [line(1, False), line(2, False), line(3, False, 'failed', 0), line(5, False, blocks=3), line(9, False)]
    self.assertEqual(counting.whole_exchanges([began[:2], answered[:1]], 0, 6), (2, 1, 1))
    self.assertEqual(counting.whole_exchanges([began[4:], answered[3:]], 0, 6), (1, 1, 0))
    self.assertEqual(counting.whole_exchanges([began, answered[:1]], 0, 6), (4, 1, 1))
    self.assertEqual(counting.whole_exchanges([[], answered], 0, 6), (0, 0, 0))

  def test_a_round_of_a_ring_ends_with_two(self):
    lines = [exchange(0.5 + i // 2) for i in range(8)]
    self.assertAlmostEqual(counting.exchange_ms(lines, 0, 4, per_round=2), 1000)
    self.assertAlmostEqual(counting.exchange_ms(lines, 0, 4), 500)

  def test_a_stall_at_either_edge_makes_rounds_longer(self):
    lines = [exchange(1 + 0.01 * i) for i in range(10)]  # 0.1 s of a window of 2 s
    self.assertAlmostEqual(counting.exchange_ms(lines, 1, 3), 200)
    self.assertAlmostEqual(counting.exchange_ms(lines, 0, 2), 200)

  def test_an_empty_window_is_no_measurement(self):
    for lines in ([], [exchange(5)], [exchange(1, initiated=False)]):
      with self.assertRaises(counting.TooFew):
        counting.exchange_ms(lines, 0, 2)


class Steps(unittest.TestCase):
  # 50 steps a second until 0.1 s after the window has begun, then a stall of 1.9 s.
  STALLED = [exchange(round(i / 50, 6), steps=i) for i in range(56)] + [exchange(4, steps=56)]

  def test_a_stall_of_most_of_the_window_counts(self):
    self.assertAlmostEqual(counting.steps_per_s(self.STALLED, 1, 3), 2.5)
    self.assertAlmostEqual(counting.longest_gap_ms(self.STALLED, 1, 3), 1900)
    self.assertAlmostEqual(counting.round_ms(self.STALLED, 1, 3), 400)

  def test_gaps_are_those_between_steps(self):
    lines = [exchange(t, steps=s) for t, s in ((0, 0), (1, 1), (1.1, 1), (1.5, 2), (3.5, 4), (9, 5))]
    self.assertEqual(counting.step_gaps(lines, 0.5, 4), [(1.5, 500), (3.5, 1000)])

  def test_a_stall_that_the_window_ends_or_begins_in_counts(self):
    lines = [exchange(2.9, steps=7), exchange(3, steps=8)]
    self.assertAlmostEqual(counting.longest_gap_ms(lines, 1, 3), 1900)
    self.assertAlmostEqual(counting.longest_gap_ms([], 1, 3), 2000)

  def test_an_even_walk_is_what_it_is(self):
    lines = [exchange(0.02 * i, steps=i, initiated=i % 3 == 0) for i in range(200)]
    self.assertAlmostEqual(counting.steps_per_s(lines, 1.01, 3.01), 50)
    self.assertAlmostEqual(counting.round_ms(lines, 1.01, 3.01), 20)
    self.assertAlmostEqual(counting.round_ms(lines, 1.01, 3.01, local_steps=8), 160)

  def test_a_stopped_agent_took_no_step(self):
    lines = [exchange(1, steps=9)]
    self.assertEqual(counting.steps_per_s(lines, 2, 4), 0)
    with self.assertRaises(counting.TooFew):
      counting.round_ms(lines, 2, 4)

  def test_steps_before_the_first_line_are_not_known(self):
    with self.assertRaises(counting.TooFew):
      counting.steps_per_s([exchange(2, steps=9)], 1, 3)


class Rate(unittest.TestCase):
  def test_edges_lie_between_the_lines(self):
    lines = [status(t, round=10 * t) for t in range(6)]
    self.assertAlmostEqual(counting.rate(lines, 'round', 1.5, 4.25), 10)

  def test_a_field_within_another(self):
    lines = [status(t, exchanges={'done': 3 * t}) for t in (0, 2, 4)]
    self.assertAlmostEqual(counting.rate(lines, 'exchanges.done', 1, 3), 3)

  def test_what_ends_within_the_window_stood_still_for_the_rest(self):
    lines = [status(0, round=0), status(1, round=10), status(2, round=20)]
    self.assertAlmostEqual(counting.rate(lines, 'round', 0, 8), 2.5)

  def test_other_lines_do_not_count(self):
    lines = [status(0, round=0), {'event': 'exchange', 't': 1, 'round': 99}, status(2, round=2)]
    self.assertAlmostEqual(counting.rate(lines, 'round', 0, 2), 1)


class Intervals(unittest.TestCase):
  def test_three_values(self):
    # The mean of 1, 2, 3 is 2, their deviation 1: 4.303 / sqrt(3).
    mean, half = counting.interval95([1, 2, 3])
    self.assertEqual(mean, 2)
    self.assertAlmostEqual(half, 2.4843, places=3)

  def test_many_values_use_the_last_quantile(self):
    values = [0, 1] * 50
    self.assertAlmostEqual(counting.interval95(values)[1], 2.042 * 0.50252 / 10, places=4)

  def test_one_value_has_no_interval(self):
    self.assertEqual(counting.interval95([4]), (4, math.inf))
    self.assertEqual(counting.plus_minus(*counting.interval95([4])), '+4.0 % (one run)')

  def test_words(self):
    self.assertEqual(counting.plus_minus(-1.25, 0.5), '-1.2 % (± 0.5)')

  def test_the_same_needs_a_narrow_interval(self):
    self.assertTrue(counting.is_same([-0.1, 0, 0.1], margin=0.3))
    self.assertFalse(counting.is_same([-0.2, 0, 0.2], margin=0.3))  # no difference seen, but not excluded either
    self.assertFalse(counting.is_same([0.9, 1, 1.1], margin=1))
    self.assertFalse(counting.is_same([0], margin=1))

  def test_spread_and_noise(self):
    self.assertEqual(counting.spread([3, 1, 2]), '2 (1..3)')
    self.assertAlmostEqual(counting.noise([3, 1, 2]), 50)


if __name__ == '__main__':
  unittest.main()
