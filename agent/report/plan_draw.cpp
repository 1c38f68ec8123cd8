#include "agent/report/plan_draw.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "agent/report/svg.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr double kWidth = 1000, kLeft = 190, kRight = 100, kTop = 92, kLane = 13, kPlan = 66;
constexpr double kLongest = 2;  // times the first plan fit; what takes longer is cut off and says so
// The colors of the report page's curves, so that one swarm looks the same everywhere.
constexpr std::array kColors = {"#2c63d2", "#d2691e", "#16876a", "#8447c4", "#c2347b", "#8f7200", "#0b86a0", "#6b6f2a"};

std::string print_ms(double seconds) {
  const double ms = 1e3 * seconds;
  return fmt::format("{:.{}f} ms", ms, ms < 10 ? 2 : ms < 100 ? 1 : 0);
}

// When backward computes the sections of a bucket.
double backward_begin_s(const StepTimes& times, size_t bucket) {
  return bucket == 0 ? 0 : times.buckets[bucket - 1].select_end_s;
}

// 1, 2 or 5 times a power of ten, five to twelve of which fill the axis.
double tick_of(double until_s) {
  double tick = std::pow(10, std::floor(std::log10(until_s)) - 1);
  for (const double factor : {2.0, 2.5, 2.0}) {
    if (until_s / tick <= 12) break;
    tick *= factor;
  }
  return tick;
}

class PlanSvg {
 public:
  explicit PlanSvg(const PlanPicture& picture) : picture_(picture) {
    const double most_s = kLongest * picture.rows.at(0)->times.end_s;
    for (const PlanRow* row : picture.rows) until_s_ = std::max(until_s_, std::min(row->times.end_s, most_s));
  }

  std::string draw() {
    const double height = kTop + kPlan * static_cast<double>(picture_.rows.size()) + 40;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#1d2733\">\n",
        kWidth, height);
    svg_ += "<title>" + escaped(picture_.title) + "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    text(24, 34, picture_.title, "font-size=\"18\"");
    text(24, 56, picture_.subtitle, "fill=\"#5d636e\"");
    draw_axis(height - 34);
    double y = kTop;
    for (const PlanRow* row : picture_.rows) {
      draw_row(*row, y);
      y += kPlan;
    }
    return svg_ + "</svg>\n";
  }

 private:
  double x_of(double seconds) const { return kLeft + (kWidth - kLeft - kRight) * std::min(1.0, seconds / until_s_); }

  void text(double x, double y, const std::string& words, const std::string& style) {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>", x, y, style) + escaped(words) + "</text>\n";
  }

  void bar(double from_s, double to_s, double y, const char* color, const std::string& tip) {
    const double width = x_of(to_s) - x_of(from_s);
    svg_ += fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\"{}><title>",
                        x_of(from_s), y, std::max(0.5, width), kLane, color,
                        width > 3 ? " stroke=\"#ffffff\" stroke-width=\"0.5\"" : "") +
            escaped(tip) + "</title></rect>\n";
  }

  void draw_axis(double bottom) {
    const double tick = tick_of(until_s_);
    for (int i = 0; i * tick <= until_s_ * (1 + 1e-9); ++i) {
      const double x = x_of(i * tick);
      svg_ += fmt::format("<path stroke=\"#e4e4df\" d=\"M{0:.1f} {1:.0f}V{2:.0f}\"/>\n", x, kTop - 8, bottom);
      text(x, bottom + 18, fmt::format("{:g}", i * tick * 1e3), "text-anchor=\"middle\" fill=\"#5d636e\"");
    }
    text(kLeft - 8, bottom + 18, "ms", "text-anchor=\"end\" fill=\"#5d636e\"");
  }

  void draw_row(const PlanRow& row, double y) {
    const size_t count = row.times.buckets.size();
    text(24, y + 12, row.name, "font-weight=\"600\"");
    text(24, y + 29, fmt::format("{} bucket{}", count, count == 1 ? "" : "s"), "fill=\"#5d636e\"");
    const char* lanes[] = {"backward", "select", "send"};
    for (int lane = 0; lane < 3; ++lane) {
      text(kLeft - 8, y + 11 + lane * (kLane + 2), lanes[lane],
           "text-anchor=\"end\" font-size=\"10\" fill=\"#5d636e\"");
    }
    for (size_t i = 0; i < count; ++i) {
      const BucketTimes& bucket = row.times.buckets[i];
      const char* color = kColors[i % kColors.size()];
      const std::string name = name_bucket(*picture_.sections, bucket) + ", ";
      bar(backward_begin_s(row.times, i), bucket.select_begin_s, y, color,
          name + "complete at " + print_ms(bucket.select_begin_s));
      if (bucket.select_end_s > bucket.select_begin_s) {
        bar(bucket.select_begin_s, bucket.select_end_s, y + kLane + 2, color,
            name + "selected at " + print_ms(bucket.select_end_s));
      }
      bar(bucket.send_begin_s, bucket.send_end_s, y + 2 * (kLane + 2), color,
          name + "sent from " + print_ms(bucket.send_begin_s) + " to " + print_ms(bucket.send_end_s));
    }
    const double end = x_of(row.times.end_s);
    const bool is_cut = row.times.end_s > until_s_;
    svg_ += fmt::format("<path stroke=\"#1d2733\"{3} d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", end, y, y + 3 * (kLane + 2),
                        is_cut ? " stroke-dasharray=\"2 3\"" : "");
    text(end + 6, y + 27, (is_cut ? "to " : "") + print_ms(row.times.end_s), "");
  }

  const PlanPicture& picture_;
  double until_s_ = 0;
  std::string svg_;
};

}  // namespace

std::string name_bucket(const std::vector<PlanSection>& sections, const BucketTimes& bucket) {
  const std::string& first = sections[bucket.first].name;
  const std::string& last = sections[bucket.last].name;
  if (bucket.first == bucket.last) return first;
  const size_t plus = last.rfind(" + ");  // a joined section ends with its last layer
  const std::string from = first.substr(0, first.find(" + "));
  const std::string to = plus == std::string::npos ? last : last.substr(plus + 3);
  return from == to ? from : from + " to " + to;  // the same: slices of one layer
}

std::string draw_lanes(const PlanRow& row, double until_s, size_t columns) {
  STARLING_CHECK(columns > 0 && until_s > 0);
  std::string compute(columns, ' '), select(columns, ' '), send(columns, ' ');
  const auto fill = [&](std::string& lane, double from_s, double to_s, char mark) {
    if (to_s <= from_s) return;
    const auto column = [&](double at_s) { return at_s / until_s * static_cast<double>(columns); };
    const auto from = static_cast<size_t>(column(from_s));
    const auto to = static_cast<size_t>(std::ceil(column(to_s)));
    for (size_t i = from; i < std::min(std::max(to, from + 1), columns); ++i) lane[i] = mark;
  };
  for (size_t i = 0; i < row.times.buckets.size(); ++i) {
    const BucketTimes& bucket = row.times.buckets[i];
    const char digit = static_cast<char>('0' + (i + 1) % 10);
    fill(compute, backward_begin_s(row.times, i), bucket.select_begin_s, '=');
    fill(select, bucket.select_begin_s, bucket.select_end_s, digit);
    fill(send, bucket.send_begin_s, bucket.send_end_s, digit);
  }
  return "  backward |" + compute + "|\n  select   |" + select + "|\n  send     |" + send + "|\n";
}

std::string draw_plan_svg(const PlanPicture& picture) { return PlanSvg(picture).draw(); }

}  // namespace starling
