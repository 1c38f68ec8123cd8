#include "agent/share/update_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

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

}  // namespace

UpdateModel::UpdateModel(Trainer& trainer, const ExchangeConfig& exchange)
    : trainer_(trainer),
      params_(trainer.params()),
      on_host_(params_.space == MemorySpace::kHost),
      outer_{static_cast<float>(exchange.outer_momentum), static_cast<float>(exchange.outer_rate)},
      running_(make_update_codec(exchange.update)),
      exact_(make_update_codec({})),
      staged_(on_host_ ? 0 : params_.count, params_.space) {
  for (const TrainerSection& section : trainer.sections()) {
    if (section.kind != SectionKind::kAveraged || section.view.count == 0) continue;
    throw std::runtime_error("the model's section '" + section.name +
                             "' is averaged as values, which a swarm that "
                             "shares updates cannot do; write swarm.exchange.source: params");
  }
  const std::array sizes = {params_.count};
  slices_ = cut_slices(sizes, slices_max(exchange));
  replica_.resize(params_.count);
  accumulator_.resize(params_.count);
  if (running_->velocity().used) velocity_.resize(params_.count);
  if (outer_.has_momentum()) momentum_.resize(params_.count);
  adopt_params();
}

void UpdateModel::fill_x() {
  if (!on_host_) copy_to_host(params_, staged_.all().data());
}

void UpdateModel::show_x() {
  if (!on_host_) copy_from_host(staged_.all().data(), params_);
  trainer_.params_changed();
}

void UpdateModel::replica_to_trainer() {
  copy_from_host(replica_.data(), params_);
  trainer_.params_changed();
}

void UpdateModel::adopt_params() { copy_to_host(params_, replica_.data()); }

std::vector<std::byte> UpdateModel::save() const {
  if (replicas_ == nullptr) return {};
  Writer out;
  out.append(kMark);
  out.put(static_cast<uint32_t>(slices_.size()));
  out.put(xxh3_128(std::as_bytes(std::span(replica_))));
  for (const SliceReplica& replica : replicas_->all()) put_log(out, replica);
  out.append(std::as_bytes(std::span(momentum_)));
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
  const std::span<const std::byte> momentum = from.take_bytes(momentum_.size() * sizeof(float));
  if (!from.at_end()) return false;
  if (!momentum.empty()) std::memcpy(momentum_.data(), momentum.data(), momentum.size());
  replica_ = std::move(params);
  restored_ = std::move(states);
  return true;
}

}  // namespace starling
