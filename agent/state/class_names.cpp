#include "agent/state/class_names.h"

#include <algorithm>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "agent/state/private_file.h"

namespace starling {
namespace {

constexpr size_t kNamesMax = 256;
constexpr size_t kBytesMax = kNamesMax * 2048;  // a name of 255 bytes, escaped

std::string path_of(const std::string& folder) { return folder + "/classes"; }

std::string print_json(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// As it is kept.
std::string name_at(const std::vector<std::string>& names, size_t i) {
  return i < names.size() ? print_json(names[i]) : "none";
}

}  // namespace

std::vector<std::string> read_class_names(const std::string& folder) {
  const std::optional<std::string> text = read_private_file(path_of(folder), kBytesMax);
  if (!text) return {};
  const nlohmann::json names = nlohmann::json::parse(*text, nullptr, false);
  const bool good = names.is_array() && names.size() <= kNamesMax &&
                    std::all_of(names.begin(), names.end(), [](const auto& name) { return name.is_string(); });
  if (good) return names.get<std::vector<std::string>>();
  throw std::runtime_error(path_of(folder) +
                           " holds no names of classes: delete it, and the agent's next start writes it anew");
}

void write_class_names(const std::string& folder, const std::vector<std::string>& names, FileOps& files) {
  write_private_file(path_of(folder), print_class_names(names) + "\n", files);
}

std::string print_class_names(const std::vector<std::string>& names) { return print_json(names); }

std::string class_difference(const std::vector<std::string>& data, const std::vector<std::string>& model) {
  if (data.empty() || model.empty()) return "";
  for (size_t i = 0; i < std::max(data.size(), model.size()); ++i) {
    if (name_at(data, i) == name_at(model, i)) continue;
    return "class " + std::to_string(i) + " is " + name_at(data, i) + ", and " + name_at(model, i) + " in the model";
  }
  return "";
}

}  // namespace starling
