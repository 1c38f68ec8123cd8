// The reading half of tensor files. They are foreign: each number is compared with the file's size before it is used.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/data/byte_stream.h"
#include "agent/data/file.h"
#include "agent/data/zip.h"
#include "agent/state/tensor_file.h"
#include "gossip/net/hash.h"

namespace starling {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kHeaderMax = 1 << 20;
constexpr size_t kTensorsMax = 4096, kDimensionsMax = 8;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  refuse_file(path, what, "name a .safetensors or .pt file of starling export, or a good copy of this one");
}

struct Place {
  std::string name;
  std::vector<int64_t> shape;
  uint64_t values = 0;
  ByteRange where;
};

uint64_t count_values(const std::string& path, const Place& place, uint64_t most) {
  uint64_t count = 1;
  for (const int64_t side : place.shape) {
    if (side < 1 || static_cast<uint64_t>(side) > most / count) refuse(path, place.name + " is larger than the file");
    count *= static_cast<uint64_t>(side);
  }
  return count;
}

LoadedTensors load(const std::string& path, uint64_t bytes, const std::vector<Place>& places,
                   std::vector<std::pair<std::string, std::string>> metadata) {
  uint64_t total = 0;
  for (const Place& place : places) total += place.values;
  if (places.empty() || total > bytes / sizeof(float)) refuse(path, "its tensors are none, or overlap");
  auto values = std::make_shared<std::vector<float>>(total);
  LoadedTensors loaded;
  loaded.file.metadata = std::move(metadata);
  float* next = values->data();
  for (const Place& place : places) {
    ByteStream stream(place.where);
    stream.seek(place.where.begin);
    stream.read(reinterpret_cast<uint8_t*>(next), place.values * sizeof(float));
    loaded.file.tensors.push_back({place.name, place.shape, {next, place.values}});
    next += place.values;
  }
  loaded.values = std::move(values);
  return loaded;
}

// ---- safetensors ----

Place place_in_header(const std::string& path, const std::string& name, const Json& entry, const ByteRange& values) {
  Place place{.name = name, .shape = {}, .values = 0, .where = values};
  const auto is = [&entry](const char* key, auto test) {
    return entry.is_object() && entry.contains(key) && test(entry[key]);
  };
  const auto counts = [](size_t least, size_t most) {
    return [least, most](const Json& list) {
      return list.is_array() && list.size() >= least && list.size() <= most &&
             std::all_of(list.begin(), list.end(), [](const Json& one) { return one.is_number_unsigned(); });
    };
  };
  if (!is("dtype", [](const Json& type) { return type == "F32"; })) refuse(path, name + " is not of type F32");
  if (!is("shape", counts(0, kDimensionsMax)) || !is("data_offsets", counts(2, 2))) {
    refuse(path, name + " has no shape or place");
  }
  for (const Json& side : entry["shape"]) {
    place.shape.push_back(static_cast<int64_t>(std::min(side.get<uint64_t>(), uint64_t{1} << 62)));
  }
  const uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
  place.values = count_values(path, place, values.bytes / sizeof(float));
  if (begin > end || end > values.bytes || end - begin != place.values * sizeof(float)) {
    refuse(path, name + " does not lie in the file as its shape says; cut short, or damaged");
  }
  place.where.begin += begin;
  place.where.bytes = end - begin;
  return place;
}

LoadedTensors read_safetensors(const std::string& path) {
  uint64_t bytes = 0, header_bytes = 0;
  std::ifstream file = open_data_file(path, &bytes);
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  if (!file || header_bytes > kHeaderMax || header_bytes > bytes - sizeof header_bytes) {
    refuse(path, "no safetensors file, or cut short");
  }
  std::string text(header_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const Json header = file ? Json::parse(text, nullptr, false) : Json();
  if (!header.is_object() || header.size() > kTensorsMax) refuse(path, "no safetensors file: its header is damaged");
  ByteRange values{.path = path, .member = {}};
  values.begin = sizeof header_bytes + header_bytes;
  values.bytes = bytes - values.begin;
  values.packed_bytes = bytes;
  std::vector<Place> places;
  std::vector<std::pair<std::string, std::string>> metadata;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      places.push_back(place_in_header(path, name, entry, values));
      continue;
    }
    if (!entry.is_object()) refuse(path, "its metadata are damaged");
    for (const auto& [key, value] : entry.items()) {
      if (value.is_string()) metadata.emplace_back(key, value);
    }
  }
  const auto before = [](const Place& a, const Place& b) { return a.where.begin < b.where.begin; };
  std::sort(places.begin(), places.end(), before);
  return load(path, values.bytes, places, std::move(metadata));
}

// ---- .pt ----

// The pickle that put_pt() writes, and no other: nothing is built or called.
class ExportedPickle {
 public:
  ExportedPickle(const std::string& path, std::string bytes) : path_(path), bytes_(std::move(bytes)) {}

  void expect(std::string_view part) {
    if (!skip(part)) refuse(path_, "no .pt file of starling export");
  }
  bool skip(std::string_view part) {
    if (bytes_.compare(at_, part.size(), part) != 0) return false;
    at_ += part.size();
    return true;
  }
  std::string text() {
    expect("X");
    const auto size = take<uint32_t>();
    if (size > bytes_.size() - at_) refuse(path_, "cut short, or damaged");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  int64_t number() {
    expect("J");
    return take<int32_t>();
  }
  bool at_text() const { return at_ < bytes_.size() && bytes_[at_] == 'X'; }
  bool at_number() const { return at_ < bytes_.size() && bytes_[at_] == 'J'; }

 private:
  template <typename T>
  T take() {
    T value;
    if (bytes_.size() - at_ < sizeof value) refuse(path_, "cut short, or damaged");
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  const std::string& path_;
  const std::string bytes_;
  size_t at_ = 0;
};

constexpr std::string_view kEmptyDict = "ccollections\nOrderedDict\n)R";

ByteRange member_of(const std::string& path, const std::vector<ByteRange>& members, const std::string& name) {
  for (const ByteRange& member : members) {
    if (member.member == name && member.packing == Packing::kNone) return member;
  }
  refuse(path, "no .pt file of starling export: it lacks " + name);
}

Place place_in_pickle(const std::string& path, ExportedPickle& pickle, const std::vector<ByteRange>& members) {
  Place place{.name = pickle.text(), .shape = {}, .values = 0, .where = {}};
  pickle.expect("ctorch._utils\n_rebuild_tensor_v2\n((");
  (void)pickle.text();
  pickle.expect("ctorch\nFloatStorage\n");
  place.where = member_of(path, members, "archive/data/" + pickle.text());
  (void)pickle.text();
  (void)pickle.number();
  pickle.expect("tQ");
  (void)pickle.number();
  pickle.expect("(");
  while (pickle.at_number() && place.shape.size() < kDimensionsMax) place.shape.push_back(pickle.number());
  pickle.expect("t(");
  while (pickle.at_number()) (void)pickle.number();
  pickle.expect("t\x89");
  pickle.expect(kEmptyDict);
  pickle.expect("tR");
  place.values = count_values(path, place, place.where.bytes / sizeof(float));
  if (place.where.bytes != place.values * sizeof(float)) refuse(path, place.name + " has another size than its values");
  return place;
}

LoadedTensors read_pt(const std::string& path) {
  uint64_t bytes = 0;
  (void)open_data_file(path, &bytes);
  const std::vector<ByteRange> members = list_zip(path);
  const ByteRange about = member_of(path, members, "archive/data.pkl");
  if (about.bytes > kHeaderMax) refuse(path, "no .pt file of starling export: its description is too large");
  std::string text(about.bytes, '\0');
  ByteStream(about).read(reinterpret_cast<uint8_t*>(text.data()), text.size());
  ExportedPickle pickle(path, std::move(text));
  pickle.expect("\x80\2");
  pickle.expect(kEmptyDict);
  pickle.expect("(");
  std::vector<Place> places;
  while (pickle.at_text() && places.size() < kTensorsMax) places.push_back(place_in_pickle(path, pickle, members));
  pickle.expect("u}(");
  (void)pickle.text();
  pickle.expect("}(");
  std::vector<std::pair<std::string, std::string>> metadata;
  while (pickle.at_text()) {
    std::string name = pickle.text();
    metadata.emplace_back(std::move(name), pickle.text());
  }
  pickle.expect("uub.");
  return load(path, bytes, places, std::move(metadata));
}

}  // namespace

std::string metadata_of(const TensorFile& file, std::string_view name) {
  for (const auto& [key, text] : file.metadata) {
    if (key == name) return text;
  }
  return "";
}

std::string values_digest(const TensorFile& file) {
  Blake2b256 digest;
  for (const NamedTensor& tensor : file.tensors) digest.update(std::as_bytes(tensor.values));
  std::string hex;
  for (const uint8_t byte : digest.finish()) hex += fmt::format("{:02x}", byte);
  return hex;
}

LoadedTensors read_tensor_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) refuse(path, error ? error.message() : "not a regular file");
  LoadedTensors loaded = path.ends_with(".pt") ? read_pt(path) : read_safetensors(path);
  const std::string digest = metadata_of(loaded.file, kDigestKey);
  if (!digest.empty() && digest != values_digest(loaded.file)) {
    refuse(path, std::string("damaged, or changed by a program that kept its digest (") + kDigestKey +
                     " of the metadata): its values have another one");
  }
  return loaded;
}

}  // namespace starling
