// Digits drawn by the program: strokes between points on a grid, moved, scaled, slanted, bent and blurred at
// random. Only +, -, *, / and sqrt: each is exactly rounded, so every machine draws the same bytes.
#include <algorithm>
#include <array>
#include <cmath>

#include "agent/data/dataset.h"
#include "gossip/rng.h"

namespace starling {
namespace {

constexpr int kSide = 28;
constexpr uint64_t kDigitStream = 0x4449474954ull;  // "DIGIT"

struct Point {
  float x, y;  // 0..1 each, y downwards
};

// One pen stroke per row; a digit is one to three of them.
using Stroke = std::vector<Point>;

const std::array<std::vector<Stroke>, 10>& glyphs() {
  static const std::array<std::vector<Stroke>, 10> shapes = {{
      {{{.5f, 0}, {.15f, .15f}, {0, .5f}, {.15f, .85f}, {.5f, 1}, {.85f, .85f}, {1, .5f}, {.85f, .15f}, {.5f, 0}}},
      {{{.2f, .25f}, {.55f, 0}, {.55f, 1}}},
      {{{.05f, .25f}, {.25f, .03f}, {.7f, .02f}, {.95f, .25f}, {.8f, .5f}, {0, 1}, {1, 1}}},
      {{{.05f, .1f}, {.5f, 0}, {.9f, .2f}, {.75f, .42f}, {.4f, .48f}},
       {{.4f, .48f}, {.85f, .6f}, {.95f, .8f}, {.6f, 1}, {.03f, .9f}}},
      {{{.7f, 1}, {.7f, 0}, {0, .65f}, {1, .65f}}},
      {{{.9f, 0}, {.15f, 0}, {.1f, .45f}, {.6f, .4f}, {.95f, .65f}, {.75f, .95f}, {.4f, 1}, {.03f, .9f}}},
      {{{.8f, 0}, {.3f, .25f}, {.03f, .65f}, {.2f, .95f}, {.6f, 1}, {.95f, .8f}, {.8f, .55f}, {.4f, .5f}, {.06f, .7f}}},
      {{{0, 0}, {1, 0}, {.35f, 1}}},
      {{{.5f, .48f}, {.12f, .3f}, {.2f, .05f}, {.5f, 0}, {.8f, .05f}, {.88f, .3f}, {.5f, .48f}},
       {{.5f, .48f}, {.02f, .72f}, {.15f, .95f}, {.5f, 1}, {.85f, .95f}, {.98f, .72f}, {.5f, .48f}}},
      {{{.95f, .3f}, {.7f, .03f}, {.3f, .02f}, {.05f, .25f}, {.2f, .48f}, {.6f, .5f}, {.95f, .3f}},
       {{.95f, .3f}, {.85f, .7f}, {.55f, 1}}},
  }};
  return shapes;
}

struct Segment {
  Point from, to;  // in pixels
};

float between(Rng& rng, float low, float high) { return low + (high - low) * static_cast<float>(rng.uniform()); }

// One handwriting of the digit: the glyph is scaled, slanted and moved, and every point is moved a little as well.
std::vector<Segment> write_digit(int digit, Rng& rng) {
  const float width = between(rng, 8, 15), height = between(rng, 15, 21);
  const float slant = between(rng, -.25f, .35f);  // pixels to the left per pixel downwards
  const float center_x = 13.5f + between(rng, -2, 2), center_y = 13.5f + between(rng, -2, 2);
  std::vector<Segment> segments;
  for (const Stroke& stroke : glyphs()[static_cast<size_t>(digit)]) {
    Point before{};
    for (size_t i = 0; i < stroke.size(); ++i) {
      const float x = (stroke[i].x - .5f) * width + between(rng, -.7f, .7f);
      const float y = (stroke[i].y - .5f) * height + between(rng, -.7f, .7f);
      const Point here{center_x + x - slant * y, center_y + y};
      if (i > 0) segments.push_back({before, here});
      before = here;
    }
  }
  return segments;
}

float distance_squared(Point p, const Segment& segment) {
  const float dx = segment.to.x - segment.from.x, dy = segment.to.y - segment.from.y;
  const float length_squared = dx * dx + dy * dy;
  float along = length_squared > 0 ? ((p.x - segment.from.x) * dx + (p.y - segment.from.y) * dy) / length_squared : 0;
  along = std::clamp(along, 0.0f, 1.0f);
  const float x = p.x - segment.from.x - along * dx, y = p.y - segment.from.y - along * dy;
  return x * x + y * y;
}

void draw_digit(int digit, Rng& rng, uint8_t* pixels) {
  const std::vector<Segment> segments = write_digit(digit, rng);
  const float radius = between(rng, .7f, 1.6f);  // half the pen's width
  const float ink = between(rng, 180, 255), noise = between(rng, 0, 40);
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const Point p{static_cast<float>(column), static_cast<float>(row)};
      float nearest = 1e9f;
      for (const Segment& segment : segments) nearest = std::min(nearest, distance_squared(p, segment));
      const float cover = std::clamp(radius + .5f - std::sqrt(nearest), 0.0f, 1.0f);
      const float value = cover * ink + between(rng, -noise, noise);
      pixels[row * kSide + column] = static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

}  // namespace

Dataset draw_digits(uint32_t count, uint64_t rng_seed, uint64_t stream) {
  Rng rng(rng_seed ^ kDigitStream ^ (stream << 48));
  Dataset data{.shape = {1, kSide, kSide}};
  data.pixels.resize(size_t{count} * kSide * kSide);
  for (uint32_t i = 0; i < count; ++i) {
    data.labels.push_back(static_cast<uint8_t>(i % 10));
    draw_digit(static_cast<int>(i % 10), rng, data.pixels.data() + size_t{i} * kSide * kSide);
  }
  return data;
}

}  // namespace starling
