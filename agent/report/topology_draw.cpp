#include "agent/report/topology_draw.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>

#include <fmt/format.h>

#include "agent/report/svg.h"
#include "kernels/check.h"

namespace starling {
namespace {

constexpr double kWidth = 800, kHeight = 820;
constexpr double kMiddleX = kWidth / 2, kMiddleY = 430, kRadius = 300;
constexpr size_t kLabelsMax = 64;

struct Point { double x, y; };

std::string name_of(const std::vector<std::string>& names, size_t rank) {
  return rank < names.size() ? names[rank] : std::to_string(rank);
}

// Rank `place` of `count`, clockwise from the top.
Point on_circle(size_t place, size_t count) {
  const double angle = 2 * std::numbers::pi * static_cast<double>(place) / static_cast<double>(count);
  return {kMiddleX + kRadius * std::sin(angle), kMiddleY - kRadius * std::cos(angle)};
}

struct Layout {
  std::vector<Point> points;
  size_t columns = 0;  // of the grid; 0: no grid
  double spacing = 0;  // between neighbors in the drawing

  double node_radius() const { return std::clamp(spacing / 5, 1.0, 9.0); }
  Point row_and_column(size_t rank) const {
    return {static_cast<double>(rank / columns), static_cast<double>(rank % columns)};
  }
};

Layout lay_out(TopologyKind kind, size_t count) {
  Layout layout;
  const auto [rows, columns] = torus_shape(count);
  if (kind == TopologyKind::kTorus && rows > 1) {
    layout.columns = columns;
    layout.spacing = 2 * kRadius / static_cast<double>(columns - 1);
    const double top = kMiddleY - layout.spacing * static_cast<double>(rows - 1) / 2;
    for (size_t rank = 0; rank < count; ++rank) {
      const Point place = layout.row_and_column(rank);
      layout.points.push_back({kMiddleX - kRadius + layout.spacing * place.y, top + layout.spacing * place.x});
    }
    return layout;
  }
  const size_t centred = kind == TopologyKind::kStar ? 1 : 0;
  layout.spacing = 2 * std::numbers::pi * kRadius / static_cast<double>(count);
  if (centred > 0) layout.points.push_back({kMiddleX, kMiddleY});
  for (size_t rank = centred; rank < count; ++rank) {
    layout.points.push_back(on_circle(rank - centred, count - centred));
  }
  return layout;
}

// An edge that wraps around the grid would cross the nodes between its ends, so it is drawn as an arc beside them.
std::string edge_path(const Layout& layout, size_t a, size_t b) {
  const Point from = layout.points[a], to = layout.points[b];
  const std::string start = fmt::format("M{:.1f} {:.1f}", from.x, from.y);
  if (layout.columns > 0) {
    const Point place_a = layout.row_and_column(a), place_b = layout.row_and_column(b);
    const bool wraps_across = std::abs(place_a.y - place_b.y) > 1, wraps_down = std::abs(place_a.x - place_b.x) > 1;
    if (wraps_across || wraps_down) {
      const double aside = std::min(0.8 * layout.spacing, 160.0);  // within the margin
      return start + fmt::format("Q{:.1f} {:.1f} {:.1f} {:.1f}", (from.x + to.x) / 2 + (wraps_down ? aside : 0),
                                 (from.y + to.y) / 2 + (wraps_across ? aside : 0), to.x, to.y);
    }
  }
  return start + fmt::format("L{:.1f} {:.1f}", to.x, to.y);
}

// Outside the circle, or at the lower right of a node on the grid or in the middle.
std::string draw_label(const Layout& layout, size_t rank, const std::string& name) {
  const Point node = layout.points[rank];
  const double dx = node.x - kMiddleX, dy = node.y - kMiddleY, away = layout.node_radius() + 12;
  const bool in_circle = layout.columns == 0 && dx * dx + dy * dy > 1;
  const double x = in_circle ? node.x + away * dx / kRadius : node.x + away * 0.7;
  const double y = in_circle ? node.y + away * dy / kRadius + 4 : node.y + away;
  const char* anchor = !in_circle || dx > 1 ? "start" : dx < -1 ? "end" : "middle";
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">", x, y, anchor) + escaped(name) + "</text>\n";
}

}  // namespace

std::string draw_svg(TopologyKind kind, const Graph& graph, const std::vector<std::string>& names,
                     const std::string& title) {
  const Layout layout = lay_out(kind, graph.count());
  std::string path;
  size_t edge_count = 0;
  for (uint32_t a = 0; a < graph.count(); ++a) {
    for (uint32_t b : graph.neighbors[a]) {
      if (b < a) continue;
      path += edge_path(layout, a, b);
      ++edge_count;
    }
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#1d2733\">\n",
      kWidth, kHeight, kWidth, kHeight);
  svg += "<title>" + escaped(title) + "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  svg += fmt::format("<text x=\"{:.0f}\" y=\"40\" text-anchor=\"middle\" font-size=\"18\">", kMiddleX) +
         escaped(title) + "</text>\n";
  const double width = edge_count > 5000 ? 0.15 : edge_count > 500 ? 0.5 : 1.3;
  svg += fmt::format("<path fill=\"none\" stroke=\"#4a6a8a\" stroke-width=\"{:.2f}\" d=\"", width) + path + "\"/>\n";
  for (size_t rank = 0; rank < graph.count(); ++rank) {
    const std::string name = name_of(names, rank);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"><title>", layout.points[rank].x,
                       layout.points[rank].y, layout.node_radius()) +
           escaped(name) + "</title></circle>\n";
    if (graph.count() <= kLabelsMax) svg += draw_label(layout, rank, name);
  }
  return svg + "</svg>\n";
}

std::string draw_matrix(const Graph& graph, const std::vector<std::string>& names) {
  STARLING_CHECK(graph.count() <= kMatrixAgentsMax);
  size_t width = 0;
  for (size_t rank = 0; rank < graph.count(); ++rank) width = std::max(width, name_of(names, rank).size());
  std::string text;
  for (size_t row = 0; row < graph.count(); ++row) {
    const std::string name = name_of(names, row);
    text += "  " + std::string(width - name.size(), ' ') + name + " ";
    for (uint32_t column = 0; column < graph.count(); ++column) {
      const auto& neighbors = graph.neighbors[row];
      const bool joined = std::binary_search(neighbors.begin(), neighbors.end(), column);
      text += joined ? " #" : row == column ? " \\" : " .";
    }
    text += "\n";
  }
  return text;
}

}  // namespace starling
