#include "agent/commands/topology_updates.h"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "agent/commands/topology.h"
#include "agent/config/values.h"
#include "agent/report/format.h"
#include "compression/update_codec.h"
#include "compression/update_sketch.h"
#include "gossip/exchange/options.h"
#include "gossip/limits.h"
#include "gossip/updates/update_replicas.h"

namespace starling {
namespace {

constexpr uint64_t kMembersDefault = 8;

// Of the whole model: what one member hands in, and what the owners send back to one member.
struct Sizes { uint64_t up = 0, down = 0; };

// At most: the last of a payload's coded indices depend on the values, by a twentieth.
Sizes sizes_of(const UpdateOptions& update, uint64_t params) {
  ExchangeConfig exchange;
  exchange.update = update;
  const std::unique_ptr<UpdateCodec> codec = make_update_codec(update);
  const std::array whole = {static_cast<size_t>(params)};
  Sizes sizes;
  for (const SliceRange& slice : cut_slices(whole, slices_max(exchange))) {
    if (slice.count > UINT32_MAX) {
      throw std::runtime_error("--params " + std::to_string(params) + "; with " +
                               std::string(update_name(update.kind)) + " a model has at most " +
                               std::to_string(slices_max(exchange) * uint64_t{UINT32_MAX}));
    }
    sizes.up += codec->bytes_max(UpdateRole::kContribution, slice.count);
    sizes.down += codec->bytes_max(UpdateRole::kEntry, slice.count);
    if (codec->tables() == nullptr) continue;
    sizes.up += codec->tables()->bytes(slice.count);
    sizes.down += codec->tables()->request_bytes_max(slice.count);
  }
  return sizes;
}

void refuse_graph_flags(const TopologyOptions& options) {
  const bool graph = !options.kind.empty() || options.degree || !options.file.empty() || !options.svg.empty();
  const bool params = options.codec != "fp32" || options.fragments != 1;
  if (!graph && !params) return;
  throw std::runtime_error(
      "--update is of one group of all members, for which no graph and no codec of "
      "params counts; leave all flags out but --agents, --params and --density");
}

}  // namespace

std::string print_update_loads(const TopologyOptions& options) {
  refuse_graph_flags(options);
  const uint64_t agents = options.agents.value_or(kMembersDefault);
  if (agents < 2 || agents > kUpdateMembersMax) {
    throw std::runtime_error("--agents " + std::to_string(agents) + "; updates are shared by 2 to " +
                             std::to_string(kUpdateMembersMax) + " agents");
  }
  check_params(options.params);
  std::vector<UpdateKind> kinds;
  for (const UpdateName& one : update_names()) {
    if (options.update == "all" || options.update == one.name) kinds.push_back(one.kind);
  }
  if (kinds.empty()) {
    std::vector<std::string> words = update_words();
    words.insert(words.begin(), "all");
    throw_unknown("update codec", options.update, words);
  }
  constexpr const char* kRow = "{:<12} {:>9} {:>10} {:>11} {:>16}\n";
  std::string text = fmt::format(
      "{} agents, {} params; bytes: sent by each agent in one round, and as many "
      "received\n\n",
      agents, options.params);
  text += fmt::format(kRow, "update", "bits up", "bits down", "bytes", "fewer than fp32");
  const double density = options.density.value_or(UpdateOptions().density);
  const Sizes exact = sizes_of({}, options.params);
  for (const UpdateKind kind : kinds) {
    const Sizes sizes = sizes_of({.kind = kind, .density = density}, options.params);
    const auto bits = [&](uint64_t bytes) {
      return fmt::format("{:.2f}", 8 * static_cast<double>(bytes) / static_cast<double>(options.params));
    };
    const uint64_t sent = (agents - 1) * (sizes.up + sizes.down) / agents;
    text += fmt::format(kRow, update_name(kind), bits(sizes.up), bits(sizes.down), print_bytes(sent),
                        fmt::format("{:.1f}x", static_cast<double>(exact.up + exact.down) /
                                                   static_cast<double>(sizes.up + sizes.down)));
  }
  return text +
         "\nbits: of an element, on its way to the owners of the slices and back; bytes: at most, and without\n"
         "what comes with any exchange (membership, heads of messages). The other keys of\n"
         "swarm.exchange.update are as by default\n";
}

}  // namespace starling
