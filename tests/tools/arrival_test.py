"""The arithmetic of tools/experiments/arrival.py, on made-up looks whose answer is known."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / 'tools/experiments'), str(ROOT / 'tools/lib')]
sys.dont_write_bytecode = True
import arrival  # noqa: E402


class Arrivals(unittest.TestCase):
  def test_the_worst_of_all_agents_counts_with_its_last_look(self):
    looks = [(1, 'a', 0.96), (2, 'b', 0.90), (3, 'b', 0.94), (4, 'a', 0.92), (5, 'b', 0.97), (6, 'a', 0.95)]
    self.assertEqual(arrival.arrivals(looks, 2), [3, 6])

  def test_an_agent_that_nobody_has_looked_at_is_not_there(self):
    self.assertEqual(arrival.arrivals([(1, 'a', 0.96), (2, 'a', 0.97)], 2), [None, None])

  def test_a_goal_once_reached_stays_reached(self):
    self.assertEqual(arrival.arrivals([(1, 'a', 0.94), (2, 'a', 0.5), (3, 'a', 0.95)], 1), [1, 3])

  def test_a_mean_is_said_of_runs_that_all_arrive(self):
    self.assertEqual(arrival.said([5.0, 5.0]), '5.0 ± 0.0 s')
    self.assertEqual(arrival.said([5.0]), '5.0 s')
    self.assertEqual(arrival.said([6.0, None, 5.0]), '5.0, 6.0 s, not in 1 of 3 runs')
    self.assertEqual(arrival.said([None]), 'not in 1 of 1 runs')

  def test_relative_intervals_of_a_ratio_add_as_independent_errors(self):
    # Two values of 4 and 6: mean 5, interval 12.706 * 1.41421 / 1.41421 = 12.706, in parts of the mean 2.5412.
    self.assertEqual(arrival.ratio([4, 6], [10, 10]), '0.50 ± 1.27')
    self.assertEqual(arrival.ratio([4, 6], [4, 6]), '1.00 ± 3.59')
    self.assertEqual(arrival.ratio([4, None], [4, 6]), '')
    self.assertEqual(arrival.ratio([4], [4]), '')


if __name__ == '__main__':
  unittest.main()
