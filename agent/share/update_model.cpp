#include "agent/share/update_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "gossip/limits.h"
#include "gossip/net/hash.h"
#include "kernels/check.h"
#include "kernels/transfer.h"

namespace starling {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied, not converted");

// What an encoder saves has a 1 in its second byte, and a rule's memory begins with 0x81.
constexpr std::array kMark = {std::byte{0x82}, std::byte{2}, std::byte{0}, std::byte{0}};

class Writer {
 public:
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  void put(const T& value) {
    append(std::as_bytes(std::span(&value, 1)));
  }
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Of bytes that may be damaged: once too short, every value is zero and ok() is false.
class SavedReader {
 public:
  explicit SavedReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T take() {
    T value{};
    const std::span<const std::byte> bytes = take_bytes(sizeof value);
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take_bytes(size_t count) {
    ok_ = ok_ && count <= rest_.size();
    if (!ok_) return {};
    const std::span<const std::byte> bytes = rest_.first(count);
    rest_ = rest_.subspan(count);
    return bytes;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

void put_row(Writer& out, const CountedRow& row) {
  out.put(row.peer.bytes);
  const auto& [peer, generation, newest, window, length, far, before_far, before_window] = row;
  for (const uint64_t number : {generation, newest, window, length, far, before_far, before_window}) out.put(number);
}

CountedRow take_row(SavedReader& from) {
  CountedRow row;
  row.peer.bytes = from.take<decltype(row.peer.bytes)>();
  row.generation = from.take<uint64_t>();
  row.newest = from.take<uint64_t>();
  row.window = from.take<uint64_t>();
  row.length = from.take<uint64_t>();
  row.far = from.take<uint64_t>();
  row.before_far = from.take<uint64_t>();
  row.before_window = from.take<uint64_t>();
  return row;
}

void put_log(Writer& out, const SliceReplica& replica) {
  out.put(replica.head().length);
  out.put(replica.head().weight);
  out.put(replica.head().hash);
  out.put(static_cast<uint32_t>(replica.table().rows().size()));
  for (const CountedRow& row : replica.table().rows()) put_row(out, row);
  out.put(static_cast<uint32_t>(replica.recent().size()));
  for (const RecentEntry& entry : replica.recent()) {
    out.put(entry.hash);
    out.put(entry.norm);
    out.put(entry.payload_norm);
  }
}

std::optional<SliceState> take_log(SavedReader& from, uint32_t slice) {
  SliceState state;
  state.slice = slice;
  state.head.length = from.take<uint64_t>();
  state.head.weight = from.take<uint64_t>();
  state.head.hash = from.take<Digest16>();
  const auto rows = from.take<uint32_t>();
  if (rows > kCountedRowsMax) return std::nullopt;
  for (uint32_t i = 0; i < rows; ++i) state.table.push_back(take_row(from));
  const auto recent = from.take<uint32_t>();
  if (recent > kRecentEntries) return std::nullopt;
  for (uint32_t i = 0; i < recent; ++i) {
    RecentEntry entry;
    entry.hash = from.take<Digest16>();
    entry.norm = from.take<float>();
    entry.payload_norm = from.take<float>();
    state.recent.push_back(entry);
  }
  return from.ok() ? std::optional(state) : std::nullopt;
}

// Why it has no room for so much; empty: it has. The trainer takes its own memory in its first steps.
std::string why_no_room_on_device(size_t bytes) {
  const size_t free = free_device_bytes();
  if (bytes <= free / 4) return "";
  const auto in_gb = [](size_t count) { return static_cast<double>(count) / 1e9; };
  return fmt::format("it would take {:.1f} of the {:.1f} GB that this GPU has free", in_gb(bytes), in_gb(free));
}

// Where the params lie, or on the host; then that is logged.
std::unique_ptr<SliceMath> math_for(ConstView params, const ExchangeConfig& exchange, const UpdateCodec& running) {
  if (params.space == MemorySpace::kHost) return make_slice_math(params.space);
  std::string why = "swarm.exchange.update.pipeline sends from there";
  if (!exchange.update_pipeline) {
    std::unique_ptr<SliceMath> math = make_slice_math(params.space);
    const size_t whole = params.count * sizeof(float), vectors = exchange.outer_momentum > 0 ? 3 : 2;
    const size_t of_calls = 3 * whole / slices_max(exchange);
    why = math->takes(running) ? why_no_room_on_device(vectors * whole + of_calls)
                               : fmt::format("the codec {} runs on the CPU alone", update_name(exchange.update.kind));
    if (why.empty()) return math;
  }
  spdlog::info("the replica of the model stays in host memory, and each exchange copies the model there and back: {}",
               why);
  return make_slice_math(MemorySpace::kHost);
}

}  // namespace

UpdateModel::UpdateModel(Trainer& trainer, const ExchangeConfig& exchange)
    : trainer_(trainer),
      params_(trainer.params()),
      outer_{static_cast<float>(exchange.outer_momentum), static_cast<float>(exchange.outer_rate)},
      running_(make_update_codec(exchange.update)),
      exact_(make_update_codec({})),
      math_(math_for(params_, exchange, *running_)),
      stages_(params_.space != math_->space()),
      replica_(math_->space(), params_.count),
      momentum_(math_->space(), outer_.has_momentum() ? params_.count : 0),
      accumulator_(math_->space(), params_.count),
      velocity_(math_->space(), running_->velocity().used ? params_.count : 0),
      staged_(params_.space, stages_ ? params_.count : 0, FloatMemory::Place::kStaging) {
  for (const TrainerSection& section : trainer.sections()) {
    if (section.kind != SectionKind::kAveraged || section.view.count == 0) continue;
    throw std::runtime_error("the model's section '" + section.name +
                             "' is averaged as values, which a swarm that "
                             "shares updates cannot do; write swarm.exchange.source: params");
  }
  const std::array sizes = {params_.count};
  slices_ = cut_slices(sizes, slices_max(exchange));
  adopt_params();
}

void UpdateModel::fill_x() {
  if (stages_) copy(params_, staged_.view());
}

void UpdateModel::show_x() {
  if (stages_) copy(staged_.view(), params_);
  trainer_.params_changed();
}

void UpdateModel::replica_to_trainer() {
  copy(replica_.view(), params_);
  trainer_.params_changed();
}

void UpdateModel::adopt_params() { copy(params_, replica_.view()); }

std::vector<std::byte> UpdateModel::save() const {
  if (replicas_ == nullptr) return {};
  Writer out;
  out.append(kMark);
  out.put(static_cast<uint32_t>(slices_.size()));
  out.put(xxh3_128(std::as_bytes(HostValues(replica_.view()).all())));
  for (const SliceReplica& replica : replicas_->all()) put_log(out, replica);
  out.append(std::as_bytes(HostValues(momentum_.view()).all()));
  return out.take();
}

bool UpdateModel::load(std::span<const std::byte> saved) {
  SavedReader from(saved);
  const std::span<const std::byte> mark = from.take_bytes(kMark.size());
  if (!std::equal(mark.begin(), mark.end(), kMark.begin(), kMark.end())) return false;
  if (from.take<uint32_t>() != slices_.size()) return false;
  const auto hash = from.take<Digest16>();
  std::vector<float> params(params_.count);
  copy_to_host(params_, params.data());
  if (xxh3_128(std::as_bytes(std::span(params))) != hash) return false;
  std::vector<SliceState> states;
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    std::optional<SliceState> state = take_log(from, i);
    if (!state) return false;
    states.push_back(std::move(*state));
  }
  const std::span<const std::byte> momentum = from.take_bytes(momentum_.all().size_bytes());
  if (!from.at_end()) return false;
  copy_from_host(momentum.data(), momentum_.view());
  copy_from_host(params.data(), replica_.view());
  restored_ = std::move(states);
  return true;
}

}  // namespace starling
