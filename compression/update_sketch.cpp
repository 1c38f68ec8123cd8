#include "compression/update_sketch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/check.h"
#include "kernels/top_k.h"
#include "kernels/vector_ops.h"

namespace starling {
namespace {

using Cells = Int8Values;

constexpr uint32_t kRows = 3;
constexpr size_t kSeedBytes = 8;
constexpr double kNormRatioMax = 3;

double norm_of(Bytes table, size_t count) {
  std::array<float, kUpdatePiece> cells;
  double squares = 0;
  for (size_t at = 0; at < count; at += kUpdatePiece) {
    const size_t size = std::min(kUpdatePiece, count - at);
    Cells::read(table.data() + kSeedBytes, count, at, size, cells.data());
    squares += squared_norm(cells.data(), size);
  }
  return std::sqrt(squares);
}

size_t share_of(double density, size_t element_count) {
  return std::min(static_cast<size_t>(std::ceil(density * static_cast<double>(element_count))), element_count);
}

size_t candidates_of(const UpdateOptions& options, size_t element_count) {
  return std::min(share_of(options.density, element_count) * options.candidates, element_count);
}

}  // namespace

// ---- tables ----

SketchShape SketchTables::shape(size_t element_count, uint64_t seed) const {
  const size_t columns = share_of(options_.table / kRows, element_count);
  return {kRows, static_cast<uint32_t>(std::max(columns, kSketchBlock)), seed};
}

size_t SketchTables::bytes(size_t element_count) const {
  return kSeedBytes + Cells::bytes(shape(element_count, 0).cells());
}

bool SketchTables::encode(std::span<const float> x, const UpdateSeeds& seeds, MutableBytes out) const {
  STARLING_CHECK(out.size() == bytes(x.size()));
  const SketchShape sketch = shape(x.size(), seeds.common);
  std::vector<float> cells(sketch.cells());
  sketch_add(sketch, x.data(), x.size(), cells.data());
  if (count_nonfinite(cells.data(), cells.size()) > 0) return false;
  std::memcpy(out.data(), &sketch.seed, kSeedBytes);
  for (size_t at = 0; at < cells.size(); at += kUpdatePiece) {
    const size_t size = std::min(kUpdatePiece, cells.size() - at);
    STARLING_CHECK(Cells::write(out.data() + kSeedBytes, cells.size(), at, cells.data() + at, size, seeds.own));
  }
  return true;
}

std::optional<uint64_t> SketchTables::seed(Bytes table) {
  if (table.size() < kSeedBytes) return std::nullopt;
  uint64_t seed;
  std::memcpy(&seed, table.data(), sizeof seed);
  return seed;
}

UpdateStatus SketchTables::check(Bytes table, size_t element_count, uint64_t wanted) const {
  if (table.size() != bytes(element_count) || seed(table) != wanted) return UpdateStatus::kWrongSize;
  const bool good = Cells::valid(table.data() + kSeedBytes, shape(element_count, wanted).cells());
  return good ? UpdateStatus::kOk : UpdateStatus::kNonFinite;
}

// ---- requests ----

size_t SketchTables::requested_max(size_t element_count) const { return candidates_of(options_, element_count); }

size_t SketchTables::request_bytes_max(size_t element_count) const {
  return sparse_index_bytes_max(requested_max(element_count), element_count);
}

std::vector<std::byte> SketchTables::request(std::span<const SketchTerm> terms, size_t element_count,
                                             uint64_t seed) const {
  const SketchShape sketch = shape(element_count, seed);
  std::vector<double> norms;
  for (const SketchTerm& term : terms) norms.push_back(norm_of(term.table, sketch.cells()));
  std::vector<double> sorted = norms;
  std::sort(sorted.begin(), sorted.end());
  const double norm_max = sorted.empty() ? 0 : kNormRatioMax * sorted[(sorted.size() - 1) / 2];
  std::vector<LevelTerm> added;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!(norms[i] > 0)) continue;
    const double scale = std::min(1.0, norm_max / norms[i]);
    const auto weight = static_cast<float>(static_cast<double>(terms[i].weight) * scale);
    added.push_back(Cells::term(weight, terms[i].table.data() + kSeedBytes, sketch.cells()));
  }
  std::vector<float> sum(sketch.cells());
  levels_merge(Cells::kCodes, Cells::kBlock, added, sum.data(), sum.size());
  std::vector<uint32_t> indices(requested_max(element_count));
  TopKScratch scratch;
  std::array<float, kTopKPiece> estimates;  // of all elements they would be as many floats as there are elements
  const auto at = [&](size_t begin, size_t count) {
    sketch_estimate(sketch, sum.data(), begin, count, estimates.data());
    return estimates.data();
  };
  // Weights add up to one and cells are far below the largest float, so the sums are finite.
  const TopKValues values{at, kSketchBlock / 16, kSketchBlock};
  indices.resize(top_k(values, element_count, indices.size(), &scratch, indices.data()).value());
  std::vector<std::byte> out(request_bytes_max(element_count));
  out.resize(write_sparse_indices(indices, requested_max(element_count), element_count, out.data()));
  return out;
}

UpdateStatus SketchTables::check_request(Bytes request, size_t element_count) const {
  size_t count = 0, rest = 0;
  const UpdateStatus status =
      SparseParts::check_indices(request, requested_max(element_count), element_count, &count, &rest);
  return status == UpdateStatus::kOk && rest != 0 ? UpdateStatus::kWrongSize : status;
}

std::vector<uint32_t> SketchTables::requested(Bytes request) { return SparseParts(request).support().indices; }

// ---- the codec ----

UpdateResidual SketchUpdate::residual() const {
  constexpr double kLost = static_cast<double>(Bf16Values::kRounding);
  const double sent = std::min(1.0, options_.density * options_.candidates);
  return {.rounding = Bf16Values::kRounding, .unsent = true, .energy = 1 - sent * (1 - kLost)};
}

size_t SketchUpdate::elements_max(UpdateRole role, size_t element_count) const {
  return role == UpdateRole::kContribution ? candidates_of(options_, element_count) : share(element_count);
}

// Zeros are left out: they would say nothing.
std::optional<std::vector<uint32_t>> SketchUpdate::choose_indices(UpdateRole role, std::span<const float> x,
                                                                  const UpdateSeeds& seeds) const {
  if (seeds.requested.empty()) return largest_elements(x, elements_max(role, x.size()));
  if (count_nonfinite(x.data(), x.size()) > 0) return std::nullopt;
  STARLING_CHECK(seeds.requested.back() < x.size());
  std::vector<uint32_t> indices(seeds.requested.begin(), seeds.requested.end());
  std::erase_if(indices, [&](uint32_t i) { return x[i] == 0; });
  return indices;
}

}  // namespace starling
