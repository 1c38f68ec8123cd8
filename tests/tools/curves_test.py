"""The arithmetic of tools/experiments/curves.py, on made-up curves whose answer is known."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / 'tools/experiments'))
sys.dont_write_bytecode = True
import curves  # noqa: E402


def row(time_s, step, sent=0, loss=1, accuracy=0.5):
  return curves.Row(time_s, step, sent, loss, accuracy)


class Curves(unittest.TestCase):
  def test_a_line_crosses_between_two_points_and_the_first_time_counts(self):
    points = [(0, 2.0), (10, 1.0), (20, 0.2), (30, 0.9), (40, 0.1)]
    self.assertAlmostEqual(curves.crossing(points, 0.6), 15)
    self.assertAlmostEqual(curves.crossing(points, 0.2), 20)
    self.assertEqual(curves.crossing(points, 2.5), 0)
    self.assertIsNone(curves.crossing(points, 0.05))

  def test_one_low_value_between_high_ones_is_no_crossing(self):
    points = [(0, 2.0), (10, 1.0), (20, 0.1), (30, 1.0), (40, 0.4), (50, 0.1)]
    smooth = curves.smoothed(points)
    self.assertEqual([x for x, _ in smooth], [10, 20, 30, 40])
    for (_, value), expected in zip(smooth, [3.1 / 3, 0.7, 0.5, 0.5]):
      self.assertAlmostEqual(value, expected)
    self.assertIsNone(curves.crossing(smooth, 0.2))

  def test_late_is_the_last_quarter_of_the_steps(self):
    rows = [row(i, 10 * i, loss=100 - i) for i in range(9)]  # up to step 80: 60, 70, 80
    self.assertAlmostEqual(curves.late_mean(rows, 'loss'), 93)
    with self.assertRaises(curves.TooFew):
      curves.late_mean(rows[:4], 'loss')  # up to step 30: one of them

  def test_a_pace_leaves_the_start_out_and_says_what_it_took(self):
    rows = [row(0, 0), row(30, 2, 900), row(33, 8, 1500), row(35, 12, 1900), row(40, 22, 2900), row(90, 23, 9999)]
    pace = curves.pace(rows, 8, 22, 4)
    self.assertAlmostEqual(pace.seconds, 0.5)
    self.assertAlmostEqual(pace.bytes, 25)
    self.assertAlmostEqual(pace.start_s, 29)
    with self.assertRaises(curves.TooFew):
      curves.pace(rows[:4], 8, 22, 4)  # of 14 steps 4

  def test_text_becomes_numbers(self):
    text = {'virtual_s': '1.5', 'step': '3', 'bytes': '8', 'loss': '0.25', 'accuracy': ''}
    read = curves.read([text])[0]
    self.assertEqual(read[:4], (1.5, 3, 8, 0.25))
    self.assertNotEqual(read.accuracy, read.accuracy)


if __name__ == '__main__':
  unittest.main()
