// Text, as bytes: train.txt and test.txt, a file, or a folder of files. A sample is a run of bytes, and its label the
// byte that follows; runs do not overlap, so that an epoch visits each byte once.
#include <algorithm>
#include <filesystem>

#include "agent/data/file.h"
#include "agent/data/source.h"

namespace starling {
namespace {

constexpr uint64_t kTextMax = uint64_t{1} << 32;  // bytes; samples are numbered in 32 bits
constexpr int64_t kRun = 64;                      // where no model says how long
constexpr size_t kBuffer = 1 << 16;

ByteRange open_text(const std::string& path) {
  const ByteRange where = whole_file(path);
  if (where.packing != Packing::kNone) refuse_file(path, "compressed with gzip", "unpack it with gunzip");
  if (where.bytes > kTextMax) {
    refuse_file(path, std::to_string(where.bytes) + " bytes, more than 2^32", "cut it into shards, one an agent");
  }
  return where;
}

void check_byte(const std::string& path, uint64_t at, uint8_t byte, int64_t classes) {
  if (byte != 0 && byte < classes) return;
  const std::string what = "byte " + std::to_string(at) + " is " + std::to_string(byte);
  if (byte == 0) refuse_file(path, what + ", which no text has", "save it as UTF-8, or use other data");
  refuse_file(path, what + ", outside the model's " + std::to_string(classes) + " classes",
              "use plain text as its other members do; a new swarm may have swarm.model.classes: 256");
}

// Adds the byte behind each run.
void read_labels(const ByteRange& where, uint64_t run, int64_t classes, std::vector<uint8_t>& labels) {
  ByteStream stream(where);
  std::vector<uint8_t> buffer(kBuffer);
  for (uint64_t at = 0; at < where.bytes;) {
    const size_t count = stream.read_some(buffer.data(), kBuffer);
    for (size_t i = 0; i < count; ++i, ++at) {
      check_byte(where.path, at, buffer[i], classes);
      if (at > 0 && at % run == 0) labels.push_back(buffer[i]);
    }
    if (count == 0) break;
  }
}

SampleSource open_files(const std::string& place, const std::vector<std::string>& paths, const SampleSpec* model) {
  if (model != nullptr && (model->input.size() != 3 || model->input[0] != 1 || model->input[1] != 1)) {
    refuse_file(
        place, "text is a run of bytes but the model takes " + print_shape(model->input),
        "use images, as the other members; a new swarm for text comes from: starling init --data " + place + " FILE");
  }
  SampleSource source{.place = place, .shape = {1, 1, model == nullptr ? kRun : model->input[2]}};
  const auto run = static_cast<uint64_t>(source.shape[2]);
  std::vector<Records> parts;
  uint64_t bytes = 0;
  for (const std::string& path : paths) {
    const ByteRange where = open_text(path);
    bytes += where.bytes;
    if (bytes > kTextMax) refuse_file(place, "more than 2^32 bytes", "cut it into shards, one an agent");
    read_labels(where, run, model == nullptr ? 256 : model->classes, source.labels);
    parts.push_back({where, 0, run, (std::max<uint64_t>(where.bytes, 1) - 1) / run});
  }
  if (source.labels.empty()) {
    refuse_file(place, std::to_string(bytes) + " bytes, and one sample needs " + std::to_string(run + 1),
                "use a longer text, or a smaller swarm.model.input");
  }
  source.read = [parts, run](const std::vector<uint32_t>& indices, const TakePixels& take) {
    read_records(parts, static_cast<size_t>(run), indices, take);
  };
  return source;
}

OpenPart opener(const std::string& place, const std::vector<std::string>& paths) {
  if (paths.empty()) return {};
  return [=](const SampleSpec* model) { return open_files(paths.size() == 1 ? paths[0] : place, paths, model); };
}

std::vector<std::string> present(const std::string& folder, const std::vector<std::string>& names) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const std::string& name : names) {
    if (std::filesystem::exists(folder + "/" + name, error)) paths.push_back(folder + "/" + name);
  }
  return paths;
}

}  // namespace

std::vector<FoundData> find_text(const std::string& path) {
  std::error_code error;
  if (!is_folder(path)) {
    if (!has_ending(path, ".txt")) return {};
    return {{"text", path, opener(path, {path}), {}, false}};
  }
  const std::vector<std::string> train = present(path, {"train.txt"}), test = present(path, {"test.txt"});
  if (!train.empty() || !test.empty()) return {{"text", path, opener(path, train), opener(path, test), true}};
  std::vector<std::string> all;
  for (const std::string& name : names_in(path)) {
    if (!has_ending(name, ".txt") || is_folder(path + "/" + name)) return {};  // a readme beside other data
    all.push_back(path + "/" + name);
  }
  if (all.empty()) return {};
  return {{"text", path, opener(path, all), {}, false}};
}

}  // namespace starling
