// The table of a later Starling: every key of today and one that came with version 0.8.0. A program that is linked with
// this file has it instead of its own, and is that later Starling. With LATER_DEFAULT_CHANGED there is a second key,
// whose default is no longer what Starling did before there was the key.
#define config_fields fields_of_today
#include "agent/config/fields.cpp"
#undef config_fields

namespace starling {
namespace {

// Kept in a place that the quadratic model does not read.
template <typename At>
ConfigField later_row(const char* path, const char* since, const char* unwritten, At at) {
  ConfigField field = row(path, "", "", at, CountValue{1, 1000});
  field.since = since;
  field.unwritten = unwritten;
  return field;
}

}  // namespace

const std::vector<ConfigField>& config_fields() {
  static const std::vector<ConfigField> fields = [] {
    std::vector<ConfigField> table = fields_of_today();
    const auto place = std::find_if(table.begin(), table.end(), [](const ConfigField& field) {
      return field.path.starts_with("swarm.topology.");  // what comes behind swarm.exchange
    });
    table.insert(place, later_row("swarm.exchange.patience", "0.8.0", "8",
                                  [](auto& config) -> auto& { return config.swarm.model.channels; }));
#ifdef LATER_DEFAULT_CHANGED
    table.push_back(later_row("swarm.later.number", "0.9.0", "7",
                              [](auto& config) -> auto& { return config.swarm.topology.rng_seed; }));
#endif
    return table;
  }();
  return fields;
}

}  // namespace starling
